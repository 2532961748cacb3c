"""Branch and bound on a search: from its incumbent to a proof, in slices."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.kernels.contacts import contacts_of
from metronome_opt.kernels.grow import grow
from metronome_opt.kernels.tables import (
    Compiled,
    CostTooLargeError,
    Ints,
    compile_instance,
)
from metronome_opt.kernels.tree import (
    NONE,
    Pseudocosts,
    TreeTooLargeError,
    dual_bound,
    incumbent,
    is_done,
    set_cutoff,
    start_tree,
)
from metronome_opt.presolve import Offsets, restrict
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.search import Search

_SOURCE = "branch-bound"
_SLICE = 250  # nodes that a tree grows by before the other one does
# What is learned of the jobs decides how to branch, most of all near the root: so begin anew after
# that many nodes, with what has been learned, and again after that many times more.
_FIRST_RESTART = 1_000
_MORE_NODES = 4
_SHARPNESS = (8.0, 3.0)  # of the trees, see `kernels.grow`
_FIRST_GAIN = 0.2
_FIRST_TRIES = 5.0  # nodes that the opinion counts for
_LATER_TRIES = 20.0  # nodes that what was learned before a new start counts for
LINK_NODES = 20_000
"""The budget of the proof of a link."""
_LOCAL_SHARE = 0.02  # of the time, at most, for the schedule of some links


class Proof:
    """Trees that grow from the incumbent of a search, in slices, until one of them is done.

    How long a tree takes depends on how it branches, by orders of magnitude, and which way is
    better is not known beforehand. So two trees that branch by different rules grow alternately.

    Parameters
    ----------
    search
        Has an incumbent. Better ones and bounds are reported to it, and taken from it.

    Raises
    ------
    CostTooLargeError, TreeTooLargeError
        If the instance is too large.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        shared = _Shared(search)
        self._attempts = [_Attempt(shared, sharpness) for sharpness in _SHARPNESS]

    @property
    def done(self) -> bool:
        """True once the incumbent is proved."""
        return any(attempt.done for attempt in self._attempts)

    @property
    def nodes(self) -> int:
        """Number of expanded nodes."""
        return sum(attempt.nodes for attempt in self._attempts)

    def grow(self, max_nodes: int | None = None, *, threads: int = 1) -> bool:
        """Go on until done, stopped or `max_nodes` nodes further; return whether it is done.

        With two threads the trees grow at the same time.
        """
        target = None if max_nodes is None else self.nodes + max_nodes

        def goes_on() -> bool:
            within = target is None or self.nodes < target
            return within and not self.done and not self._search.stopped

        def grow(attempt: _Attempt) -> None:
            while goes_on():
                attempt.grow()

        if threads > 1:
            with ThreadPoolExecutor(len(self._attempts)) as pool:
                list(pool.map(grow, self._attempts))
        else:
            while goes_on():
                min(self._attempts, key=lambda attempt: attempt.nodes).grow()
        return self.done


class _Shared:
    """Data shared by the trees of a proof."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.compiled: Compiled = compile_instance(search.instance, common_scale=True)
        self.unit = Fraction(self.compiled.unit, int(self.compiled.tables.jobs["scale"][0]))
        _check_sum(self.compiled)
        self.contacts = contacts_of(self.compiled)
        self.free = np.array([job.fixed_offset is None for job in search.instance.jobs])

    @property
    def best(self) -> tuple[Ints, int]:
        """The incumbent and its scaled value."""
        assert self.search.best is not None  # noqa: S101 (the caller's business)
        assert self.search.incumbent is not None  # noqa: S101
        offsets = np.array(self.search.best, dtype=np.int64)
        return offsets, int(self.search.incumbent / self.unit)


class _Attempt:
    """One tree, begun anew now and then with what has been learned."""

    def __init__(self, shared: _Shared, sharpness: float) -> None:
        self._shared = shared
        self._sharpness = sharpness
        self._pseudocosts = _first_pseudocosts(shared.search)
        self.nodes = 0
        self._restart = _FIRST_RESTART
        self._budget = shared.search.fraction(1.0)
        self._start()

    @property
    def done(self) -> bool:
        """True once the incumbent is proved."""
        return is_done(self._search.tree)

    def grow(self) -> None:
        """Expand some nodes and report what they bring."""
        shared, tree = self._shared, self._search.tree
        search = shared.search
        set_cutoff(tree, shared.best[1])
        value = incumbent(tree)
        for nodes in self._budget.slices(_SLICE):
            grow(self._search, nodes)
            if self.done:
                break
        self.nodes += _SLICE
        if incumbent(tree) < value:
            search.offer(tree.jobs["best"], _SOURCE)
        search.raise_bound(dual_bound(tree) * shared.unit, _SOURCE)
        if not self.done and self.nodes >= self._restart:
            self._restart *= _MORE_NODES
            learned = self._pseudocosts.gain / self._pseudocosts.tries
            tries = np.full(len(learned), _LATER_TRIES)
            self._pseudocosts = Pseudocosts(learned * tries, tries)
            self._start()

    def _start(self) -> None:
        shared = self._shared
        self._search = start_tree(
            shared.compiled,
            shared.contacts,
            *shared.best,
            shared.free,
            self._sharpness,
            self._pseudocosts,
        )


def _check_sum(compiled: Compiled) -> None:
    """Refuse an instance whose links fit 64 bits one by one, but not all together."""
    jobs, scale = compiled.instance.jobs, int(compiled.tables.jobs["scale"][0])
    largest = 0
    for link in compiled.links:
        users = zip(link.jobs, link.flows, strict=True)
        peak = sum(jobs[job].peak // compiled.unit * flows for job, flows in users)
        largest += scale * link.weights[-1] * peak
    if largest >= NONE:
        raise CostTooLargeError(
            f"{compiled.instance.name}: the contention of all its links over {scale} "
            f"slots may reach {quote(largest)}, which does not fit 64-bit integers"
        )


def _first_pseudocosts(search: Search) -> Pseudocosts:
    """Return first pseudocosts of the jobs, in proportion to their traffic."""
    traffic = np.array(
        [
            float(Fraction(job.weight * job.volume * sum(job.links.values()), job.period))
            for job in search.instance.jobs
        ]
    )
    tries = np.full(len(traffic), _FIRST_TRIES)
    return Pseudocosts(_FIRST_GAIN * tries * traffic / max(1.0, traffic.max()), tries)


def search_part(search: Search, links: Collection[str], start: Offsets | None = None) -> Search:
    """Return a search on some links alone, with an incumbent, perhaps that of the whole."""
    part = search.below(restrict(search.instance, links))
    greedy.run(part)
    if start is not None:
        part.offer([start[job.name] for job in part.instance.jobs], "the whole")
    local.improve(part, share=_LOCAL_SHARE, patience=1)
    return part


def link_bound(search: Search, link: str) -> Fraction:
    """Return a lower bound of what one link costs, by branch and bound on it alone."""
    alone = search_part(search, [link])
    with suppress(CostTooLargeError, TreeTooLargeError):  # then nothing is known of the link
        Proof(alone).grow(LINK_NODES)
    return alone.bound or Fraction(0)
