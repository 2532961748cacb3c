"""The map: which clusters are saturated, and by how much completion is shorter, by factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import rc_context

from benchmarks.evaluation.blocks import FACTORS
from benchmarks.evaluation.figures import PLACES, SLOTS, SUBJECT, Figure, Figures
from metronome_opt.output.figures.picture import new_figure, save_figure
from metronome_opt.output.figures.style import BLUE, INK, SHEET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

MAP = "map.png"
_SHIFT = 0.09  # between the lines of a factor, so that intervals can be told apart
_LINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "spreading": ("default", {"color": "#CC79A7", "marker": "x"}),
    "packing": ("nearest", {"color": "#009E73", "marker": "D"}),
    "no contention": ("ideal", {"color": "#999999", "marker": "_", "linestyle": ":"}),
    "all decisions": (SUBJECT, {"color": INK, "marker": "o"}),
    "no windows": (PLACES, {"color": BLUE, "marker": "s"}),
    "windows only": (SLOTS, {"color": "#D55E00", "marker": "^"}),
}
"""Policies by what they decide, in colours of Okabe and Ito; markers differ as well."""


class _Row(NamedTuple):
    """A row of the map: its title, the end of its figures' keys, and its lines."""

    title: str
    measure: str
    lines: Sequence[str]


_ROWS = (
    _Row("saturated,\n% of cells", "saturated", ("spreading", "packing", "all decisions")),
    _Row(
        "shorter than\nspreading, %",
        "over-default/completion",
        ("packing", "no contention", "all decisions"),
    ),
    _Row(
        "shorter than\npacking, %",
        "completion",
        ("no contention", "all decisions", "no windows", "windows only"),
    ),
)


def draw_map(figures: Figures, path: Path) -> bool:
    """Draw the screening of `regimes`; return False where nothing is recorded of it."""
    if f"regimes/all/{SUBJECT}/completion" not in figures:
        return False
    with rc_context(SHEET):
        picture = new_figure(9.6, 5.6)
        draw_regimes(figures, picture, {"markersize": 4, "linewidth": 1.3, "elinewidth": 0.8})
        save_figure(picture, path)
    return True


def draw_regimes(figures: Figures, picture: Picture, line: Mapping[str, Any]) -> None:
    """Draw what policies do by factor, a row for each measure."""
    texts = [[each.rstrip(" %") for each in values.values()] for values in FACTORS.values()]
    widths = [0.6 + max(len(each), len("".join(each)) / 3) for each in texts]
    shape = len(_ROWS), len(FACTORS)
    grid = picture.subplots(*shape, sharex="col", sharey="row", width_ratios=widths)
    legend: dict[object, Any] = {}
    for axes_row, row in zip(grid, _ROWS, strict=True):
        shown = [0.0]
        for axes, values in zip(axes_row, FACTORS.values(), strict=True):
            shown += _draw_factor(axes, figures, list(values), row, line)
            handles, labels = axes.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        margin = 0.1 * (max(shown) - min(shown))  # intervals may go beyond the frame
        axes_row[0].set_ylim(min(shown) - margin, max(shown) + margin)
        axes_row[0].set_ylabel(row.title)
    for axes, names, (factor, values) in zip(grid[-1], texts, FACTORS.items(), strict=True):
        axes.set_xticks(range(len(values)), names)
        axes.set_xlabel(factor + ", %" * any("%" in each for each in values.values()))
    picture.legend(
        [legend[each] for each in _LINES],
        list(_LINES),
        loc="outside upper center",
        ncols=len(_LINES),
        frameon=False,
    )


def _draw_factor(
    axes: Axes, figures: Figures, values: Sequence[str], row: _Row, line: Mapping[str, Any]
) -> list[float]:
    """Draw and return a measure over the values of a factor."""
    shown: list[float] = []
    axes.axhline(0, color=INK, linewidth=0.6)
    for number, name in enumerate(row.lines):
        policy, style = _LINES[name]
        points = []
        for at, label in enumerate(values):
            found = _measured(figures, f"regimes/{label}", policy, row.measure)
            if found is not None and found.low is not None and found.high is not None:
                shift = _SHIFT * (number - (len(row.lines) - 1) / 2)
                ends = found.mean - found.low, found.high - found.mean
                points.append((at + shift, found.mean, *ends))
        x, y, below, above = zip(*points, strict=True) if points else ((),) * 4
        shown += [*y, *(at + up for at, up in zip(y, above, strict=True))]
        axes.errorbar(x, y, (below, above), label=name, **{**line, **style})
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.grid(axis="y")
    axes.tick_params(length=2, pad=2)
    axes.spines[["top", "right"]].set_visible(False)
    return shown


def _measured(figures: Figures, key: str, policy: str, measure: str) -> Figure | None:
    """Return by how many per cent completion is shorter, or how many of the cells are saturated."""
    found = figures.get(f"{key}/{policy}/{measure}")
    if found is None:
        return None
    if measure == "saturated":
        total = figures[f"{key}/stable"].mean + figures[f"{key}/nearest/saturated"].mean
        return Figure(*[100 * found.mean / total] * 3)
    low, high = (None if each is None else -each for each in (found.high, found.low))
    return Figure(-found.mean, low, high)
