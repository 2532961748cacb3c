"""The picture of who pays and who gains, against iterations worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.plot import plot_classes, plot_overview
from tests.builders import job, network
from tests.plot.examples import AFTER, BEFORE, HEAVY, LIGHT, check_dollars, instance, texts

# In 12 slots "light" goes without 25 Gbit/s x slots before and 5 after, a third of it in each
# iteration of 4 slots; its rate is 40. The heavy job is served first.
LATE_BEFORE = 1 + 25 / 3 / 40 / 4
LATE_AFTER = 1 + 5 / 3 / 40 / 4


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
    figure = plot_classes(instance(), BEFORE, AFTER)
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
        figure = plot_classes(instance(), before, after)
        mark = series(figure, kind)
        (line,) = connections(figure)
        looks.append((mark.get_color(), mark.get_marker(), line.get_linestyle()))
    gain, loss = looks
    assert all(one != other for one, other in zip(gain, loss, strict=True))
    assert (gain[1], loss[1]) == ("<", ">")


def test_the_heaviest_class_is_on_top_and_says_its_mean() -> None:
    figure = plot_classes(instance(), BEFORE, AFTER)
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


def test_nothing_known_before_is_not_drawn() -> None:
    figure = plot_classes(instance(), None, AFTER)
    assert shares(figure, "before") == []
    assert connections(figure) == []
    assert shares(figure, "stays") == pytest.approx([1, LATE_AFTER])
    assert legend(figure) == ["after"]
    assert "weight 4: 1 job, mean 1.000×" in texts(figure)


@pytest.mark.slow
def test_a_stretch_is_paid_for() -> None:
    problem = network(job("a", 4, (0, 2, 60), max_stretch=4), job("b", 4, (0, 2, 60), weight=4))
    figure = plot_classes(problem, {"a": 0, "b": 0}, {"a": 6, "b": 0}, stretch={"a": 4})
    assert shares(figure, "pays") == [2]
    after, longer = {"a": 6, "b": 0}, {"a": 5}
    with pytest.raises(InputError, match=r"^after: stretch\.a: stated 5"):
        plot_classes(problem, {"a": 0, "b": 0}, after, stretch=longer)
    limit = Fraction(5, 4)
    plot_classes(problem, {"a": 0, "b": 0}, after, stretch=longer, stretch_limit=limit)
    plot_overview(problem, {"a": 0, "b": 0}, after, stretch=longer, stretch_limit=limit)
    with pytest.raises(InputError, match=r"^after: stretch\.a: must be an integer, got 0\.5"):
        plot_classes(problem, {"a": 0, "b": 0}, {"a": 0, "b": 0}, stretch={"a": 0.5})  # type: ignore[dict-item]


def crowd(count: int) -> Instance:
    """Return jobs that are the later the higher their number, on links of their own."""
    others = {f"l{index}": 100 for index in range(count)}
    alike = (job(f"j{n}", 100, (0, 50, 100 + n), links={f"l{n}": 1}) for n in range(count))
    rivals = (
        job(f"r{n}", 100, (0, 50, 100), links={f"l{n}": 1}, weight=2, fixed_offset=0)
        for n in range(count)
    )
    return network(*alike, *rivals, **others)


def test_within_a_class_who_gains_most_comes_first() -> None:
    problem = crowd(4)
    before = dict.fromkeys(problem.unshifted, 0)
    # Moved by n times ten slots a job is beside its rival for so much less.
    after = {**before, "j0": 20, "j1": 0, "j2": 40, "j3": 10}
    assert names(plot_classes(problem, before, after))[4:] == ["j2", "j0", "j3", "j1"]


def test_where_nothing_is_known_before_the_latest_comes_first() -> None:
    problem = crowd(4)
    after = {**dict.fromkeys(problem.unshifted, 0), "j0": 20, "j2": 40, "j3": 10}
    assert names(plot_classes(problem, None, after))[4:] == ["j1", "j3", "j0", "j2"]


def test_where_not_all_names_fit_those_that_change_most_are_there() -> None:
    problem = crowd(150)
    before = dict.fromkeys(problem.unshifted, 0)
    figure = plot_classes(problem, before, {**before, "j97": 50, "j3": 25})
    assert {"j97", "j3"} & set(names(figure)) == {"j97"}  # its neighbour, who gains less
    assert 60 < len(names(figure)) < 150
    assert len(shares(figure, "before")) == 300
    assert figure.get_size_inches()[1] < 15
