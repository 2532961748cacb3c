from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from metronome_opt.instance import Instance
from metronome_opt.plot import plot_classes
from metronome_opt.slowdown.times import Times
from tests.builders import job, network
from tests.plot.examples import HEAVY, LIGHT, instance, texts

# Periods are 20 and 30 ms.
BEFORE = {LIGHT: Fraction(25), HEAVY: Fraction(30)}
AFTER = {LIGHT: Fraction(22), HEAVY: Fraction(30)}
LATE_BEFORE, LATE_AFTER = 1.25, 1.1


def points(axes: Axes, label: str) -> list[tuple[float, float]]:
    """Return the points of a legend entry; none if there is no such entry."""
    drawn = (each for each in axes.collections if each.get_label() == label)
    return [(float(x), float(y)) for each in drawn for x, y in np.asarray(each.get_offsets())]


def names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_line_runs_from_before_to_after() -> None:
    axes = plot_classes(instance(), Times(BEFORE, AFTER))
    ((gain, row),) = points(axes, "after: shorter")
    assert gain == pytest.approx(LATE_AFTER)
    assert [x for x, _ in points(axes, "after: as long")] == [1]
    assert points(axes, "after: longer") == []
    assert sorted(x for x, _ in points(axes, "before")) == pytest.approx([1, LATE_BEFORE])
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    (line,) = (each for each in lines if np.ptp(each.get_segments()[0][:, 0]) > 0)
    ends = np.array([[LATE_BEFORE, row], [LATE_AFTER, row]])
    assert line.get_segments()[0] == pytest.approx(ends)


def test_heaviest_class_is_on_top_with_means() -> None:
    axes = plot_classes(instance(), Times(BEFORE, AFTER))
    assert names(axes) == [HEAVY, LIGHT]
    bottom, top = axes.get_ylim()
    assert top < bottom
    assert "weight 4: 1 job, mean 1.000× → 1.000×" in texts(axes)
    assert f"weight 1: 1 job, mean {LATE_BEFORE:.3f}× → {LATE_AFTER:.3f}×" in texts(axes)


def one_class(count: int) -> tuple[Instance, dict[str, Fraction]]:
    """Return jobs of one class, the later the higher their number."""
    jobs = (job(f"j{n}", 100, (0, 50, 100), links={}) for n in range(count))
    return network(*jobs), {f"j{n}": Fraction(600 + n) for n in range(count)}


def test_class_is_sorted_by_gain_then_lateness() -> None:
    problem, before = one_class(4)
    after = {**before, "j0": Fraction(550), "j2": Fraction(520), "j3": Fraction(590)}
    assert names(plot_classes(problem, Times(before, after))) == ["j2", "j0", "j3", "j1"]
    assert names(plot_classes(problem, Times(before, before))) == ["j3", "j2", "j1", "j0"]


def test_many_names_keep_distance() -> None:
    problem, before = one_class(300)
    axes = plot_classes(problem, Times(before, before))
    assert 40 < len(names(axes)) < 150
    assert len(points(axes, "before")) == 300
