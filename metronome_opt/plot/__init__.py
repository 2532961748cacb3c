"""Pictures of links before and after, of who pays and who gains, of fronts, of simulations.

Every function returns a matplotlib figure; `save_figure` writes it. matplotlib is imported when the
first figure is made.
"""

from __future__ import annotations

from metronome_opt.plot.circle import plot_circle
from metronome_opt.plot.classes import plot_classes
from metronome_opt.plot.comparison import busiest_link
from metronome_opt.plot.front import plot_front
from metronome_opt.plot.heatmap import plot_heatmap
from metronome_opt.plot.overview import plot_overview
from metronome_opt.plot.profile import plot_profile
from metronome_opt.plot.save import check_suffix, save_figure
from metronome_opt.plot.simulation import (
    LinkTrace,
    plot_completion,
    plot_gain,
    plot_grid,
    plot_link,
    plot_prediction,
    plot_utilisation,
)
from metronome_opt.plot.timeline import plot_timeline

__all__ = [
    "LinkTrace",
    "busiest_link",
    "check_suffix",
    "plot_circle",
    "plot_classes",
    "plot_completion",
    "plot_front",
    "plot_gain",
    "plot_grid",
    "plot_heatmap",
    "plot_link",
    "plot_overview",
    "plot_prediction",
    "plot_profile",
    "plot_timeline",
    "plot_utilisation",
    "save_figure",
]
