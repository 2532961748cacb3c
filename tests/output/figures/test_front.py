"""The figure of a front shows its points, steps and further schedules."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from metronome_opt.errors import InputError
from metronome_opt.plot import plot_front
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.multiobjective.front import Front
from tests.builders import schedule, two_jobs

Values = dict[str, Fraction | None]


def values(contention: int, percent: int, cushion: int | None = 0) -> Values:
    return {
        "contention": Fraction(contention),
        "latency": Fraction(percent, 100),
        "cushion": None if cushion is None else Fraction(cushion),
    }


def front(
    *points: Values, names: tuple[str, ...] = ("contention", "latency"), **fields: Any
) -> Front:
    offsets = {"a": 0, "b": 0}
    schedules = tuple(schedule("two-jobs", offsets, objectives=point) for point in points)
    facts = {"complete": True, "stop": StopReason.PROVED, "runtime_s": 1.0, **fields}
    return Front(two_jobs(), names, schedules, **facts)


POINTS = (values(10, 9), values(20, 4), values(40, 3))


def points(axes: Axes, label: str | None = None) -> list[tuple[float, float]]:
    """Return the points of the front, or those of a schedule."""
    (drawn,) = (
        each
        for each in axes.collections
        if (each.get_gid() == "front-points" if label is None else each.get_label() == label)
    )
    return [(float(x), float(y)) for x, y in np.asarray(drawn.get_offsets())]


def steps(axes: Axes) -> list[tuple[float, float]]:
    (line,) = axes.lines
    # Steps run to the next position along the first axis before they run along the second.
    assert line.get_drawstyle() == "steps-post"
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def test_points_have_numbers_and_axes_units() -> None:
    axes = plot_front(front(*POINTS))
    assert points(axes) == [(10, 9), (20, 4), (40, 3)]
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3"]
    assert axes.get_xlabel() == "contention (weight × Mbit/s)"
    assert axes.get_ylabel() == "latency (% of all traffic)"
    assert axes.get_title("left") == "two-jobs: front of contention and latency, 3 points"


def test_steps_bound_dominated_region() -> None:
    axes = plot_front(front(*POINTS))
    assert steps(axes)[1:-1] == [(10, 9), (20, 4), (40, 3)]
    assert steps(axes)[0] == (10, axes.get_ylim()[1])
    assert steps(axes)[-1] == (axes.get_xlim()[1], 3)


def test_steps_of_cushion_are_reversed() -> None:
    # In the order of a front: the largest cushion first, with the largest contention.
    cushions = (values(30, 0, 5), values(20, 0, 2), values(10, 0, 0))
    axes = plot_front(front(*cushions, names=("cushion", "contention")))
    assert steps(axes)[1:-1] == [(5, 30), (2, 20), (0, 10)]
    assert steps(axes)[-1] == (axes.get_xlim()[0], 10)


def test_other_schedules_are_in_legend() -> None:
    others = {"greedy": values(30, 8), "cassini": values(35, 8), "mine": values(38, 8)}
    axes = plot_front(front(*POINTS), others=others)
    assert points(axes, "cassini") == [(35, 8)]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["greedy", "cassini", "mine"]


def test_unlimited_cushion_is_drawn_last() -> None:
    cushions = (values(30, 0, None), values(20, 0, 6), values(10, 0, 0))
    axes = plot_front(front(*cushions, names=("cushion", "contention")))
    (x, y), *others = points(axes)
    assert y == 30
    assert x > 6
    assert others == [(6, 20), (0, 10)]
    assert "no limit at" in axes.get_xlabel()


def test_wrong_fronts_are_refused() -> None:
    with pytest.raises(InputError, match=r"^front: has no points"):
        plot_front(front())
    with pytest.raises(InputError, match=r"^others\.mine: latency is missing"):
        plot_front(front(*POINTS), others={"mine": {"contention": Fraction(1)}})
