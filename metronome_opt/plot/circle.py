"""The circle of a link: one turn is its hyperperiod, one ring is a job, one arc is a burst."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.projections.polar import PolarAxes

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.plot import style
from metronome_opt.plot.demand import (
    Side,
    bursts,
    compare,
    drawn_slots,
    find_link,
    job_labels,
    link_title,
    milliseconds,
    runs,
)
from metronome_opt.plot.picture import (
    Canvas,
    Picture,
    add_legend,
    job_entries,
    legend_height,
    overload_entry,
)

_WIDTH, _HEIGHT = 9.0, 5.2  # inches, without the legend
_TICKS = 8
_FILL = 0.88  # of the width of a ring, at the peak rate of its job
_FAINTEST = 0.3


@rc_context(style.SHEET)
def plot_circle(
    instance: Instance, before: Mapping[str, int], after: Mapping[str, int], link: str
) -> Picture:
    """Draw the circle of a link before and after.

    Once round is the hyperperiod, clockwise from the top. Each job has a ring, the heaviest the
    outermost; the thickness of an arc is the burst's share of the job's peak rate. The rim is
    marked where the demand exceeds the capacity.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Offset in slots of every job, by name.
    link
        Name of the link.

    Raises
    ------
    InputError
        If there is no such link, or an offset is missing, unknown or out of range.
    """
    shown = find_link(instance, link)
    sides = compare(instance, before, after)
    entries = [
        *job_entries(job_labels(instance, shown), "no job uses this link"),
        overload_entry(),
    ]
    height = _HEIGHT + legend_height(entries, _WIDTH)
    figure = Picture(_WIDTH, height, link_title(instance, shown))
    draw_circles(figure, sides, shown, _WIDTH)
    add_legend(figure, entries, _WIDTH)
    figure.settle()
    return figure


def draw_circles(canvas: Canvas, sides: Sequence[Side], link: Link, width: float) -> None:
    """Draw both circles side by side on a canvas that is `width` inches wide."""
    for column, side in enumerate(sides, start=1):
        axes = canvas.add_subplot(1, 2, column, projection="polar")
        assert isinstance(axes, PolarAxes)  # noqa: S101 (what the projection is)
        _draw_side(axes, side, link, 0.19 * width)


@dataclass(frozen=True)
class _Rings:
    """Radii, in widths of a ring, and angles of a circle whose whole turn is `slots` long."""

    count: int
    slots: int
    inches: float  # radius of the whole circle, nearly

    @property
    def hole(self) -> float:
        return max(1.2, 0.35 * self.count)

    @property
    def top(self) -> float:
        return (self.hole + self.count) / 0.87

    @property
    def rim(self) -> float:
        return self.hole + self.count + 0.04 * self.top

    def bottom(self, position: int) -> float:
        return self.hole + self.count - 1 - position

    def angle(self, slot: float) -> float:
        return math.tau * slot / self.slots

    def fitting(self, thickness: float) -> float:
        """Return the size of letters that fit into a ring of a thickness, in points."""
        return min(style.SMALL, 0.85 * 72 * self.inches * thickness / self.top)


def _draw_side(axes: PolarAxes, side: Side, link: Link, inches: float) -> None:
    slots = drawn_slots(side.instance, link)
    demand = side.demand(link, slots)
    rings = _Rings(max(1, len(demand.jobs)), slots, inches)
    _prepare(axes, side.instance, rings)
    title = style.contention_title(side.name, side.contention[link.name], "\n")
    axes.set_title(title, loc="center", fontweight="bold", pad=8)
    for position, job in enumerate(demand.jobs):
        _draw_job(axes, job, side, position, rings)
    rim = rings.top - rings.rim
    axes.bar(0, rim, math.tau, rings.rim, align="edge", color=style.PAPER)
    marks = [(start, length, rim) for start, length in runs(demand.overloaded)]
    name = f"circle-{side.name}-overload"
    _draw_arcs(axes, marks, rings.rim, rings, label="overload", name=name, patch=style.OVERLOAD)


def _prepare(axes: PolarAxes, instance: Instance, rings: _Rings) -> None:
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_ylim(0, rings.top)
    axes.set_yticks([])
    times = [rings.slots * instance.slot_ms * tick / _TICKS for tick in range(_TICKS)]
    labels = ["0 ms", *(f"{time:,.10g}" for time in times[1:])]
    axes.set_xticks([math.tau * tick / _TICKS for tick in range(_TICKS)], labels)
    axes.tick_params(axis="x", pad=1.5 * max(len(label) for label in labels) - 2)
    axes.grid(visible=False)
    axes.spines["polar"].set_linewidth(0.6)
    size = rings.fitting(0.21 * rings.hole)
    if size >= 5.5:
        turn = f"one turn\n{milliseconds(instance, rings.slots)}"
        axes.text(0, 0, turn, ha="center", va="center", fontsize=size)
    for position in range(rings.count):
        axes.bar(0, _FILL, math.tau, rings.bottom(position), align="edge", color=style.PAPER)


def _draw_job(axes: PolarAxes, job: Job, side: Side, position: int, rings: _Rings) -> None:
    arcs = bursts(job, side.offsets[job.name], rings.slots)
    _draw_arcs(
        axes,
        [(start, length, _FILL * max(_FAINTEST, rate / job.peak)) for start, length, rate in arcs],
        rings.bottom(position),
        rings,
        label=job.name,
        name=f"circle-{side.name}-job-{position + 1}-arc",
        patch=style.look(position).patch(len(arcs), rings.count),
    )
    size = rings.fitting(1)
    if not arcs or size < 4:
        return
    # The number stands in the first arc, or just before it where the arc is too short.
    radius = rings.bottom(position) + _FILL / 2
    begin, width = rings.angle(arcs[0][0]), rings.angle(arcs[0][1])
    needed = 1.6 * size / 72 / (rings.inches * radius / rings.top)  # radians
    axes.text(
        begin + width / 2 if width >= 1.3 * needed else begin - needed / 2,
        radius,
        str(position + 1),
        fontsize=size,
        ha="center",
        va="center",
        color=style.INK,
        bbox=style.PLATE,
    )


def _draw_arcs(
    axes: PolarAxes,
    arcs: Sequence[tuple[int, int, float]],
    bottom: float,
    rings: _Rings,
    *,
    label: str,
    name: str,
    patch: Mapping[str, Any],
) -> None:
    """Draw arcs of (start, length, thickness), the first two in slots, and number their names."""
    starts, lengths, thickness = zip(*arcs, strict=True) if arcs else ((), (), ())
    drawn = axes.bar(
        [rings.angle(start) for start in starts],
        thickness,
        [rings.angle(length) for length in lengths],
        bottom,
        align="edge",
        **patch,
    )
    for number, arc in enumerate(drawn):
        arc.set_label(label)
        arc.set_gid(f"{name}-{number}")
