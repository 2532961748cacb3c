"""Jobs and their nodes: the racks of a cluster, and iteration times at several placements."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import job_entries, legend_beside, new_axes
from metronome_opt.scenario.cluster import Cluster

_COLUMNS, _FEWEST = 64, 4  # racks side by side
_COLUMN, _ROW = 0.17, 0.13  # inches of a rack and of a node
_MARGIN, _NARROWEST = 2.8, 4.0  # inches around all, with a legend; and of all racks
_CELL = 0.85  # width of a node in its column
_ROWS_OF_NAME = 4  # below a rack
_Band = tuple[str, list[tuple[str, list[str]]]]  # a title, and racks with their nodes
_GAP = 2.0  # rows between bands, with their title

_HEIGHT, _PER_JOB, _MIN_WIDTH = 3.6, 1.2, 5.0  # inches
_COLOURS = ("#595959", "#E69F00", style.BLUE, "#009E73")
_LABEL = 16  # characters of a line below a job
_SHARE = 0.8  # of the distance between jobs that their bars take


@rc_context(style.SHEET)
def plot_tree(
    cluster: Cluster, jobs: Mapping[str, Mapping[str, int]], *, ax: Axes | None = None
) -> Axes:
    """Draw nodes as cells in columns of racks, with the jobs that have their GPUs.

    Racks of one switch stand side by side under its name; free GPUs are white.

    Parameters
    ----------
    cluster
        Its nodes, racks and switches are drawn.
    jobs
        GPUs by job and node.
    ax
        Axes to draw on; new ones if None.
    """
    bands = _bands(cluster)
    depths = [max(len(nodes) for _, nodes in racks) for _, racks in bands]
    width = max(_FEWEST, *(len(racks) for _, racks in bands))
    height = sum(depths) + len(bands) * (_GAP + _ROWS_OF_NAME)
    ax = ax or new_axes(_MARGIN + max(_NARROWEST, _COLUMN * width), _MARGIN + _ROW * height)
    place: dict[str, tuple[float, float]] = {}
    top = _GAP
    for (title, racks), depth in zip(bands, depths, strict=True):
        ax.text(0, top - 0.5, title, fontsize=style.TEXT)
        for column, (rack, nodes) in enumerate(racks):
            place |= {node: (column, top + row) for row, node in enumerate(nodes)}
            at = column + _CELL / 2, top + depth + 0.3
            ax.text(*at, style.shorten(rack, 12), fontsize=6, rotation=90, ha="center", va="top")
        top += depth + _ROWS_OF_NAME + _GAP
    looks: dict[str, Any] = {"fill": False, "edgecolor": "#888888", "linewidth": 0.4, "zorder": 3}
    for left, row in place.values():
        ax.add_patch(Rectangle((left, row), _CELL, 1, **looks))
    taken = dict.fromkeys(place, 0.0)
    for position, gpus_of in enumerate(jobs.values()):
        looks = style.job_style(position, bursts=len(place))
        for node, gpus in gpus_of.items():
            share = _CELL * gpus / max(1, cluster.gpus_of[node])
            left, row = place[node]
            ax.add_patch(Rectangle((left + taken[node], row), share, 1, **looks))
            taken[node] += share
    ax.set_xlim(-0.3, width)
    ax.set_ylim(top - _GAP, 0)
    ax.set_axis_off()
    legend_beside(ax, job_entries([style.shorten(job) for job in jobs], "no jobs"))
    return ax


def _bands(cluster: Cluster) -> list[_Band]:
    """Return the racks below each switch in rows that fit a page, with its title."""
    nodes: dict[str | None, list[str]] = {}
    for node in cluster.nodes:
        nodes.setdefault(node.rack, []).append(node.name)
    below: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for rack, held in nodes.items():
        above = tuple(cluster.uplink_paths[rack])[1:]
        own = (rack or "no rack").removeprefix(f"{above[0]}/" if above else "")
        below.setdefault(above, []).append((own, held))
    bands: list[_Band] = []
    for above, racks in sorted(below.items(), key=lambda band: band[0][::-1]):
        racks.sort(key=lambda rack: (len(rack[0]), rack[0]))
        count = sum(len(held) for _, held in racks)
        title = f"{' in '.join(above) or 'cluster'}: {count} nodes, {len(racks)} racks"
        starts = range(0, len(racks), _COLUMNS)
        bands += [("" if at else title, racks[at : at + _COLUMNS]) for at in starts]
    return bands


def _wrap(label: str) -> str:
    """Return a label in lines that fit below the bars of a job."""
    return "\n".join(fill(line, _LABEL) for line in label.splitlines())


@rc_context(style.SHEET)
def plot_placements(
    times: Mapping[str, Mapping[str, float]],
    *,
    labels: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the iteration times of jobs, a bar for each placement.

    Parameters
    ----------
    times
        By placement and job, in ms; the jobs of the first placement are drawn.
    labels
        Text below each job, such as its nodes; its name if None.
    ax
        Axes to draw on; new ones if None.
    """
    jobs = list(next(iter(times.values())))
    ax = ax or new_axes(max(_MIN_WIDTH, _PER_JOB * len(jobs)), _HEIGHT)
    width = _SHARE / len(times)
    colours = _COLOURS if len(times) > 2 else (_COLOURS[0], style.BLUE)
    for number, (label, by_job) in enumerate(times.items()):
        left = np.arange(len(jobs)) + (number - (len(times) - 1) / 2) * width
        heights = [by_job.get(job, np.nan) for job in jobs]
        colour = colours[number % len(colours)]
        bars = ax.bar(left, heights, width, label=label, color=colour)
        ax.bar_label(bars, fmt="%.0f", fontsize="x-small")
    names = [style.shorten(job, 16) for job in jobs]
    texts = names if labels is None else [_wrap(labels[job]) for job in jobs]
    ax.set_xticks(range(len(jobs)), texts)
    ax.set_ylabel("iteration (ms)")
    ax.legend(ncols=len(times), loc="upper left", frameon=False)
    ax.margins(y=0.2)
    return ax
