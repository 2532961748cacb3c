"""Figures of schedules, clusters, fronts and simulations.

A function that draws one pair of axes takes ``ax=None`` and returns the axes; a comparison returns
a matplotlib figure. `save_figure` writes either. matplotlib is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import MissingBackendError

if TYPE_CHECKING:
    from metronome_opt.output.figures.change import plot_change as plot_change
    from metronome_opt.output.figures.change import plot_result as plot_result
    from metronome_opt.output.figures.completions import plot_completions as plot_completions
    from metronome_opt.output.figures.front import plot_front as plot_front
    from metronome_opt.output.figures.heatmap import plot_heatmap as plot_heatmap
    from metronome_opt.output.figures.heatmap import plot_overview as plot_overview
    from metronome_opt.output.figures.picture import check_suffix as check_suffix
    from metronome_opt.output.figures.picture import save_figure as save_figure
    from metronome_opt.output.figures.placements import plot_placements as plot_placements
    from metronome_opt.output.figures.placements import plot_tree as plot_tree
    from metronome_opt.output.figures.timeline import plot_link as plot_link
    from metronome_opt.output.figures.timeline import plot_spines as plot_spines
    from metronome_opt.output.figures.timeline import plot_timeline as plot_timeline

_MODULES = {
    "check_suffix": "picture",
    "plot_change": "change",
    "plot_completions": "completions",
    "plot_front": "front",
    "plot_heatmap": "heatmap",
    "plot_link": "timeline",
    "plot_overview": "heatmap",
    "plot_placements": "placements",
    "plot_result": "change",
    "plot_spines": "timeline",
    "plot_timeline": "timeline",
    "plot_tree": "placements",
    "save_figure": "picture",
}

__all__ = list(_MODULES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"metronome_opt.output.figures.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingBackendError(
            "figures need matplotlib, which is not installed: pip install metronome-opt[plot]"
        ) from None
    return getattr(module, name)
