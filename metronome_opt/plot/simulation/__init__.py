"""Pictures of what simulations brought: distributions, gains, predictions, a link as it happened.

Every function returns a matplotlib figure; `metronome_opt.plot.save_figure` writes it. matplotlib
is imported when the first figure is made.
"""

from __future__ import annotations

from metronome_opt.plot.simulation.completion import plot_completion
from metronome_opt.plot.simulation.cost import plot_event_cost
from metronome_opt.plot.simulation.gain import plot_gain
from metronome_opt.plot.simulation.grid import plot_grid
from metronome_opt.plot.simulation.link import LinkTrace, plot_link
from metronome_opt.plot.simulation.looks import in_order
from metronome_opt.plot.simulation.prediction import plot_prediction
from metronome_opt.plot.simulation.utilisation import plot_utilisation

__all__ = [
    "LinkTrace",
    "in_order",
    "plot_completion",
    "plot_event_cost",
    "plot_gain",
    "plot_grid",
    "plot_link",
    "plot_prediction",
    "plot_utilisation",
]
