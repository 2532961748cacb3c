"""A lower bound that is there at once: the optima of the links, each solved as if it were alone."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.kernels.tree import TreeTooLargeError
from metronome_opt.presolve import restrict
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.proof import Proof
from metronome_opt.solvers.search import Search

_NODES = 20_000
_LOCAL_SHARE = 0.02


def links_bound(search: Search) -> Fraction:
    """Return the sum over the links of each link's own bound, by branch and bound on it alone."""
    total = Fraction(0)
    for link in search.compiled.links:
        alone = search.below(restrict(search.instance, [link.name]))
        greedy.run(alone)
        local.improve(alone, share=_LOCAL_SHARE, patience=1)
        with suppress(CostTooLargeError, TreeTooLargeError):  # then nothing is known of the link
            Proof(alone).grow(_NODES)
        total += alone.bound or Fraction(0)
    return total
