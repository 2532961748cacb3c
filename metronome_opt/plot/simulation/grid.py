"""The grid as a whole: what each policy changes in each cell, losses as visible as gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metronome_opt.plot import style

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

    from metronome_opt.plot.picture import Picture

_ROW, _COLUMN, _LETTER = 0.26, 1.15, 0.075  # inches
_MARGINS = 1.55  # inches: title, axis, legend
_LEAST, _MOST = 0.01, 0.3  # a narrower scale would paint noise, a wider one hide small changes
_COLOURS = ["#00456E", "#0072B2", "white", "#D55E00", "#8A3300"]
_DARK = 0.18  # relative luminance at which black and white letters are as legible


def plot_grid(
    changes: NDArray[np.float64],
    *,
    cells: Sequence[str],
    policies: Sequence[str],
    title: str,
    what: str,
    certain: NDArray[np.bool_] | None = None,
) -> Picture:
    """Draw a table of changes in which blue is better, red is worse and white is no change.

    Parameters
    ----------
    changes
        Relative change by cell and policy, below 0 is better; NaN where it is not known. Shape
        (cells, policies).
    cells, policies
        Rows from top to bottom, columns from left to right.
    title
        What stands above the figure.
    what
        Of which measure, against what.
    certain
        Where the interval does not hold 0; other numbers are in brackets. Same shape.
    """
    from matplotlib.colors import TwoSlopeNorm

    known = np.abs(changes[np.isfinite(changes)])
    reach = min(_MOST, max(_LEAST, *known))
    names = [style.shorten(cell, 44) for cell in cells]
    left = _LETTER * max(map(len, names))
    width = max(6.4, left + _COLUMN * len(policies) + 1.3)
    height = max(0.8, _ROW * len(cells))
    figure = style.new_figure(width, height + _MARGINS)
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    axes = figure.add_subplot()
    axes.set_facecolor(style.PAPER)
    image = axes.imshow(
        100 * changes,
        cmap=_colours(),
        norm=TwoSlopeNorm(0, -100 * reach, 100 * reach),
        aspect="auto",
        interpolation="nearest",
    )
    colours = image.to_rgba(np.ma.masked_invalid(100 * changes))
    sure = np.ones(changes.shape, dtype=bool) if certain is None else certain
    for (row, column), value in np.ndenumerate(changes):
        axes.text(
            column,
            row,
            _written(float(value), bool(sure[row, column])),
            ha="center",
            va="center",
            fontsize=style.SMALL,
            color=_ink(colours[row, column]),
            gid=f"grid-{row}-{column}",
        )
    axes.set_xticks(range(len(policies)), list(policies), fontsize=style.SMALL)
    axes.set_yticks(range(len(cells)), names, fontsize=style.SMALL)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    beyond = "both" if (known > reach).any() else "neither"
    scale = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, extend=beyond)
    scale.set_label("change (%)", fontsize=style.SMALL)
    scale.ax.tick_params(labelsize=style.SMALL)
    notes = [f"{what}; below 0 (blue) is better"]
    if not sure[np.isfinite(changes)].all():
        notes.append("(in brackets: may be no change)")
    if len(known) < changes.size:
        notes.append("-: not known")
    style.add_legend(figure, [style.note_entry(note) for note in notes], width)
    figure.settle()
    return figure


def _colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "gain", ["#00456E", "#0072B2", "white", "#D55E00", "#8A3300"]
    )


def _ink(background: NDArray[np.float64]) -> str:
    """Return the colour of letters that has the greater contrast, as WCAG 2 defines it."""
    *colour, opacity = (float(part) for part in background)
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "white" if opacity and luminance < _DARK else style.INK


def _written(value: float, sure: bool) -> str:
    if not np.isfinite(value):
        return "-"
    text = f"{100 * value:+.1f}"
    return text if sure else f"({text})"
