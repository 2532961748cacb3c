"""The racks of a cluster and the jobs that run there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes

from metronome_opt.plot import style
from metronome_opt.plot.picture import job_entries, legend_beside, new_axes
from metronome_opt.scenario.network import Cluster

_COLUMNS = 64  # racks side by side
_COLUMN, _ROW = 0.17, 0.13  # inches of a rack and of a node
_MARGIN = 0.8  # inches around all
_CELL = 0.85  # width of a node in its column
_ROWS_OF_NAME = 3  # below a rack
_LONGEST = 8  # characters of it
_Band = tuple[str, list[tuple[str, list[str]]]]  # a title, and racks with their nodes
_GAP = 2.0  # rows between bands, with their title


@rc_context(style.SHEET)
def plot_tree(
    cluster: Cluster, jobs: Mapping[str, Mapping[str, int]], *, ax: Axes | None = None
) -> Axes:
    """Draw each node as a cell, in a column with those of its rack, and who has its GPUs.

    Racks of one switch stand side by side under its name; what is white is free.

    Parameters
    ----------
    jobs
        GPUs of each node that a job has.
    ax
        Axes to draw on; new ones if None.
    """
    bands = _bands(cluster)
    width = max(len(racks) for _, racks in bands)
    depths = [max(len(nodes) for _, nodes in racks) for _, racks in bands]
    height = sum(depths) + len(bands) * (_GAP + _ROWS_OF_NAME)
    ax = ax or new_axes(_MARGIN + _COLUMN * max(width, 24) + 2.0, _MARGIN + _ROW * height)
    place: dict[str, tuple[float, float]] = {}
    top = 0.0
    for (title, racks), depth in zip(bands, depths, strict=True):
        ax.text(0, top + _GAP - 0.5, title, fontsize=style.TEXT, parse_math=False)
        for column, (rack, nodes) in enumerate(racks):
            place |= {node: (column, top + _GAP + row) for row, node in enumerate(nodes)}
            name = style.shorten(rack, _LONGEST)
            at = (column + _CELL / 2, top + _GAP + depth + 0.3)
            ax.text(*at, name, fontsize=6, rotation=90, ha="center", va="top", parse_math=False)
        top += _GAP + depth + _ROWS_OF_NAME
    lefts, tops = ([cell[axis] for cell in place.values()] for axis in (0, 1))
    outline: dict[str, Any] = {"fill": False, "edgecolor": "#888888", "linewidth": 0.4, "zorder": 3}
    ax.bar(lefts, 1.0, _CELL, tops, align="edge", **outline)
    taken = dict.fromkeys(place, 0.0)
    for position, (job, gpus_of) in enumerate(jobs.items()):
        shares = [gpus / max(1, cluster.gpus_of[node]) for node, gpus in gpus_of.items()]
        lefts = [place[node][0] + _CELL * taken[node] for node in gpus_of]
        looks = style.job_style(position, bursts=len(place))
        ax.bar(
            lefts,
            1.0,
            [_CELL * share for share in shares],
            [place[node][1] for node in gpus_of],
            align="edge",
            label=job,
            **looks,
        )
        for node, share in zip(gpus_of, shares, strict=True):
            taken[node] += share
    ax.set_xlim(-0.3, max(width, 24))
    ax.set_ylim(top, 0)
    ax.set_axis_off()
    legend_beside(ax, job_entries([style.shorten(job) for job in jobs], "no jobs"))
    return ax


def _bands(cluster: Cluster) -> list[_Band]:
    """Return the racks below each switch in rows that fit a page, with its title."""
    nodes: dict[str | None, list[str]] = {}
    for node in cluster.nodes:
        nodes.setdefault(node.rack, []).append(node.name)
    below: dict[tuple[str, ...], list[str | None]] = {}
    for rack in nodes:
        below.setdefault(tuple(cluster.ways[rack])[1:], []).append(rack)
    bands: list[_Band] = []
    for above, racks in sorted(below.items(), key=lambda each: each[0][::-1]):
        named = [(_short(rack, above), nodes[rack]) for rack in racks]
        named.sort(key=lambda rack: (len(rack[0]), rack[0]))
        count = sum(len(held) for _, held in named)
        title = f"{' in '.join(above) or 'top'}: {count} nodes, {len(racks)} racks"
        for first in range(0, len(racks), _COLUMNS):
            bands.append((title, named[first : first + _COLUMNS]))
            title = ""
    return bands


def _short(rack: str | None, above: Sequence[str]) -> str:
    """Return the name of a rack without that of the switch above it."""
    return "no rack" if rack is None else rack.removeprefix(f"{above[0]}/" if above else "")
