from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.plot import (
    busiest_link,
    plot_circle,
    plot_heatmap,
    plot_overview,
    plot_timeline,
    style,
)
from metronome_opt.plot.heatmap import select_rows, shades, spread
from metronome_opt.plot.picture import job_entries
from tests.plot.examples import (
    AFTER,
    BEFORE,
    HEAVY,
    LIGHT,
    boxes,
    check_dollars,
    instance,
    polygons,
    texts,
    with_id,
)

# ------------------------------------------------------------------ circle


def arcs(figure: Figure, pattern: str) -> list[tuple[float, float]]:
    """Return start and length of arcs in slots."""
    return [
        (round(arc.get_x() / math.tau * 12, 6), round(arc.get_width() / math.tau * 12, 6))
        for arc in with_id(figure, pattern)
        if isinstance(arc, Rectangle)
    ]


def test_circle_turns_with_the_offsets_and_says_what_it_shows() -> None:
    figure = plot_circle(instance(), BEFORE, AFTER, "node-0")
    assert arcs(figure, "circle-before-job-2-.*") == [(0, 1), (4, 1), (8, 1)]
    assert arcs(figure, "circle-after-job-2-.*") == [(3, 1), (7, 1), (11, 1)]
    for side in ("before", "after"):
        drawn = Counter(arc.get_label() for arc in with_id(figure, f"circle-{side}-job-.*"))
        assert drawn == {LIGHT: 3, HEAVY: 4}
    assert arcs(figure, "circle-before-overload-.*") == [(0, 1), (4, 1)]
    assert arcs(figure, "circle-after-overload-.*") == [(11, 1)]
    said = texts(figure)
    assert "Link node-0: capacity 50 Gbit/s, hyperperiod 60 ms" in said
    assert "before: contention 2,083\nweight × Mbit/s" in said
    assert "after: contention 417\nweight × Mbit/s" in said
    assert f"1  {HEAVY} (weight 4)" in said
    assert f"2  {LIGHT} (weight 1, 2 flows)" in said
    assert said.count("1") == said.count("2") == 2  # beside the arcs of both circles


def test_circle_of_an_unused_link_is_empty() -> None:
    figure = plot_circle(instance(), BEFORE, AFTER, "spare")
    assert list(with_id(figure, "circle-.*")) == []
    assert "no job uses this link" in texts(figure)


# ------------------------------------------------------------------ timeline


def test_timeline_stacks_jobs_and_marks_what_exceeds_the_capacity() -> None:
    figure = plot_timeline(instance(), BEFORE, AFTER, "node-0")
    assert boxes(figure, "timeline-before-job-1") == [
        (0, 5, 0, 30),
        (15, 25, 0, 15),
        (30, 35, 0, 30),
        (45, 55, 0, 15),
    ]
    assert boxes(figure, "timeline-before-job-2") == [
        (0, 5, 30, 70),
        (20, 25, 15, 55),
        (40, 45, 0, 40),
    ]
    assert boxes(figure, "timeline-after-job-2") == [
        (15, 20, 0, 40),
        (35, 40, 0, 40),
        (55, 60, 15, 55),
    ]
    assert boxes(figure, "timeline-before-overload") == [(0, 5, 50, 70), (20, 25, 50, 55)]
    assert boxes(figure, "timeline-after-overload") == [(55, 60, 50, 55)]
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim() == (0, 60)
    assert above.get_ylim() == below.get_ylim()
    said = texts(figure)
    assert {"capacity 50 Gbit/s", "demand above capacity", "Gbit/s", "time (ms)"} <= set(said)
    assert "before: contention 2,083 weight × Mbit/s" in said


def test_timeline_areas_hold_the_traffic() -> None:
    """An area has the volume of its job even where what lies below it has steps."""
    example = instance()
    wide = example.replace(
        jobs=(
            example.jobs[0].model_copy(update={"phases": (Phase(start=0, length=4, rate=20_000),)}),
            example.jobs[1],
        )
    )
    figure = plot_timeline(wide, BEFORE, BEFORE, "node-0")
    (corners,) = polygons(figure, "timeline-before-job-2")
    x, y = corners.T
    area = 0.5 * abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))
    assert area == pytest.approx(40 * 60)
    assert (float(y.min()), float(y.max())) == (0, 70)


def test_timeline_writes_a_name_where_it_fits() -> None:
    job = Job(name="bert", period=10, phases=(Phase(start=0, length=5, rate=10),), links={"l": 1})
    link = Link(name="l", capacity=20)
    alone = Instance(name="i", slot_ms=1, links=(link,), jobs=(job,))
    assert "1  bert" in texts(plot_timeline(alone, {"bert": 0}, {"bert": 3}, "l"))


# ------------------------------------------------------------------ heat map


def test_heatmap_shows_demand_as_a_share_of_capacity() -> None:
    figure = plot_heatmap(instance(), BEFORE, AFTER)
    before, after = (image for image in figure.findobj(AxesImage) if image.axes.get_title("left"))
    assert isinstance(before, AxesImage)
    assert isinstance(after, AxesImage)
    share = np.array([70, 0, 0, 15, 55, 0, 30, 0, 40, 15, 15, 0]) / 50
    assert np.asarray(before.get_array()) == pytest.approx(np.minimum(share, 1)[np.newaxis])
    share = np.array([15, 0, 30, 40, 0, 15, 15, 40, 30, 0, 0, 55]) / 50
    assert np.asarray(after.get_array()) == pytest.approx(np.minimum(share, 1)[np.newaxis])
    marks = [(0, 5, -0.5, 0.5), (20, 25, -0.5, 0.5)]
    assert boxes(figure, "heatmap-before-overload") == marks
    assert boxes(figure, "heatmap-after-overload") == [(55, 60, -0.5, 0.5)]
    said = texts(figure)
    assert "example: demand on 1 link" in said
    assert "1 unused link left out" in said
    assert "spare" not in said


def test_heatmap_of_chosen_links() -> None:
    figure = plot_heatmap(instance(), BEFORE, AFTER, links=["spare"])
    said = texts(figure)
    assert "spare" in said
    assert "node-0" not in said
    assert "before: contention 0 weight × Mbit/s" in said
    assert polygons(figure, "heatmap-before-overload") == []


def test_links_that_are_alike_are_one_row_and_the_most_contended_is_on_top() -> None:
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
    figure = plot_heatmap(case, {"a": 0, "b": 0}, {"a": 0, "b": 2})
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    # For half of the time 20 of 40 are late on each n, 10 of 40 on the wide one.
    assert rows == ["n0 and 2 alike", "wide", "quiet"]
    said = texts(figure)
    assert "alike: demand on 5 links" in said
    assert "before: contention 35 weight × Mbit/s" in said  # 3 * 10 + 5
    chosen = plot_heatmap(case, {"a": 0, "b": 0}, {"a": 0, "b": 2}, links=["n1", "quiet", "n0"])
    rows = [label.get_text() for label in chosen.axes[0].get_yticklabels()]
    assert rows == ["n1", "quiet", "n0"]


def link_per_period(*periods: int) -> Instance:
    return Instance(
        name="i",
        slot_ms=2,
        links=tuple(Link(name=f"l{period}", capacity=10) for period in periods),
        jobs=tuple(
            Job(
                name=f"j{period}",
                period=period,
                phases=(Phase(start=0, length=1, rate=20),),
                links={f"l{period}": 1},
            )
            for period in periods
        ),
    )


def test_links_repeat_on_the_common_axis() -> None:
    rows = select_rows(link_per_period(4, 6))
    assert (rows.slots, rows.notes) == (12, ())
    zero = {"j4": 0, "j6": 0}
    marks = boxes(plot_heatmap(link_per_period(4, 6), zero, zero), "heatmap-after-overload")
    assert [(left, (low + high) / 2) for left, _, low, high in marks] == [
        (0, 0),
        (8, 0),
        (16, 0),
        (0, 1),
        (12, 1),
    ]


def test_long_axis_is_cut_with_a_note() -> None:
    rows = select_rows(link_per_period(1009, 1013))
    assert rows.slots == 1013
    assert rows.notes == ("the first 2,026 ms of a longer common hyperperiod",)
    assert select_rows(link_per_period(50_000)).slots == 4000


def test_a_column_of_several_slots_keeps_its_peak() -> None:
    case = link_per_period(1013)
    figure = plot_heatmap(case, {"j1013": 0}, {"j1013": 1012})
    images = [image for image in figure.findobj(AxesImage) if image.axes.get_title("left")]
    after = images[1]
    assert isinstance(after, AxesImage)
    values = np.asarray(after.get_array())
    assert values.shape == (1, 338)  # three slots each, the last has two
    assert values[0, -1] == 1
    assert values.sum() == 1
    assert "each column is the peak of 3 slots" in texts(figure)


def test_names_of_many_rows_keep_their_distance() -> None:
    assert spread([5, 6, 0, 1, 2, 3, 4, 7, 8, 9], 3) == [0, 5, 8]
    case = link_per_period(*range(1, 301))
    zero = {job.name: 0 for job in case.jobs}
    axes = plot_heatmap(case, zero, zero, links=[link.name for link in case.links]).axes[0]
    named = [round(tick) for tick in axes.get_yticks()]
    assert 0 in named  # the most contended: always overloaded
    assert 60 <= len(named) < 150
    assert all(after - before >= 3 for before, after in pairwise(named))


def test_shades_darken_all_the_way_and_stay_off_black() -> None:
    colours = shades()(np.linspace(0, 1, 256))[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(luminance) <= 0).all()
    assert luminance[0] > 0.9
    assert luminance[-1] > 0.08  # black under crosses, which is overload, stands out


# ------------------------------------------------------------------ the rest


def test_overview_shows_all_three_pictures_of_the_busiest_link() -> None:
    figure = plot_overview(instance(), BEFORE, AFTER)
    said = texts(figure)
    assert "example: 2 jobs on 1 link" in said
    assert "Link node-0: capacity 50 Gbit/s, hyperperiod 60 ms" in said
    for part in ("circle-before-job-2-arc-0", "timeline-after-job-2", "heatmap-before-overload"):
        assert len(list(with_id(figure, part))) == 1
    ids = [artist.get_gid() for artist in with_id(figure, ".+")]
    assert len(ids) == len(set(ids)) == 7 * 2 + 3 + 3 * 2 + 2
    check_dollars(figure)


def test_overview_without_links_is_a_picture_still() -> None:
    job = Job(name="j", period=4, phases=(Phase(start=0, length=1, rate=1),), links={})
    lonely = Instance(name="lonely", slot_ms=1, links=(), jobs=(job,))
    assert "lonely: 1 job on 0 links" in texts(plot_overview(lonely, {"j": 0}, {"j": 1}))


def test_busiest_link_is_the_most_contended_before() -> None:
    case = link_per_period(5, 3, 4)
    zero = {job.name: 0 for job in case.jobs}
    assert busiest_link(case, zero, zero) == "l3"  # late a third of the time
    same = case.replace(
        jobs=tuple(job.model_copy(update={"period": 6}) for job in reversed(case.jobs))
    )
    assert busiest_link(same, zero, zero) == "l3"  # all alike: by name
    assert busiest_link(instance(), BEFORE, AFTER) == "node-0"


def test_jobs_stay_apart_in_colour_and_in_grey() -> None:
    looks = [style.look(position) for position in range(384)]
    assert len(set(looks)) == 384
    assert len({look.colour for look in looks[:8]}) == 8
    assert len({look.hatch for look in looks[:16]}) == 16
    assert style.OVERLOAD["hatch"] not in {look.hatch for look in looks}


def test_long_names_lose_their_middle() -> None:
    assert style.shorten("a" * 34) == "a" * 34
    short = style.shorten("first-" + "x" * 100 + "-last")
    assert len(short) == 34
    assert short.startswith("first-")
    assert short.endswith("-last")


@pytest.mark.parametrize(("jobs", "entries"), [(40, 40), (41, 41), (100, 41)])
def test_very_many_jobs_are_counted_in_the_legend(jobs: int, entries: int) -> None:
    shown = job_entries(["j"] * jobs, "none")
    assert len(shown) == entries
    assert (shown[-1].get_label() == f"and {jobs - 40} more") == (jobs > 40)
