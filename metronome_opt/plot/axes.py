"""Figures of one pair of axes, and how axes of figures about many runs look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metronome_opt.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from metronome_opt.plot.picture import Picture

WIDTH, HEIGHT = 6.4, 4.0  # inches


def single(title: str) -> tuple[Picture, Axes]:
    """Return a figure with one pair of axes below a title."""
    figure = style.new_figure(WIDTH, HEIGHT)
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    axes = figure.add_subplot()
    dress(axes)
    return figure, axes


def dress(axes: Axes) -> None:
    """Give axes a pale grid, small numbers and no frame."""
    axes.tick_params(labelsize=style.SMALL)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
