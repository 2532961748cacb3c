"""Branch and bound on a search: from its incumbent to a proof, in slices."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from fractions import Fraction

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.kernels import tree as trees
from metronome_opt.solvers.kernels.branch_bound import expand_tree
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    TooLargeError,
    compile_instance,
)
from metronome_opt.solvers.kernels.contacts import contacts_of
from metronome_opt.solvers.presolve.blocks import restrict
from metronome_opt.solvers.presolve.reductions import Offsets
from metronome_opt.solvers.run import SolverRun

_SOURCE = "branch-bound"
_SLICE = 250  # nodes between two reports
_SHARPNESS = 3.0  # see `kernels.branch_bound`
_FIRST_GAIN = 0.2
_FIRST_TRIES = 5.0  # nodes that the opinion counts for
LINK_NODES = 20_000
"""The budget of the proof of a link."""
_LOCAL_SHARE = 0.02  # of the time, at most, for the schedule of some links


class Proof:
    """A tree that grows from the incumbent of a search, in slices, until it is done.

    Better incumbents and bounds are reported to the search, and taken from it.

    Raises
    ------
    TooLargeError
        If the instance is too large.
    """

    def __init__(self, search: SolverRun) -> None:
        self._search = search
        self.nodes = 0
        self._budget = search.fraction(1.0)
        compiled = compile_instance(search.instance, common_scale=True)
        self._unit = Fraction(compiled.unit, int(compiled.tables.jobs["scale"][0]))
        check_sum(compiled)
        self._tree_search = trees.start_tree(
            compiled,
            contacts_of(compiled),
            np.array(search.best, dtype=np.int64),
            self._value,
            np.array([job.fixed_offset is None for job in search.instance.jobs]),
            _SHARPNESS,
            _first_pseudocosts(search),
        )

    @property
    def done(self) -> bool:
        """True once the incumbent is proved."""
        return trees.is_done(self._tree_search.tree)

    @property
    def _value(self) -> int:
        """The scaled value of the incumbent."""
        assert self._search.incumbent is not None  # noqa: S101 (the caller's business)
        return int(self._search.incumbent / self._unit)

    def expand(self, max_nodes: int | None = None) -> bool:
        """Go on until done, stopped or `max_nodes` nodes further; return whether it is done."""
        target = math.inf if max_nodes is None else self.nodes + max_nodes
        while self.nodes < target and not (self.done or self._search.stopped):
            self._expand_slice()
        return self.done

    def _expand_slice(self) -> None:
        """Expand some nodes and report what they bring."""
        search, tree = self._search, self._tree_search.tree
        trees.set_cutoff(tree, self._value)
        value = trees.incumbent(tree)
        for nodes in self._budget.slices(_SLICE):
            expand_tree(self._tree_search, nodes)
            if self.done:
                break
        self.nodes += _SLICE
        if trees.incumbent(tree) < value:
            search.offer(tree.jobs["best"], _SOURCE)
        search.raise_bound(trees.dual_bound(tree) * self._unit, _SOURCE)


def check_sum(compiled: CompiledInstance) -> int:
    """Return what no scaled contention exceeds.

    Raises
    ------
    TooLargeError
        If the links fit 64 bits one by one, but not all together.
    """
    jobs, scale = compiled.instance.jobs, int(compiled.tables.jobs["scale"][0])
    largest = 0
    for link in compiled.links:
        users = zip(link.jobs, link.flows, strict=True)
        peak = sum(jobs[job].peak // compiled.unit * flows for job, flows in users)
        largest += scale * link.weights[-1] * peak
    if largest >= trees.NONE:
        raise TooLargeError(
            f"{compiled.instance.name}: the contention of all its links over {scale} "
            f"slots may reach {quote(largest)}, which does not fit 64-bit integers"
        )
    return largest


def _first_pseudocosts(search: SolverRun) -> trees.Pseudocosts:
    """Return first pseudocosts of the jobs, in proportion to their traffic."""
    traffic = np.array(
        [
            float(Fraction(job.weight * job.volume * sum(job.links.values()), job.period))
            for job in search.instance.jobs
        ]
    )
    tries = np.full(len(traffic), _FIRST_TRIES)
    return trees.Pseudocosts(_FIRST_GAIN * tries * traffic / max(1.0, traffic.max()), tries)


def search_part(
    search: SolverRun, links: Collection[str], start: Offsets | None = None
) -> SolverRun:
    """Return a search on some links alone, with an incumbent, perhaps that of the whole."""
    part = search.subproblem(restrict(search.instance, links))
    greedy.run(part)
    if start is not None:
        part.offer([start[job.name] for job in part.instance.jobs], "the whole")
    local.improve(part, share=_LOCAL_SHARE, max_stalled=1)
    return part


def link_bound(search: SolverRun, link: str) -> Fraction:
    """Return a lower bound of what one link costs, by branch and bound on it alone."""
    alone = search_part(search, [link])
    with suppress(TooLargeError):  # then nothing is known of the link
        Proof(alone).expand(LINK_NODES)
    return alone.bound or Fraction(0)
