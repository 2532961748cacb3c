"""The map: by how much placement and windows shorten mean completion, in each regime."""

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
Lines = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Policies and their lines, by what stands for them."""
STYLES: Mapping[str, Mapping[str, Any]] = {
    "no contention": {"color": "#999999", "marker": "_", "linestyle": ":"},
    "both": {"color": INK, "marker": "o"},
    "placement": {"color": BLUE, "marker": "s"},
    "windows": {"color": "#D55E00", "marker": "^"},
}
"""Lines of decisions, in colours of Okabe and Ito; markers differ as well."""
_LINES: Lines = {each: (DECISIONS[each], style) for each, style in STYLES.items()}
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
                gains += draw_factor(axes, figures, over, values, _LINES)
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


def draw_factor(
    axes: Axes, figures: Figures, over: str, values: Mapping[str, str], lines: Lines
) -> list[float]:
    """Draw and return the gains of policies over the values of a factor, others in equal mixes."""
    gains: list[float] = []
    axes.axhline(0, color=INK, linewidth=0.6)
    for number, (shown, (policy, style)) in enumerate(lines.items()):
        points = []
        for at, label in enumerate(values):
            figure = figures.get(f"regimes/{label}/{policy}/{over}completion")
            if figure is not None and figure.low is not None and figure.high is not None:
                ends = figure.mean - figure.low, figure.high - figure.mean
                shift = _SHIFT * (number - (len(lines) - 1) / 2)
                points.append((at + shift, -figure.mean, *ends[::-1]))
        x, gain, below, above = zip(*points, strict=True) if points else ((),) * 4
        gains += gain
        axes.errorbar(
            x,
            gain,
            (below, above),
            label=shown,
            **{"markersize": 4, "linewidth": 1.3, "elinewidth": 0.8, **style},
        )
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)
    return gains
