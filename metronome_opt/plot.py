"""Figures of schedules, classes, fronts and simulations.

A figure of one pair of axes takes ``ax=None`` and returns its axes; a comparison returns a
matplotlib figure. `save_figure` writes either. A name is imported on first use, matplotlib with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import MissingBackendError

if TYPE_CHECKING:
    from metronome_opt.output.figures.front import plot_front as plot_front
    from metronome_opt.output.figures.heatmap import plot_heatmap as plot_heatmap
    from metronome_opt.output.figures.heatmap import plot_overview as plot_overview
    from metronome_opt.output.figures.heatmap import plot_result as plot_result
    from metronome_opt.output.figures.picture import check_suffix as check_suffix
    from metronome_opt.output.figures.picture import save_figure as save_figure
    from metronome_opt.output.figures.placements import plot_placements as plot_placements
    from metronome_opt.output.figures.spines import plot_spines as plot_spines
    from metronome_opt.output.figures.timeline import plot_link as plot_link
    from metronome_opt.output.figures.timeline import plot_timeline as plot_timeline
    from metronome_opt.output.figures.tree import plot_tree as plot_tree

_HOME = {
    "front": ("plot_front",),
    "heatmap": ("plot_heatmap", "plot_overview", "plot_result"),
    "picture": ("check_suffix", "save_figure"),
    "placements": ("plot_placements",),
    "spines": ("plot_spines",),
    "timeline": ("plot_link", "plot_timeline"),
    "tree": ("plot_tree",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = list(_MODULE)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"metronome_opt.output.figures.{_MODULE[name]}")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingBackendError(
            "figures need matplotlib, which is not installed: pip install metronome-opt[plot]"
        ) from None
    return getattr(module, name)
