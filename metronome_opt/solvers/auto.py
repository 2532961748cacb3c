"""The default: presolve, blocks, local search, branch and bound, and CP-SAT for what is left."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from metronome_opt.errors import MissingBackendError
from metronome_opt.presolve import Split, coarsen, simplify_links, split
from metronome_opt.presolve.reduction import Offsets, Reduction
from metronome_opt.solvers import branch_bound, cpsat, greedy, local
from metronome_opt.solvers.bounds import links_bound
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_LOCAL_SHARE = 0.25  # of the time, at most, for local search
_QUICK_NODES = 20_000  # of branch and bound, before the harder blocks are taken on


def run(search: Search) -> None:
    """Offer the greedy schedule, then solve block by block and put the blocks together."""
    greedy.run(search)
    local.improve(search, share=_LOCAL_SHARE)
    if search.stopped or search.best is None:
        return
    Blocks(search).solve()


class Blocks:
    """The blocks of an instance, each with a search of its own, below the search of the whole."""

    def __init__(self, search: Search) -> None:
        self._whole = search
        self._reductions: list[Reduction] = [simplify_links(search.instance)]
        self._reductions.append(coarsen(self._reductions[-1].instance))
        self._split: Split = split(self._reductions[-1].instance)
        self._parts = [search.below(block) for block in self._split.blocks]

    def solve(self) -> None:
        """Local search everywhere, then proofs, the quick ones first."""
        for part in self._parts:
            greedy.run(part)
            local.improve(part, share=_LOCAL_SHARE / len(self._parts))
        self._join()
        for part in self._parts:
            branch_bound.prove(part, most_nodes=_QUICK_NODES)
        self._join()
        open_parts = sorted(
            (part for part in self._parts if not part.proved),
            key=lambda part: len(part.instance.jobs),
        )
        for part in open_parts:
            part.raise_bound(links_bound(part), "links")
        self._join()
        for number, part in enumerate(open_parts):
            part.limit_to(self._whole.remaining, len(open_parts) - number)
            self._finish(part)
            self._join()
        self._say()

    def _finish(self, part: Search) -> None:
        if part.stopped or part.best is None:
            return
        try:
            cpsat.run(part, start=part.best)
        except (ModelTooLargeError, MissingBackendError) as error:
            note = f"goes without CP-SAT: {error}"
            if note not in self._whole.notes:
                self._whole.notes.append(note)
            branch_bound.prove(part)

    def _join(self) -> None:
        """Put the blocks' schedules and bounds together."""
        found = [part.named() for part in self._parts]
        if all(offsets is not None for offsets in found):
            offsets: Offsets = self._split.join([each for each in found if each is not None])
            for reduction in reversed(self._reductions):
                offsets = reduction.restore(offsets)
            self._offer(offsets)
        bound = sum((part.bound or Fraction(0) for part in self._parts), Fraction(0))
        self._whole.raise_bound(bound, "blocks")

    def _offer(self, offsets: Mapping[str, int]) -> None:
        self._whole.offer([offsets[job.name] for job in self._whole.instance.jobs], "blocks")

    def _say(self) -> None:
        proved = sum(part.proved for part in self._parts)
        count = len(self._parts)
        if count > 1 or not proved:
            self._whole.notes.append(f"{proved} of {count} blocks proved optimal")
