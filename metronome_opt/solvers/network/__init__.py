"""A block as a cost network: what each link costs, as a table over the offsets of its jobs."""

from metronome_opt.solvers.network.eliminate import Eliminated, decide, eliminate
from metronome_opt.solvers.network.model import Cost, CostNetwork
from metronome_opt.solvers.network.tables import build, condition, rotated_incumbent

__all__ = [
    "Cost",
    "CostNetwork",
    "Eliminated",
    "build",
    "condition",
    "decide",
    "eliminate",
    "rotated_incumbent",
]
