"""Presolve: smaller instances with the same optimum, and the way back."""

from metronome_opt.presolve.blocks import Split, restrict, split
from metronome_opt.presolve.orbits import Orbits, orbits
from metronome_opt.presolve.reductions import Offsets, Reduction, coarsen, simplify_links

__all__ = [
    "Offsets",
    "Orbits",
    "Reduction",
    "Split",
    "coarsen",
    "orbits",
    "restrict",
    "simplify_links",
    "split",
]
