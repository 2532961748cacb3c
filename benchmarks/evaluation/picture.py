"""The map: by how much places and slots shorten mean completion, in each regime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes

from benchmarks.evaluation.blocks import DECISIONS, FACTORS
from benchmarks.evaluation.figures import Figures
from metronome_opt.output.figures.picture import new_figure, save_figure
from metronome_opt.output.figures.style import BLUE, INK, SHEET

MAP = "map.png"
_ROWS = {"over-default/": "against default", "": "against nearest"}
_LINES: Mapping[str, dict[str, Any]] = {
    "no contention": {"color": "#999999", "marker": "_", "linestyle": ":"},
    "both": {"color": INK, "marker": "o"},
    "places": {"color": BLUE, "marker": "s"},
    "slots": {"color": "#D55E00", "marker": "^"},
}
"""Decisions by their lines, in colours of Okabe and Ito; markers differ as well."""
_SHIFT = 0.09  # between the lines of a factor, so that intervals can be told apart


def draw_map(figures: Figures, path: Path) -> bool:
    """Draw the screening of `regimes`; return False where nothing is recorded of it."""
    if f"regimes/all/{DECISIONS['both']}/completion" not in figures:
        return False
    with rc_context(SHEET):
        picture = new_figure(9.6, 4.4)
        shown = [tuple(values.values()) for values in FACTORS.values()]
        widths = [0.4 + max(len(texts), len("".join(texts)) / 4) for texts in shown]
        grid = picture.subplots(2, len(FACTORS), sharey="row", width_ratios=widths)
        for axes_row, (over, title) in zip(grid, _ROWS.items(), strict=True):
            gains = [0.0]
            for axes, (factor, values) in zip(axes_row, FACTORS.items(), strict=True):
                gains += _draw_factor(axes, figures, over, values)
                axes.set_xticks(range(len(values)), values.values() if not over else [])
                axes.set_xlabel("" if over else factor)
            axes_row[0].set_ylabel(f"completion shorter, %\n{title}")
            low, high = min(gains), max(gains)  # intervals may go beyond what is shown
            margin = 0.25 * (high - low)
            axes_row[0].set_ylim(low - margin, high + margin)
        names, labels = grid[0][0].get_legend_handles_labels()
        order = [labels.index(each) for each in DECISIONS]
        picture.legend(
            [names[at] for at in order],
            [labels[at] for at in order],
            loc="outside upper center",
            ncols=len(order),
            frameon=False,
        )
        save_figure(picture, path)
    return True


def _draw_factor(axes: Axes, figures: Figures, over: str, values: Mapping[str, str]) -> list[float]:
    """Draw and return the gains of decisions over the values of a factor, others in equal mixes."""
    gains: list[float] = []
    axes.axhline(0, color=INK, linewidth=0.6)
    for number, (decision, line) in enumerate(_LINES.items()):
        points = []
        for at, label in enumerate(values):
            figure = figures.get(f"regimes/{label}/{DECISIONS[decision]}/{over}completion")
            if figure is not None and figure.low is not None and figure.high is not None:
                ends = figure.mean - figure.low, figure.high - figure.mean
                points.append((at + _SHIFT * (number - 1.5), -figure.mean, *ends[::-1]))
        x, gain, below, above = zip(*points, strict=True) if points else ((),) * 4
        gains += gain
        axes.errorbar(
            x,
            gain,
            (below, above),
            label=decision,
            markersize=4,
            linewidth=1.3,
            elinewidth=0.8,
            **line,
        )
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    return gains
