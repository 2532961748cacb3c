"""The picture of a front, against points set by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from metronome_opt.errors import InputError
from metronome_opt.multiobjective.front import Front
from metronome_opt.plot import plot_front
from metronome_opt.result import Stop
from metronome_opt.schedule import Schedule, Status
from tests.builders import two_jobs

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
    schedules = tuple(
        Schedule(
            instance="two-jobs",
            offsets={"a": 0, "b": 0},
            stretch={},
            status=Status.FEASIBLE,
            objectives=point,
            lower_bound=None,
            solver="auto",
            seed=0,
            runtime_s=0.0,
        )
        for point in points
    )
    facts = {"complete": True, "stop": Stop.PROVED, "runtime_s": 1.0, **fields}
    return Front(two_jobs(), names, schedules, **facts)


POINTS = (values(10, 9), values(20, 4), values(40, 3))


def dots(panel: Axes) -> list[tuple[float, float]]:
    (found,) = (each for each in panel.collections if each.get_gid() == "front-points")
    assert isinstance(found, PathCollection)
    return [(float(x), float(y)) for x, y in np.asarray(found.get_offsets())]


def line(panel: Axes, name: str) -> list[tuple[float, float]]:
    (found,) = (each for each in panel.lines if each.get_gid() == f"front-{name}")
    # Steps run to the next place along the first axis before they run along the second.
    assert found.get_drawstyle() == ("steps-post" if name == "steps" else "default")
    return [(float(x), float(y)) for x, y in np.asarray(found.get_xydata())]


def words(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.texts if isinstance(text, Annotation)]


def named(panel: Axes) -> list[str]:
    legend = panel.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def ticks(panel: Axes) -> list[str]:
    return [label.get_text() for label in panel.get_xticklabels()]


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_xlabel()]


def test_points_are_numbered_and_axes_have_units() -> None:
    (panel,) = panels(plot_front(front(*POINTS)))
    assert dots(panel) == [(10, 9), (20, 4), (40, 3)]
    assert words(panel) == ["1", "2", "3"]
    assert panel.get_xlabel() == "contention (weight × Mbit/s)"
    assert panel.get_ylabel() == "latency (% of all traffic)"


def test_steps_run_where_both_are_as_bad_as_either_neighbour() -> None:
    (panel,) = panels(plot_front(front(*POINTS)))
    steps = line(panel, "steps")
    assert steps[1:-1] == [(10, 9), (20, 4), (40, 3)]
    assert steps[0] == (10, panel.get_ylim()[1])
    assert steps[-1] == (panel.get_xlim()[1], 3)


def test_more_cushion_is_better_so_its_steps_turn_round() -> None:
    # In the order of a front: the largest cushion first, with the largest contention.
    points = (values(30, 0, 5), values(20, 0, 2), values(10, 0, 0))
    (panel,) = panels(plot_front(front(*points, names=("cushion", "contention"))))
    steps = line(panel, "steps")
    assert steps[1:-1] == [(5, 30), (2, 20), (0, 10)]
    assert steps[-1] == (panel.get_xlim()[0], 10)


def test_other_schedules_have_names_and_markers_of_their_own() -> None:
    others = {"greedy": values(30, 8), "cassini": values(35, 8), "mine": values(38, 8)}
    figure = plot_front(front(*POINTS), others=others)
    (panel,) = panels(figure)
    assert line(panel, "cassini") == [(35, 8)]
    assert named(panel) == ["greedy", "cassini", "mine"]
    looks = {str(each.get_marker()) for each in panel.lines if each.get_gid() != "front-steps"}
    assert len(looks) == 3


def test_a_front_that_would_be_a_dot_is_drawn_twice() -> None:
    far = {"unshifted": values(1000, 90)}
    whole, close = panels(plot_front(front(*POINTS), others=far))
    assert line(whole, "unshifted") == [(1000, 90)]
    assert named(whole) == ["unshifted"]
    assert words(whole) == []
    assert close.get_xlim()[1] < 50
    assert words(close) == ["1", "2", "3"]


def test_the_reference_is_a_schedule_or_a_mark_of_its_own() -> None:
    others = {"unshifted": values(50, 10)}
    (panel,) = panels(
        plot_front(front(*POINTS), others=others, reference={"contention": 50, "latency": "10%"})
    )
    assert named(panel) == ["unshifted, reference"]
    (panel,) = panels(
        plot_front(front(*POINTS), others=others, reference={"contention": 45, "latency": "10%"})
    )
    assert named(panel) == ["unshifted", "reference"]
    assert line(panel, "reference") == [(45, 10)]


def test_a_cushion_without_limit_is_at_the_far_end() -> None:
    points = (values(30, 0, None), values(20, 0, 6), values(10, 0, 0))
    (panel,) = panels(plot_front(front(*points, names=("cushion", "contention"))))
    (x, y), *others = dots(panel)
    assert y == 30
    assert x > 6
    assert others == [(6, 20), (0, 10)]
    assert ticks(panel)[-1] == "no limit"
    assert ticks(panel)[-2] == "6"  # no number above the largest


def test_the_third_objective_is_the_colour() -> None:
    points = (values(10, 9, 1), values(20, 4, 7), values(40, 3, None))
    figure = plot_front(front(*points, names=("contention", "latency", "cushion")))
    (panel,) = panels(figure)
    (found,) = (each for each in panel.collections if each.get_gid() == "front-points")
    thirds = np.asarray(found.get_array())
    assert list(thirds[:2]) == [1, 7]
    assert thirds[2] > 7
    (scale,) = (axes for axes in figure.axes if axes.get_ylabel() == "cushion (slots)")
    assert [label.get_text() for label in scale.get_yticklabels()][-1] == "no limit"
    assert not [each for each in panel.lines if each.get_gid() == "front-steps"]


def test_it_says_when_it_is_not_complete() -> None:
    (panel,) = panels(plot_front(front(*POINTS, complete=False)))
    assert "not proved complete" in panel.get_title("right")
    (panel,) = panels(plot_front(front(*POINTS)))
    assert panel.get_title("right") == ""


def test_one_point_is_a_front_too() -> None:
    (panel,) = panels(plot_front(front(values(0, 0)), others={"greedy": values(5, 5)}))
    assert dots(panel) == [(0, 0)]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match=r"^front: has no points"):
        plot_front(front())
    with pytest.raises(InputError, match=r"^others\.mine: latency is missing"):
        plot_front(front(*POINTS), others={"mine": {"contention": Fraction(1)}})
    with pytest.raises(InputError, match=r"^reference: latency is missing"):
        plot_front(front(*POINTS), reference={"contention": 1})
