from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from metronome_opt.errors import InputError
from metronome_opt.plot import save_figure
from metronome_opt.plot.simulation import (
    Correlation,
    Utilisation,
    correlation,
    plot_completion,
    plot_gain,
    plot_grid,
    plot_prediction,
    plot_utilisation,
)
from metronome_opt.plot.style import in_order, line_styles
from metronome_opt.plot.timeline import LinkTrace, plot_link
from tests.plot.examples import boxes, check_dollars, texts, with_id

NAN = float("nan")
POLICIES = ("default", "exclusive", "cassini", "metronome-greedy", "metronome", "ideal")


def line(figure: Figure, gid: str) -> list[list[float]]:
    (found,) = figure.findobj(lambda artist: artist.get_gid() == gid)
    assert isinstance(found, Line2D)
    points: list[list[float]] = np.asarray(found.get_xydata(), float).tolist()
    return points


# ------------------------------------------------------------------ policies


def test_policies_have_one_order_and_one_look_each() -> None:
    assert in_order(["b", *reversed(POLICIES), "a"]) == (*POLICIES, "a", "b")
    found = line_styles([*POLICIES, "a", "b"])
    assert len({each["color"] for each in found.values()}) == 8
    assert len({str(each["linestyle"]) for each in found.values()}) >= 7  # in grey prints too
    assert line_styles(["metronome"])["metronome"] == found["metronome"]


# ------------------------------------------------------------------ completion


def test_completion_steps_at_each_job() -> None:
    figure = plot_completion({"default": [20.0, 10.0, 40.0, 40.0]}, title="a cell")
    assert line(figure, "completion-default") == [
        *([0, 0], [10, 0.25], [20, 0.5], [40, 0.75], [40, 1]),
        [40.8, 1],
    ]
    said = texts(figure)
    assert "Completion times, a cell" in said
    assert "completion time, arrival to end (s)" in said
    assert "share of jobs complete" in said


def test_a_job_that_did_not_finish_keeps_the_curve_below_one() -> None:
    figure = plot_completion({"default": [10.0, NAN], "ideal": [10.0, 20.0]}, title="t")
    assert line(figure, "completion-default")[-1][1] == 0.5
    assert line(figure, "completion-ideal")[-1][1] == 1
    assert "default (1 of 2 jobs did not finish)" in texts(figure)


def test_a_curve_of_very_many_jobs_keeps_its_shape_in_a_small_file(tmp_path: Path) -> None:
    figure = plot_completion({"default": np.arange(1.0, 50_001.0)}, title="t")
    points = line(figure, "completion-default")
    assert points[-1] == [51_000, 1]
    assert all(y == pytest.approx(x / 50_000, abs=1e-9) for x, y in points[1:-1])
    save_figure(figure, tmp_path / "many.svg")
    assert (tmp_path / "many.svg").stat().st_size < 300_000


@pytest.mark.parametrize("times", [[], [NAN, NAN]], ids=["none", "unfinished"])
def test_a_policy_without_finished_jobs_is_a_flat_line(times: list[float]) -> None:
    figure = plot_completion({"metronome": times}, title="t")
    assert {y for _, y in line(figure, "completion-metronome")} == {0}


# ------------------------------------------------------------------ utilisation


def test_utilisation_is_the_mean_over_runs_and_idle_after_the_end() -> None:
    """Steps of 10 s: one run at 40 % and then 20 %, the other at 20 % and then over."""
    runs = {"default": [([10.0, 20.0], [0.4, 0.2]), ([10.0], [0.2])]}
    found = line(plot_utilisation(runs, title="t"), "utilisation-default")
    assert found == [[5, pytest.approx(30)], [15, pytest.approx(10)]]


def test_utilisation_keeps_the_volume_of_uneven_samples() -> None:
    """10 s at 80 %, 20 s at 50 % and 3 s at 30 % are 18.9 s of the whole capacity."""
    times, shares = [10.0, 30.0, 33.0], [0.8, 0.5, 0.3]
    runs: dict[str, list[Utilisation]] = {
        "default": [(times, shares)],
        "ideal": [(np.arange(1.0, 34.0), np.ones(33))],
    }
    found = line(plot_utilisation(runs, title="t"), "utilisation-default")
    assert sum(share for _, share in found) / 100 * 33 / len(found) == pytest.approx(18.9)


def test_utilisation_has_a_panel_for_each_policy() -> None:
    runs = {policy: [([1.0, 2.0], [0.5, 0.5])] for policy in POLICIES[:4]}
    figure = plot_utilisation(runs, title="t")
    shown = [axes.get_title("left") for axes in figure.axes if axes.get_visible()]
    assert shown == list(POLICIES[:4])
    assert {"share of all capacity carried (%)", "time (s)"} <= set(texts(figure))


# ------------------------------------------------------------------ gain


def test_gain_has_a_point_a_job_and_means_of_bins() -> None:
    scores = [1.0, 0.96, 0.7, 0.68, NAN, 0.9]
    gains = [0.02, 0.04, 0.2, 0.1, 0.5, NAN]
    figure = plot_gain(scores, gains, title="t")
    assert line(figure, "gain-jobs") == [
        [score, pytest.approx(100 * gain)]
        for score, gain in zip(scores[:4], gains[:4], strict=True)
    ]
    # 1.0 and 0.96 are in (0.95, 1], 0.7 and 0.68 in (0.65, 0.7].
    assert line(figure, "gain-means") == [
        [pytest.approx(0.675), pytest.approx(15)],
        [pytest.approx(0.975), pytest.approx(3)],
    ]
    said = texts(figure)
    assert said.count("2") == 2
    assert "4 of 6 jobs; the others share no link or were not compared" in said


# ------------------------------------------------------------------ grid


def grid(changes: list[list[float]], certain: list[list[bool]] | None = None) -> Figure:
    cells = [f"load={number}" for number in range(len(changes))]
    return plot_grid(
        np.array(changes),
        cells=cells,
        policies=["cassini", "metronome"],
        title="t",
        what="change of mean completion time",
        certain=None if certain is None else np.array(certain),
    )


def colour(figure: Figure, value: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    (image,) = (each for each in figure.findobj(AxesImage) if len(each.axes.get_xticks()) == 2)
    assert isinstance(image, AxesImage)
    return np.asarray(image.to_rgba(np.array([value])))[0, :3]


def test_grid_writes_every_number_and_what_is_not_known() -> None:
    figure = grid([[-0.12, 0.031], [NAN, 0.004]], [[True, True], [False, False]])
    said = texts(figure)
    assert {"-12.0", "+3.1", "-", "(+0.4)", "load=0", "load=1", "cassini", "metronome"} <= set(said)
    assert "-: not known" in said
    assert any("may be no change" in text for text in said)


def test_grid_shows_losses_as_strongly_as_gains() -> None:
    """No change is white; as much better and worse are as far from white, on different sides."""
    figure = grid([[-0.02, 0.3]])
    assert colour(figure, 0) == pytest.approx([1, 1, 1], abs=0.01)
    assert colour(figure, -30) == pytest.approx(to_rgb("#00456E"), abs=0.01)
    assert colour(figure, 30) == pytest.approx(to_rgb("#8A3300"), abs=0.01)
    gain, loss = (float(np.abs(1 - colour(figure, value)).sum()) for value in (-15, 15))
    assert gain == pytest.approx(loss, rel=0.35)


def test_one_large_change_does_not_hide_the_small_ones() -> None:
    figure = grid([[-0.1, 1.2]])
    assert "+120.0" in texts(figure)
    assert colour(figure, 120) == pytest.approx(colour(figure, 30))
    assert float(np.abs(1 - colour(figure, -10)).sum()) > 0.5


def test_grid_without_any_change_is_white() -> None:
    figure = grid([[0.0, 0.0]])
    assert colour(figure, 0) == pytest.approx([1, 1, 1], abs=0.01)
    assert texts(figure).count("+0.0") == 2


# ------------------------------------------------------------------ prediction


def test_correlations_worked_out_by_hand() -> None:
    """Of (1, 2, 3) and (1, 2, 6): 5 / sqrt(2 * 14) = 0.945; the order is the same."""
    found = correlation([1, 2, 3, NAN], [1, 2, 6, 5])
    assert found.pearson == pytest.approx(5 / 28**0.5)
    assert found.spearman == pytest.approx(1)
    assert str(found) == "Pearson 0.94, Spearman 1.00 (3 jobs)"


@pytest.mark.parametrize(
    ("one", "other", "jobs"),
    [([], [], 0), ([1.0], [2.0], 1), ([0.0, 0.0], [1.0, 2.0], 2), ([1.0, 2.0], [0.0, 0.0], 2)],
)
def test_there_is_no_correlation_with_a_constant(
    one: list[float], other: list[float], jobs: int
) -> None:
    assert correlation(one, other) == Correlation(None, None, jobs)


def test_prediction_has_a_point_for_each_job_in_percent() -> None:
    figure = plot_prediction(
        {"metronome": ([0.1, 0.2, NAN], [0.1, 0.3, 0.4]), "cassini": ([0.1], [0.1])}, title="t"
    )
    assert line(figure, "prediction-metronome") == [
        [pytest.approx(10), pytest.approx(10)],
        [pytest.approx(20), pytest.approx(30)],
    ]
    said = texts(figure)
    assert "metronome\nPearson 1.00, Spearman 1.00\n(2 jobs)" in said
    assert "cassini\nPearson -, Spearman -\n(1 job)" in said


@pytest.mark.parametrize("policies", [1, 2, 3, 4, 6])
def test_titles_of_predictions_keep_their_distance(policies: int) -> None:
    names = ("default", "exclusive", "cassini", "metronome-greedy", "metronome", "ideal")
    elongations = {name: ([0.0, 0.1], [0.1, 0.012]) for name in names[:policies]}
    figure = plot_prediction(elongations, title="mix=two-1.00")
    figure.draw_without_rendering()
    title, *_ = (text for text in figure.texts if text.get_text().startswith("Elongation"))
    bottom = title.get_window_extent().y0
    boxes = (axes.get_tightbbox() for axes in figure.axes if axes.get_visible())
    highest = max(box.y1 for box in boxes if box is not None)
    assert bottom - highest > 0.05 * figure.dpi  # inches


# ------------------------------------------------------------------ link


def trace(*rows: tuple[float, str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["time_ms", "link", "job", "rate_mbps"])


BOTH = trace(
    (0.0, "l", "a", 30_000.0),
    (0.0, "l", "b", 20_000.0),
    (10.0, "l", "a", 0.0),
    (10.0, "l", "b", 40_000.0),
    (15.0, "l", "b", 0.0),
    (20.0, "other", "c", 1.0),
    (30.0, "l", "a", 30_000.0),
    (40.0, "l", "a", 0.0),
)


def test_link_stacks_rates_from_one_change_to_the_next() -> None:
    figure = plot_link(LinkTrace("l", 50_000, {"default": BOTH}, 0, 50))
    assert boxes(figure, "link-default-a") == [(0, 10, 0, 30), (30, 40, 0, 30)]
    assert boxes(figure, "link-default-b") == [(0, 15, 0, 50)]
    assert list(with_id(figure, "link-default-c")) == []
    assert {"a", "b", "capacity 50 Gbit/s", "Gbit/s", "time (ms)"} <= set(texts(figure))


def test_link_begins_with_what_was_being_sent() -> None:
    """The window begins in the middle of bursts and ends in the middle of one."""
    figure = plot_link(LinkTrace("l", 50_000, {"default": BOTH}, 5, 35))
    assert boxes(figure, "link-default-a") == [(5, 10, 0, 30), (30, 35, 0, 30)]
    assert boxes(figure, "link-default-b") == [(5, 15, 0, 50)]
    assert figure.axes[0].get_xlim() == (5, 35)


def test_link_shows_policies_below_each_other_with_the_same_colours() -> None:
    apart = trace((0.0, "l", "b", 20_000.0), (9.0, "l", "b", 0.0))
    figure = plot_link(LinkTrace("l", 50_000, {"metronome": apart, "default": BOTH}, 0, 50))
    assert [axes.get_title("left") for axes in figure.axes] == ["default", "metronome"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()

    def face(gid: str) -> list[float]:
        (found,) = figure.findobj(lambda artist: artist.get_gid() == gid)
        assert isinstance(found, Patch)
        return list(to_rgba(found.get_facecolor()))

    assert face("link-default-b") == face("link-metronome-b")


def test_link_on_which_nothing_was_sent_is_a_picture_still() -> None:
    said = texts(plot_link(LinkTrace("l", 10, {"default": trace()}, 0, 1)))
    assert "nothing was sent" in said


def test_link_refuses_an_empty_window_and_no_policies() -> None:
    with pytest.raises(InputError, match=r"end_ms: 5 is not after start_ms 5"):
        plot_link(LinkTrace("l", 10, {"default": BOTH}, 5, 5))
    with pytest.raises(InputError, match=r"traces: there are none"):
        plot_link(LinkTrace("l", 10, {}, 0, 5))


def test_names_are_not_read_as_formulas() -> None:
    odd = trace((0.0, "$l$", "$x$", 1.0), (1.0, "$l$", "$x$", 0.0))
    check_dollars(plot_link(LinkTrace("$l$", 10, {"default": odd}, 0, 2)))
