"""Pictures: the circle and the timeline of a link, the heat map of all links, before and after.

Every function returns a matplotlib figure; `save_figure` writes it. matplotlib is imported when the
first figure is made.
"""

from __future__ import annotations

from metronome_opt.plot.circle import plot_circle
from metronome_opt.plot.comparison import busiest_link
from metronome_opt.plot.heatmap import plot_heatmap
from metronome_opt.plot.overview import plot_overview
from metronome_opt.plot.save import check_suffix, save_figure
from metronome_opt.plot.timeline import plot_timeline

__all__ = [
    "busiest_link",
    "check_suffix",
    "plot_circle",
    "plot_heatmap",
    "plot_overview",
    "plot_timeline",
    "save_figure",
]
