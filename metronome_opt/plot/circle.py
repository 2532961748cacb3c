"""The circle of a link: one turn is its hyperperiod, one ring is a job, one arc is a burst."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.plot import style
from metronome_opt.plot.comparison import Comparison, Side, compare
from metronome_opt.plot.demand import bursts, drawn_slots, find_link, jobs_of, link_demand, runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

WIDTH, HEIGHT = 9.0, 5.2  # inches, without the legend
_TICKS = 8
_FILL = 0.88  # of the width of a ring, at the peak rate of its job
_FAINTEST = 0.3


def plot_circle(
    instance: Instance, before: Mapping[str, int], after: Mapping[str, int], link: str
) -> Figure:
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
    comparison = compare(instance, before, after)
    jobs = jobs_of(instance, shown)
    entries = [*style.job_entries(jobs, shown), style.overload_entry()]
    figure = style.new_figure(WIDTH, HEIGHT + style.legend_height(entries, WIDTH))
    title = style.link_title(instance, shown, drawn_slots(instance, shown))
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    draw_circles(figure, comparison, shown, WIDTH)
    style.add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def draw_circles(canvas: style.Canvas, comparison: Comparison, link: Link, width: float) -> None:
    """Draw both circles side by side on a canvas that is `width` inches wide."""
    from matplotlib.projections.polar import PolarAxes

    for column, side in enumerate(comparison.sides):
        axes = canvas.add_subplot(1, 2, column + 1, projection="polar")
        assert isinstance(axes, PolarAxes)  # noqa: S101 (what the projection is)
        _draw_side(axes, comparison.instance, side, link, width)


@dataclass(frozen=True)
class _Rings:
    """Radii: the unit is the width of one job's ring."""

    count: int
    inches: float  # radius of the whole circle, nearly

    @property
    def hole(self) -> float:
        return max(1.2, 0.35 * self.count)

    @property
    def rim(self) -> float:
        return self.hole + self.count + 0.04 * self.top

    @property
    def top(self) -> float:
        return (self.hole + self.count) / 0.87

    def bottom(self, position: int) -> float:
        return self.hole + self.count - 1 - position

    def font(self) -> float:
        """Return the size of a number that fits into a ring, in points."""
        return min(style.SMALL, 0.85 * 72 * self.inches / self.top)


def _draw_side(axes: PolarAxes, instance: Instance, side: Side, link: Link, width: float) -> None:
    slots = drawn_slots(instance, link)
    demand = link_demand(instance, side.offsets, link, slots)
    rings = _Rings(max(1, len(demand.jobs)), 0.19 * width)
    _prepare(axes, instance, slots, rings)
    axes.set_title(
        style.side_title(side.name, side.report(link.name).contention, "\n"),
        fontsize=style.TEXT,
        fontweight="bold",
        pad=8,
    )
    for position, job in enumerate(demand.jobs):
        _draw_job(axes, job, side, position, rings, slots)
    axes.bar(0, rings.top - rings.rim, math.tau, rings.rim, align="edge", color=style.PAPER)
    whole = slots == instance.hyperperiods[link.name]
    marks = runs(demand.overloaded, closed=whole)
    _draw_arcs(
        axes,
        [(start, length, rings.top - rings.rim) for start, length in marks],
        rings.rim,
        slots,
        label="overload",
        name=f"circle-{side.name}-overload",
        patch=style.OVERLOAD,
    )


def _prepare(axes: PolarAxes, instance: Instance, slots: int, rings: _Rings) -> None:
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_ylim(0, rings.top)
    axes.set_yticks([])
    labels = _tick_labels(instance, slots)
    angles = [math.tau * tick / _TICKS for tick in range(_TICKS)]
    axes.set_xticks(angles, labels, fontsize=style.SMALL)
    axes.tick_params(axis="x", pad=1.5 * max(len(label) for label in labels) - 2)
    axes.grid(visible=False)
    axes.spines["polar"].set_linewidth(0.6)
    size = min(style.SMALL, 13 * rings.inches * rings.hole / rings.top)
    if size >= 5.5:
        turn = f"one turn\n{style.milliseconds(instance, slots)}"
        axes.text(0, 0, turn, ha="center", va="center", fontsize=size)
    for position in range(rings.count):
        axes.bar(0, _FILL, math.tau, rings.bottom(position), align="edge", color=style.PAPER)


def _tick_labels(instance: Instance, slots: int) -> list[str]:
    times = [slots * instance.slot_ms * tick / _TICKS for tick in range(_TICKS)]
    return ["0 ms", *(f"{time:,.10g}" for time in times[1:])]


def _draw_job(
    axes: PolarAxes, job: Job, side: Side, position: int, rings: _Rings, slots: int
) -> None:
    arcs = bursts(job, side.offsets[job.name], slots)
    thick = [
        (start, length, _FILL * max(_FAINTEST, rate / job.peak)) for start, length, rate in arcs
    ]
    _draw_arcs(
        axes,
        thick,
        rings.bottom(position),
        slots,
        label=job.name,
        name=f"circle-{side.name}-job-{position + 1}-arc",
        patch=style.look(position).patch(len(arcs), rings.count),
    )
    if arcs and rings.font() >= 4:
        _number(axes, position, arcs[0][:2], rings, slots)


def _draw_arcs(
    axes: PolarAxes,
    arcs: Sequence[tuple[int, int, float]],
    bottom: float,
    slots: int,
    *,
    label: str,
    name: str,
    patch: Mapping[str, Any],
) -> None:
    """Draw arcs of (start, length, thickness), the first two in slots, and number their names."""
    drawn = axes.bar(
        [math.tau * start / slots for start, _, _ in arcs],
        [thickness for _, _, thickness in arcs],
        [math.tau * length / slots for _, length, _ in arcs],
        bottom,
        align="edge",
        **patch,
    )
    for number, arc in enumerate(drawn):
        arc.set_label(label)
        arc.set_gid(f"{name}-{number}")


def _number(
    axes: PolarAxes, position: int, arc: tuple[int, int], rings: _Rings, slots: int
) -> None:
    """Write the job's number into its arc, or just before it where the arc is too short."""
    start, length = arc
    radius = rings.bottom(position) + _FILL / 2
    size = rings.font()
    needed = 1.6 * size / 72 / (rings.inches * radius / rings.top)  # radians
    width = math.tau * length / slots
    begin = math.tau * start / slots
    axes.text(
        begin + width / 2 if width >= 1.3 * needed else begin - needed / 2,
        radius,
        str(position + 1),
        fontsize=size,
        ha="center",
        va="center",
        color=style.INK,
        bbox={
            "boxstyle": "round,pad=0.08",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.85,
        },
    )
