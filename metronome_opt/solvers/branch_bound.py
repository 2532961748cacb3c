"""Exact: branch and bound, block by block, from the links to ever larger groups of them."""

from __future__ import annotations

from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.blocks import Blocks
from metronome_opt.solvers.clusters import Clusters
from metronome_opt.solvers.search import Search

_LOCAL_SHARE = 0.1  # of the time, at most, for the schedule to start from


def run(search: Search) -> None:
    """Start from greedy and a short local search, then prove; the quick blocks first."""
    greedy.run(search)
    local.improve(search, share=_LOCAL_SHARE)
    if search.stopped:
        return
    blocks = Blocks(search)
    for part in blocks.parts:
        blocks.start(part, share=_LOCAL_SHARE)
    proofs = {id(part): Clusters(part) for part in blocks.open}
    blocks.join()
    left = blocks.open
    while left and not search.stopped:
        for part in left:
            proofs[id(part)].play()
            blocks.join()
        left = [part for part in blocks.open if not proofs[id(part)].over]
    blocks.say()
