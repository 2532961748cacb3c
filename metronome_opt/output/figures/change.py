"""What an allocation changes: iteration times, and the demand on the link that gains most."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.figure import Figure

from metronome_opt.allocation.arguments import Problem
from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.allocation.slots.plan import mean_slowdown
from metronome_opt.errors import InputError
from metronome_opt.output.figures import style
from metronome_opt.output.figures.demand import draw_schedule, find_link
from metronome_opt.output.figures.heatmap import plot_overview
from metronome_opt.output.figures.picture import legend_below, new_figure
from metronome_opt.output.figures.placements import plot_placements
from metronome_opt.output.figures.timeline import plot_timeline, timeline_entries
from metronome_opt.problem.objectives import find_objective
from metronome_opt.problem.result import Result

_MAX_JOBS = 12  # whose times are drawn, those that change most
_SHORT_ROW = 8  # jobs whose names fit beside one another
_PERIODS = 3  # of the longest job on the link
_WIDTH, _BARS, _TIMELINE = 9.0, 3.0, 1.7  # inches


def plot_result(result: Result) -> Figure:
    """Draw what a result changes: iteration times, or demand on all links if it minimises that."""
    is_simulated = find_objective(result.schedule.primary_objective).simulated
    return (plot_change if is_simulated else plot_overview)(result)


@rc_context(style.SHEET)
def plot_change(result: Result) -> Figure:
    """Draw iteration times before and now, and below them the link that gains most over time.

    Before, no job was gated, and jobs were on the nearest nodes unless nodes were stated. The link
    is drawn at the nodes of the result, without windows and with them, or once if no job is gated;
    without a link of several jobs, or where hyperperiods are too long to draw, none is.

    Parameters
    ----------
    result
        Of `allocate` or `solve`; where it states no iteration times, jobs are simulated.
    """
    instance, times = result.instance, IterationTimes.of(result)
    change = {
        name: abs(float(times.after[name] / ms - 1))
        for name, ms in times.first.items()
        if name in times.after
    }
    most = sorted(change, key=lambda name: -change[name])[:_MAX_JOBS]
    jobs = [job.name for job in instance.jobs if job.name in most]
    drawn = {
        name: {job: float(by[job]) for job in jobs}
        for name, by in (("before", times.first), ("now", times.after))
    }
    link = _find_link(result)
    cases: dict[str, Problem] = {}
    if link is not None:
        is_gated = any((result.schedule.gated or result.offsets).values())
        cases = {"without windows": instance} if is_gated else {}
        cases["with windows" if is_gated else "now"] = result
    heights = [_BARS] * bool(jobs) + [_TIMELINE] * len(cases)
    means = (mean_slowdown(instance, by) for by in (times.first, times.after))
    slowdown = " before, ".join("unknown" if m is None else f"{float(m):.3f}" for m in means)
    title = f"{style.shorten(instance.name, 60)}: mean slowdown {slowdown} now"
    figure = new_figure(_WIDTH, sum(heights) + 0.9, title)
    panels = figure.subplots(len(heights) or 1, 1, height_ratios=heights or None, squeeze=False)
    bars, *links = panels[:, 0] if jobs else [None, *panels[:, 0]]
    if jobs:
        plot_placements(drawn, ax=bars)
        bars.tick_params(axis="x", labelrotation=20 * (len(jobs) > _SHORT_ROW))
        if len(jobs) < len(change):
            bars.set_title(f"{len(jobs)} of {len(change)} jobs, those that change most")
    if link is not None:
        for axes, (case, problem) in zip(links, cases.items(), strict=True):
            said = f"demand on {style.shorten(link, 60)} {case}"
            plot_timeline(problem, link, title=said, legend=False, max_periods=_PERIODS, ax=axes)
        ends = [axes.get_xlim()[1] for axes in links], [axes.get_ylim()[1] for axes in links]
        for axes in links:
            axes.set(xlim=(0, min(ends[0])), ylim=(0, max(ends[1])))
        for axes in links[:-1]:
            axes.set_xlabel("")
        legend_below(figure, timeline_entries(instance, find_link(instance, link)))
    return figure


def _find_link(result: Result) -> str | None:
    """Return the shared link whose contention falls most; None without one."""
    instance = result.instance
    try:
        before, after = (draw_schedule(drawn).contention for drawn in (instance, result))
    except InputError:  # hyperperiods are too long
        return None
    shared = [name for name, users in instance.jobs_on.items() if len(users) > 1]
    return max(shared, key=lambda name: (before[name] - after[name], before[name]), default=None)
