"""One picture of a whole result: all links, and closely the one that was most contended."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance, Link
from metronome_opt.multiobjective.periods import stretched
from metronome_opt.plot import style
from metronome_opt.plot.circle import draw_circles
from metronome_opt.plot.comparison import Comparison, compare, judge, most_contended
from metronome_opt.plot.demand import drawn_slots, find_link, jobs_of
from metronome_opt.plot.heatmap import draw_heatmaps, select_rows
from metronome_opt.plot.timeline import draw_timelines, timeline_entries

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

WIDTH = 12.0  # inches
_CLOSE_UP = 4.3  # inches, without the legend
_CIRCLES = 0.56  # of the width
_MARGINS = 1.5  # inches: titles, axis and legend of the heat map
_TITLE = 0.4  # inches


def plot_overview(
    instance: Instance,
    before: Mapping[str, int],
    after: Mapping[str, int],
    *,
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Figure:
    """Draw the heat map of all links, and circle and timeline of the most contended one.

    Where jobs are stretched, both sides are drawn at the stretched periods, and the title says so:
    links whose patterns repeat after different times cannot be compared slot by slot.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    stretch
        Idle slots per job name; a job that is not named is not stretched.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.

    Raises
    ------
    InputError
        If an offset or a stretch is missing, unknown or out of range.
    """
    at_periods = ""
    if stretch and any(stretch.values()):
        judge(instance, "after", after, stretch, stretch_limit)
        instance = stretched(instance, {**dict.fromkeys(instance.unshifted, 0), **stretch})
        at_periods = ", before and after at the stretched periods"
    comparison = compare(instance, before, after)
    rows = select_rows(instance)
    height = rows.height(6.0)
    heights = [height + _MARGINS]
    busiest = most_contended(comparison)
    if busiest is not None:
        link = find_link(instance, busiest)
        entries = [*style.job_entries(jobs_of(instance, link), link), *timeline_entries(link)]
        heights.append(_CLOSE_UP + style.legend_height(entries, WIDTH))
    figure = style.new_figure(WIDTH, sum(heights) + _TITLE)
    jobs = style.counted(len(instance.jobs), "job")
    figure.suptitle(
        f"{style.shorten(instance.name, 60)}: {jobs} on "
        f"{style.counted(len(rows.links), 'link')}{at_periods}",
        fontsize=style.TITLE + 2,
        fontweight="bold",
        parse_math=False,
    )
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
    draw_heatmaps(parts[0, 0], comparison, rows, height)
    if busiest is not None:
        _draw_close_up(parts[1, 0], comparison, link)
        style.add_legend(parts[1, 0], entries, WIDTH)
    figure.settle()
    return figure


def _draw_close_up(part: SubFigure, comparison: Comparison, link: Link) -> None:
    slots = drawn_slots(comparison.instance, link)
    title = style.link_title(comparison.instance, link, slots)
    part.suptitle(title, fontsize=style.TITLE, parse_math=False)
    left, right = part.subfigures(1, 2, width_ratios=[_CIRCLES, 1 - _CIRCLES], squeeze=False)[0]
    draw_circles(left, comparison, link, _CIRCLES * WIDTH)
    draw_timelines(right, comparison, link, (1 - _CIRCLES) * WIDTH)
