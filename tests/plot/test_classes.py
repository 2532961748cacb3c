"""The picture of who pays and who gains, against iterations worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metronome_opt.instance import Instance
from metronome_opt.plot import plot_classes
from metronome_opt.slowdown.times import Times
from tests.builders import job, network
from tests.plot.examples import HEAVY, LIGHT, check_dollars, instance, texts

# Periods are 20 and 30 ms.
BEFORE = {LIGHT: Fraction(25), HEAVY: Fraction(30)}
AFTER = {LIGHT: Fraction(22), HEAVY: Fraction(30)}
LATE_BEFORE, LATE_AFTER = 1.25, 1.1


def series(figure: Figure, kind: str) -> Line2D:
    """Return the marks of a kind."""
    (line,) = (line for line in figure.axes[0].lines if line.get_gid() == f"classes-{kind}")
    return line


def shares(figure: Figure, kind: str) -> list[float]:
    """Return iterations over periods of the marks of a kind."""
    return list(np.asarray(series(figure, kind).get_xdata()))


def names(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def connections(figure: Figure) -> list[LineCollection]:
    """Return the lines from before to after, by kind."""
    found = (each for each in figure.axes[0].collections if isinstance(each, LineCollection))
    return [each for each in found if each.get_segments()]


def test_a_gain_points_to_the_left() -> None:
    figure = plot_classes(instance(), Times(BEFORE, AFTER))
    assert shares(figure, "gains") == pytest.approx([LATE_AFTER])
    assert shares(figure, "stays") == [1]
    assert shares(figure, "pays") == []
    assert shares(figure, "before") == pytest.approx([1, LATE_BEFORE])
    (line,) = connections(figure)
    ((left, right),) = line.get_segments()
    assert [left[0], right[0]] == pytest.approx([LATE_BEFORE, LATE_AFTER])
    assert legend(figure) == ["before", "after: shorter, gains", "after: as long"]


def test_a_loss_differs_in_colour_arrow_and_line() -> None:
    looks = []
    for before, after, kind in ((BEFORE, AFTER, "gains"), (AFTER, BEFORE, "pays")):
        figure = plot_classes(instance(), Times(before, after))
        mark = series(figure, kind)
        (line,) = connections(figure)
        looks.append((mark.get_color(), mark.get_marker(), line.get_linestyle()))
    gain, loss = looks
    assert all(one != other for one, other in zip(gain, loss, strict=True))
    assert (gain[1], loss[1]) == ("<", ">")


def test_the_heaviest_class_is_on_top_and_says_its_mean() -> None:
    figure = plot_classes(instance(), Times(BEFORE, AFTER))
    assert names(figure) == [HEAVY, LIGHT]
    (heavy,), (light,) = (
        np.asarray(series(figure, kind).get_ydata()) for kind in ("stays", "gains")
    )
    bottom, top = figure.axes[0].get_ylim()
    assert top < heavy < light < bottom
    said = texts(figure)
    assert "weight 4: 1 job, mean 1.000× → 1.000×" in said
    assert f"weight 1: 1 job, mean {LATE_BEFORE:.3f}× → {LATE_AFTER:.3f}×" in said
    assert "example: who pays and who gains" in said
    check_dollars(figure)


def test_a_change_by_chance_is_none() -> None:
    figure = plot_classes(instance(), Times(BEFORE, {**BEFORE, HEAVY: Fraction("30.3")}))
    assert shares(figure, "stays") == pytest.approx([1.01, LATE_BEFORE])
    assert shares(figure, "pays") == []


def crowd(count: int) -> tuple[Instance, dict[str, Fraction]]:
    """Return jobs of one class that are the later the higher their number."""
    jobs = (job(f"j{n}", 100, (0, 50, 100), links={}) for n in range(count))
    return network(*jobs), {f"j{n}": Fraction(600 + n) for n in range(count)}


def test_within_a_class_who_gains_most_comes_first() -> None:
    problem, before = crowd(4)
    after = {**before, "j0": Fraction(550), "j2": Fraction(520), "j3": Fraction(590)}
    assert names(plot_classes(problem, Times(before, after))) == ["j2", "j0", "j3", "j1"]


def test_where_nothing_changes_the_latest_comes_first() -> None:
    problem, before = crowd(4)
    assert names(plot_classes(problem, Times(before, before))) == ["j3", "j2", "j1", "j0"]


def test_where_not_all_names_fit_those_that_change_most_are_there() -> None:
    problem, before = crowd(300)
    after = {**before, "j97": Fraction(510), "j3": Fraction(530)}
    figure = plot_classes(problem, Times(before, after))
    assert {"j97", "j3"} & set(names(figure)) == {"j97"}  # its neighbour, who gains less
    assert 60 < len(names(figure)) < 150
    assert len(shares(figure, "before")) == 300
    assert figure.get_size_inches()[1] < 15
