"""What an event of the simulator costs as clusters grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError
from metronome_opt.plot import style
from metronome_opt.plot.axes import single

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture


def plot_event_cost(points: Sequence[tuple[int, float]], *, title: str = "one core") -> Picture:
    """Draw the time of an event against the number of nodes, at constant density of jobs.

    Parameters
    ----------
    points
        (nodes, microseconds an event) of each measurement; several of one size are joined by their
        median.
    title
        What stands above the figure.

    Raises
    ------
    InputError
        If there are no points.
    """
    from statistics import median

    if not points:
        raise InputError("points: there are none, so there is nothing to draw")
    sizes = sorted({nodes for nodes, _ in points})
    medians = [median(cost for nodes, cost in points if nodes == size) for size in sizes]
    figure, axes = single(f"Cost of an event by number of nodes, {title}")
    axes.plot(
        [nodes for nodes, _ in points],
        [cost for _, cost in points],
        linestyle="none",
        marker="o",
        markersize=4,
        markeredgewidth=0,
        color="#56B4E9",
        gid="cost-points",
    )
    axes.plot(sizes, medians, color="#0072B2", linewidth=1.6, marker="s", gid="cost-medians")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 1.1 * max(cost for _, cost in points))
    axes.set_xlabel("nodes", fontsize=style.TEXT)
    axes.set_ylabel("time of an event (µs)", fontsize=style.TEXT)
    figure.settle()
    return figure
