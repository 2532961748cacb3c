"""A lower bound that is there at once: the optimum of a link, solved as if it were alone."""

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


def link_bound(search: Search, link: str) -> Fraction:
    """Return a lower bound of what one link costs, by branch and bound on it alone."""
    alone = search.below(restrict(search.instance, [link]))
    greedy.run(alone)
    local.improve(alone, share=_LOCAL_SHARE, patience=1)
    with suppress(CostTooLargeError, TreeTooLargeError):  # then nothing is known of the link
        Proof(alone).grow(_NODES)
    return alone.bound or Fraction(0)
