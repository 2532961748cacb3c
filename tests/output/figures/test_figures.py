"""Figures show demands worked out by hand, refuse wrong input, and are written whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from metronome_opt import allocate, solve
from metronome_opt.errors import InputError
from metronome_opt.output.figures.demand import draw_schedule, drawn_slots, find_link
from metronome_opt.output.figures.heatmap import select_rows
from metronome_opt.plot import (
    plot_change,
    plot_completions,
    plot_heatmap,
    plot_overview,
    plot_spines,
    plot_timeline,
    save_figure,
)
from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.verify import evaluate
from tests.builders import job, network, two_jobs
from tests.fabrics import fabric, ring, scene
from tests.output.figures.examples import (
    AFTER,
    BEFORE,
    HEAVY,
    LIGHT,
    boxes,
    check_dollars,
    instance,
    link_per_job,
    texts,
    with_id,
)
from tests.strategies import assigned

# Every figure of one schedule, by name.
Plot = Callable[[Instance, Any], Axes]
PLOTS: dict[str, Plot] = {
    "timeline": lambda case, offsets: plot_timeline(case, "node-0", offsets),
    "heatmap": plot_heatmap,
}


@pytest.fixture(autouse=True)
def _close() -> Any:
    yield
    pyplot.close("all")


# ------------------------------------------------------------------ timeline


def test_timeline_stacks_jobs_and_hatches_excess_demand() -> None:
    axes = plot_timeline(instance(), "node-0", BEFORE)
    assert boxes(axes, "timeline-job-1") == [
        (0, 5, 0, 30),
        (15, 25, 0, 15),
        (30, 35, 0, 30),
        (45, 55, 0, 15),
    ]
    assert boxes(axes, "timeline-job-2") == [(0, 5, 30, 70), (20, 25, 15, 55), (40, 45, 0, 40)]
    assert boxes(axes, "timeline-overload") == [(0, 5, 50, 70), (20, 25, 50, 55)]
    assert axes.get_xlim() == (0, 60)
    labels = {"capacity 50 Gbit/s", "demand above capacity", "Gbit/s", "time (ms)"}
    title = "Link node-0: capacity 50 Gbit/s, hyperperiod 60 ms; contention 2,083 weight × Mbit/s"
    labels |= {title, f"{HEAVY} (weight 4)", f"{LIGHT} (weight 1, 2 flows)"}
    assert labels <= set(texts(axes))
    after = plot_timeline(instance(), "node-0", AFTER)
    assert boxes(after, "timeline-job-2") == [(15, 20, 0, 40), (35, 40, 0, 40), (55, 60, 15, 55)]
    assert boxes(after, "timeline-overload") == [(55, 60, 50, 55)]


# ------------------------------------------------------------------ heat map


def shares(axes: Axes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    (image,) = axes.images
    return np.asarray(image.get_array())


def rows(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_heatmap_shows_demand_over_capacity() -> None:
    axes = plot_heatmap(instance(), BEFORE)
    share = np.array([70, 0, 0, 15, 55, 0, 30, 0, 40, 15, 15, 0]) / 50
    assert shares(axes) == pytest.approx(np.minimum(share, 1)[np.newaxis])
    assert boxes(axes, "heatmap-overload") == [(0, 5, -0.5, 0.5), (20, 25, -0.5, 0.5)]
    after = plot_heatmap(instance(), AFTER)
    share = np.array([15, 0, 30, 40, 0, 15, 15, 40, 30, 0, 0, 55]) / 50
    assert shares(after) == pytest.approx(np.minimum(share, 1)[np.newaxis])
    assert boxes(after, "heatmap-overload") == [(55, 60, -0.5, 0.5)]
    title = "example: demand on 1 link; contention 2,083 weight × Mbit/s"
    assert axes.get_title("left") == title
    assert "1 unused link not shown" in axes.get_xlabel()
    assert rows(axes) == ["node-0"]


def test_equal_links_are_one_row() -> None:
    burst = (Phase(start=0, length=2, rate=20),)
    names = ("quiet", "n0", "n1", "n2", "wide")
    capacities = {"quiet": 40, "wide": 30}
    uses = {"a": ("n0", "n1", "n2", "wide"), "b": ("quiet", "n0", "n1", "n2", "wide")}
    case = Instance(
        name="alike",
        slot_ms=2,
        links=tuple(Link(name=name, capacity=capacities.get(name, 20)) for name in names),
        jobs=tuple(
            Job(name=job, period=4, phases=burst, links=dict.fromkeys(links, 1))
            for job, links in uses.items()
        ),
    )
    axes = plot_heatmap(case, {"a": 0, "b": 0})
    assert rows(axes) == ["quiet", "n0 and 2 equal", "wide"]
    # For half of the time 20 of 40 are late on each n, 10 of 40 on the wide one: 3 * 10 + 5.
    assert axes.get_title("left") == "alike: demand on 5 links; contention 35 weight × Mbit/s"


def test_links_repeat_on_common_axis() -> None:
    case = link_per_job(4, 6)
    assert select_rows(case)[2:] == (12, ())
    axes = plot_heatmap(case, case.unshifted)
    full = [list(np.flatnonzero(row)) for row in shares(axes)]
    assert full == [[0, 4, 8], [0, 6]]
    # A job that asks for more than its link by itself contends with nobody.
    assert boxes(axes, "heatmap-overload") == []


def test_heatmap_ends_where_it_can_be_read() -> None:
    # They repeat after 1,030 slots of 5 ms; 40 periods of the shorter one are fewer.
    _, _, slots, (note,) = select_rows(network(job("a", 10, (0, 2, 9)), job("b", 103, (0, 2, 9))))
    assert (slots, note) == (400, "the first 2,000 ms of a longer common hyperperiod")


def test_column_of_several_slots_has_their_peak() -> None:
    axes = plot_heatmap(link_per_job(1013), {"j0": 1012})
    values = shares(axes)
    assert values.shape == (1, 338)  # three slots each, the last has two
    assert values[0, -1] == values.sum() == 1
    assert "each column is the peak of 3 slots" in axes.get_xlabel()


# ------------------------------------------------------------------ comparisons, input, files


def test_overview_compares_schedules() -> None:
    figure = plot_overview(instance(), {"before": BEFORE, "after": AFTER})
    said = texts(figure)
    assert "example: 2 jobs on 1 link" in said
    assert "Link node-0: capacity 50 Gbit/s, hyperperiod 60 ms" in said
    assert "after: contention 417 weight × Mbit/s" in said
    for gid in ("timeline-job-2", "heatmap-overload"):
        assert len(list(with_id(figure, gid))) == 2
    assert len({axes.get_ylim() for axes in figure.axes if axes.get_ylabel() == "Gbit/s"}) == 1
    check_dollars(figure)


def test_overview_draws_most_contended_link() -> None:
    for periods, name in (((5, 3, 4), "l1"), ((6, 6, 6), "l0")):
        case = link_per_job(*periods)
        offsets = dict.fromkeys(case.unshifted, np.int64(0))
        said = texts(plot_overview(case, {"a": offsets}))  # type: ignore[dict-item]
        assert any(text.startswith(f"Link {name}: ") for text in said)


def test_overview_without_links_is_drawn() -> None:
    job = Job(name="j", period=4, phases=(Phase(start=0, length=1, rate=1),), links={})
    lonely = Instance(name="lonely", slot_ms=1, links=(), jobs=(job,))
    assert "lonely: 1 job on 0 links" in texts(plot_overview(lonely, {"a": {"j": 1}}))


def test_result_is_drawn_beside_unshifted_schedule() -> None:
    said = texts(plot_overview(solve(two_jobs(), "greedy")))
    assert any(text.startswith("unshifted: contention") for text in said)
    assert "greedy: contention 0 weight × Mbit/s" in said


def test_change_shows_times_and_the_link_before_and_now() -> None:
    """Bursts of 40 of every 200 ms, and of 40 of every 100 ms, meet unless they have windows."""
    found = allocate(two_jobs(), "greedy", threads=1)
    figure = plot_change(found)
    assert [axes.get_ylabel() for axes in figure.axes] == ["iteration (ms)", "Gbit/s", "Gbit/s"]
    before, after = (boxes(axes, "timeline-overload") for axes in figure.axes[1:])
    assert before
    assert not after
    assert figure.axes[1].get_xlim() == figure.axes[2].get_xlim()
    assert "mean slowdown" in " ".join(texts(figure))


def test_change_without_a_shared_link_is_bars_alone() -> None:
    lonely = two_jobs().replace(jobs=two_jobs().jobs[:1])
    figure = plot_change(allocate(lonely, "greedy", threads=1))
    assert [axes.get_ylabel() for axes in figure.axes] == ["iteration (ms)"]


def test_change_with_too_long_a_hyperperiod_is_bars_alone() -> None:
    """Periods of 9,973 and 9,967 slots, both prime, have one of 99 million."""
    jobs = [
        each.model_copy(update={"period": period})
        for each, period in zip(two_jobs().jobs, (9973, 9967), strict=True)
    ]
    figure = plot_change(allocate(two_jobs().replace(jobs=jobs), "greedy", threads=1))
    assert [axes.get_ylabel() for axes in figure.axes] == ["iteration (ms)"]


def test_completions_are_shares_of_all_jobs() -> None:
    """Of four jobs three are done, after 1, 2 and 4 s."""
    jobs = pd.DataFrame({"completion_s": [4.0, 1.0, float("nan"), 2.0]})
    curves, _ = plot_completions({"nearest": jobs}).axes
    (curve,) = curves.lines
    assert np.asarray(curve.get_xdata()).tolist() == [0, 1, 2, 4]
    assert np.asarray(curve.get_ydata()).tolist() == [0, 25, 50, 75]
    with pytest.raises(InputError, match="none has finished"):
        plot_completions({"nearest": jobs[2:3]})


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({LIGHT: 0}, "offsets.*_heavy.*every job needs an offset"),
        (AFTER | {"stranger": 0}, "offsets.*stranger.*no such job"),
        (AFTER | {LIGHT: 4}, r"offsets.light.*it must be in \[0, 4\)"),
        (BEFORE | {HEAVY: 1.0}, "offsets.*heavy.*must be an integer, got 1.0"),
        (BEFORE | {LIGHT: "0"}, "offsets.light: must be an integer, got '0'"),
    ],
)
def test_wrong_offsets_are_refused(plot: Plot, offsets: Mapping[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        plot(instance(), offsets)
    assert "\n" not in str(caught.value)


def test_stretch_beyond_limit_is_refused() -> None:
    sides = {"before": BEFORE, "after": AFTER | {LIGHT: 4}}
    with pytest.raises(InputError, match=r"^stretch\.light: stated 1"):
        plot_overview(instance(), sides, stretch={LIGHT: 1})
    figure = plot_overview(instance(), sides, stretch={LIGHT: 1}, stretch_limit=Fraction(1, 4))
    assert any("at the stretched periods" in text for text in texts(figure))


def test_unknown_links_are_refused() -> None:
    with pytest.raises(InputError, match="no link 'nowhere'; there are 'spare', 'node-0'"):
        plot_timeline(instance(), "nowhere", BEFORE)


# The first bytes of a file of each kind.
MAGIC = {".svg": b"<?xml", ".PNG": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-"}


@pytest.mark.parametrize("suffix", MAGIC)
def test_files_have_format_of_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    save_figure(plot_timeline(instance(), "node-0", AFTER), path)
    assert path.read_bytes().startswith(MAGIC[suffix])


@pytest.mark.parametrize("name", ["a.gif", "a", "a.svg.gz"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"end it in \.svg, \.png or \.pdf"):
        save_figure(plot_timeline(instance(), "node-0", AFTER), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_failure_keeps_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.svg"
    path.write_text("before")
    axes = plot_timeline(instance(), "node-0", AFTER)
    monkeypatch.setattr(axes.figure, "savefig", fail)
    with pytest.raises(InputError, match="No space left on device"):
        save_figure(axes, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_notebooks_stay_interactive() -> None:
    pytest.importorskip("matplotlib_inline")
    code = """
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance()
import matplotlib
from metronome_opt.plot import plot_timeline
from tests.builders import job, network, two_jobs
plot_timeline(two_jobs(), two_jobs().links[0].name)
print(matplotlib.is_interactive())
"""
    inline = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=inline, capture_output=True, text=True, check=True
    )
    assert printed.stdout == "True\n"


def test_figures_take_names_and_results() -> None:
    result = solve(two_jobs(), "greedy")
    link = two_jobs().links[0].name
    unserved = [
        boxes(plot_timeline(each, link), "timeline-overload") for each in (two_jobs(), result)
    ]
    assert unserved[0]
    assert not unserved[1]
    assert "eight-nodes" in " ".join(texts(plot_overview("eight-nodes")))


# ------------------------------------------------------------------ demand, uplinks of spines


@settings(deadline=None)
@given(assigned())
def test_excess_demand_matches_evaluate(case: tuple[Instance, dict[str, int]]) -> None:
    drawn, offsets = case
    for link, report in zip(drawn.links, evaluate(drawn, offsets).links, strict=True):
        demand = draw_schedule(drawn, offsets).demand(link)
        excess = np.maximum(demand.sum(axis=0) - link.capacity, 0)
        assert Fraction(int(excess.sum()), len(excess)) == report.unserved


def test_long_hyperperiod_is_cut() -> None:
    def job(name: str, period: int, bursts: int) -> Job:
        phases = tuple(Phase(start=2 * index, length=1, rate=1) for index in range(bursts))
        return Job(name=name, period=period, phases=phases, links={"l": 1})

    link = Link(name="l", capacity=1)
    short = Instance(name="i", slot_ms=1, links=(link,), jobs=(job("a", 10, 2), job("b", 100, 1)))
    assert drawn_slots(short, link) == 100
    long = short.replace(jobs=(job("a", 10, 2), job("b", 10_000, 1)))
    assert drawn_slots(long, link) == 200  # 40 bursts, two in each period of 10


def test_rates_beyond_64_bits_are_refused() -> None:
    example = instance()
    huge = example.replace(links=(example.links[0], Link(name="node-0", capacity=10**30)))
    with pytest.raises(InputError, match=r"'node-0'.*too much to draw"):
        draw_schedule(huge, BEFORE).demand(find_link(huge, "node-0"))


def test_each_used_uplink_has_a_row_and_each_result_a_column(tmp_path: Path) -> None:
    """Three rings by one spine, then by both."""
    jobs = [ring(name, (at, 3 + at)) for at, name in enumerate("abc")]
    cluster = fabric(each=3)
    first = [{**job, "paths": [[0], [0]]} for job in jobs]
    before = solve(scene(cluster, *first), "unshifted", "contention")
    figure = plot_spines(
        scene(cluster, *jobs), {"before": before, "after": allocate(scene(cluster, *jobs))}
    )
    panels = figure.axes
    assert len(panels) == 8
    assert [axes.get_title(loc="left") for axes in panels[:2]] == ["before", "after"]
    assert [axes.get_ylabel() for axes in panels[::2]] == [
        f"rack-{rack}-uplink-{spine}" for rack in (0, 1) for spine in (0, 1)
    ]
    highest = [
        max(
            float(np.nanmax(patch.get_data()[0]))
            for patch in axes.patches
            if isinstance(patch, StepPatch)
        )
        for axes in panels[:2]
    ]
    assert highest == pytest.approx(
        [3.6, 1.2]
    )  # Gbit/s of three jobs at once, and of one at a time
    save_figure(figure, tmp_path / "spines.png")


def test_a_fabric_without_a_choice_has_no_figure() -> None:
    made = scene({**fabric(routing="ecmp"), "spines": 1}, ring("a", (0, 2)))
    with pytest.raises(InputError, match="no flow crosses a spine"):
        plot_spines(made, {"one": solve(made, "unshifted", "contention")})
    with pytest.raises(InputError, match="no flow crosses a spine"):
        plot_spines(made, {})
