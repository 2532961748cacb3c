"""The structure of an instance: smaller instances with the same optimum, and the way back."""

from metronome_opt.presolve.blocks import Split, restrict, split
from metronome_opt.presolve.grid import coarsen
from metronome_opt.presolve.links import simplify_links
from metronome_opt.presolve.orbits import Orbits, orbits
from metronome_opt.presolve.reduction import Reduction

__all__ = [
    "Orbits",
    "Reduction",
    "Split",
    "coarsen",
    "orbits",
    "restrict",
    "simplify_links",
    "split",
]
