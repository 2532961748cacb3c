"""The circle of a link: its circumference is the hyperperiod, a ring is a job, an arc a burst."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes

from metronome_opt.instance import Instance
from metronome_opt.plot import style
from metronome_opt.plot.demand import (
    Drawing,
    bursts,
    drawn_slots,
    find_link,
    job_labels,
    link_title,
    milliseconds,
    prepare,
    runs,
)
from metronome_opt.plot.picture import job_entries, legend_beside, new_axes, overload_entry

_WIDTH, _HEIGHT = 7.5, 4.8  # inches
_TICKS = 8
_RING = 0.88  # of the distance of two rings, at the peak rate of a job
_FAINTEST = 0.3
_HOLE, _RIM = 1.2, 0.5  # widths of a ring


@rc_context(style.SHEET)
def plot_circle(
    instance: Instance,
    offsets: Mapping[str, int],
    link: str,
    *,
    stretch: Mapping[str, int] | None = None,
    title: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the bursts on a link around a circle.

    Once round is the hyperperiod, clockwise from the top. Each job has a ring, the heaviest the
    outermost; the thickness of an arc is the burst's share of the job's peak rate. The rim is
    black where the demand exceeds the capacity.

    Parameters
    ----------
    instance
        The problem.
    offsets, stretch
        Offset and idle slots of the jobs, by name; a job without a stretch has none.
    link
        Name of the link.
    title
        Text above the circle; link, capacity and contention if None.
    legend
        Whether the jobs are named beside the circle.
    ax
        Polar axes to draw on; new ones if None.

    Raises
    ------
    InputError
        If there is no such link, or an offset is missing, unknown or out of range.
    """
    drawing = prepare(instance, offsets, stretch)
    chosen = find_link(drawing.instance, link)
    ax = ax or new_axes(_WIDTH, _HEIGHT, projection="polar")
    axes: Any = ax  # matplotlib does not say which axes a projection makes
    slots = drawn_slots(drawing.instance, chosen)
    demand = drawing.demand(chosen, slots)
    count = max(1, len(demand.jobs))
    hole = max(_HOLE, 0.35 * count)
    _prepare(axes, drawing.instance, slots, hole + count + _RIM)
    for position, job in enumerate(demand.jobs):
        bottom = hole + count - 1 - position
        axes.bar(0, _RING, math.tau, bottom, align="edge", color=style.PAPER)
        arcs = [
            (start, length, _RING * max(_FAINTEST, rate / job.peak))
            for start, length, rate in bursts(job, drawing.offsets[job.name], slots)
        ]
        patch = style.job_style(position, bursts=len(arcs))
        _draw_arcs(axes, arcs, bottom, slots, gid=f"circle-job-{position + 1}", **patch)
        if arcs:
            _write_number(axes, position + 1, arcs[0], bottom, slots)
    axes.bar(0, _RIM, math.tau, hole + count, align="edge", color=style.PAPER)
    late = [(start, length, _RIM) for start, length in runs(demand.overloaded)]
    _draw_arcs(axes, late, hole + count, slots, gid="circle-overload", **style.OVERLOAD)
    axes.set_title(_title(drawing, link) if title is None else title, loc="center", pad=8)
    if legend:
        labels = job_labels(drawing.instance, chosen)
        legend_beside(ax, [*job_entries(labels, "no job uses this link"), overload_entry()])
    return ax


def _title(drawing: Drawing, link: str) -> str:
    above = link_title(drawing.instance, find_link(drawing.instance, link))
    return f"{above}\n{style.contention_text(drawing.contention[link])}"


def _prepare(axes: Any, instance: Instance, slots: int, top: float) -> None:
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_ylim(0, top)
    axes.set_yticks([])
    times = [slots * instance.slot_ms * tick / _TICKS for tick in range(_TICKS)]
    labels = ["0 ms", *(f"{time:,.10g}" for time in times[1:])]
    axes.set_xticks([math.tau * tick / _TICKS for tick in range(_TICKS)], labels)
    axes.grid(visible=False)
    axes.text(0, 0, f"one turn\n{milliseconds(instance, slots)}", ha="center", va="center")


def _write_number(
    axes: Any, number: int, arc: tuple[int, int, float], bottom: float, slots: int
) -> None:
    """Write the number of a job into the middle of its first arc."""
    angle = math.tau * (arc[0] + arc[1] / 2) / slots
    radius = bottom + _RING / 2
    axes.text(angle, radius, str(number), ha="center", va="center", bbox=style.PLATE)


def _draw_arcs(
    axes: Any,
    arcs: Sequence[tuple[int, int, float]],
    bottom: float,
    slots: int,
    *,
    gid: str,
    **patch: Any,
) -> None:
    """Draw arcs of (start, length, thickness), the first two in slots."""
    starts, lengths, thickness = zip(*arcs, strict=True) if arcs else ((), (), ())
    drawn = axes.bar(
        [math.tau * start / slots for start in starts],
        thickness,
        [math.tau * length / slots for length in lengths],
        bottom,
        align="edge",
        **patch,
    )
    for arc in drawn:
        arc.set_gid(gid)
