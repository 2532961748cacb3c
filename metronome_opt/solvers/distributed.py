"""Elimination whose subtrees are searched by other processes, of this machine or of a cluster.

The tree is that of `elimination`. Its open subtrees are held in one place, each as the offsets that
lead to it, with a lower bound. A task searches some of them, depth first, for about a second, and
returns those that are left, and its best schedule. The bound is the minimum over all that wait or
are searched. A task that is lost with its worker has changed nothing, and is given out again. Where
subtrees are too few, the offsets at the top of the tree are divided.

A task needs nothing but what it carries; a worker keeps the network of a block to begin from. That
of another worker, pruned by another incumbent, may have more offsets or fewer. An offset that it
lacks is in no better schedule than its own incumbent, and none of its jobs is eliminated, so that
it can be given the offsets of every subtree.

Reference: Clausen and Perregaard, "On the best search strategy in parallel branch-and-bound",
Annals of Operations Research 90 (1999), 1-17, on depth-first search below a central pool.
"""

from __future__ import annotations

import math
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from metronome_opt.errors import SolverError, describe_error
from metronome_opt.pools import Pool, PoolGoneError
from metronome_opt.solvers import elimination
from metronome_opt.solvers.blocks import solve_in_blocks
from metronome_opt.solvers.cost_network.eliminate import eliminate, shrink
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import build, condition, domains_of, scale_of
from metronome_opt.solvers.elimination import Attempt, Branching, Decisions
from metronome_opt.solvers.kernels.compiled_instance import Ints, TooLargeError
from metronome_opt.solvers.run import SolverRun

_TASK_S = 1.0
_SHORT_TASK_S = 0.2  # while others wait for what it leaves open
_PER_SPARE_TASK = 4  # workers: for so many one more task waits there
_POLL_S = 0.05
_MAX_LOST = 5  # losses of one task, after which the executor counts as gone
_KEPT = 6  # networks in a worker: three of a block


@dataclass(frozen=True)
class Siblings:
    """Subtrees below some decisions: a job's offsets that are open, and their bounds in units."""

    decisions: Decisions
    job: int
    offsets: tuple[int, ...]
    floors: tuple[int, ...]  # ascending

    def half(self, first: int) -> Siblings:
        """Return every second of them from the first, or the second, on."""
        return replace(self, offsets=self.offsets[first::2], floors=self.floors[first::2])


Root = tuple[SolverRun, CostNetwork | None]
"""The search of a block with an incumbent, and the network of its tree; None for its links'."""
Terms = tuple[Fraction, tuple[int, ...]]
Subtrees = tuple[Siblings, ...]
"""Those of a task, from the top of the tree down."""
_WHOLE = (Siblings((), -1, (0,), (0,)),)
"""The whole tree: no job is chosen yet to branch on."""


@dataclass(frozen=True)
class Task:
    """Subtrees of a block and what is needed to search them.

    Attributes
    ----------
    block
        The pickled instance, and the network of its tree, or None for that of its links.
    terms
        Smallest step of contention, and number of offsets of each job: the terms of all workers.
    incumbent
        The best offsets so far.
    seconds
        How long to search.
    time_limit
        Seconds that are left to the run.
    """

    block: bytes
    terms: Terms
    incumbent: tuple[int, ...]
    subtrees: Subtrees
    seconds: float
    time_limit: float | None


TaskResult = tuple[Subtrees, tuple[int, ...], int]
"""The subtrees that a task left open, its best schedule, and its effort."""


# ------------------------------------------------------------------ where the tree is


def run(search: SolverRun) -> None:
    """Solve block by block, each by the workers of the run's pool; without one by elimination."""
    pool = search.pool

    def prove_block(block: SolverRun) -> None:
        if pool is None or not prove([(block, None)], pool):
            elimination.prove(block)

    solve_in_blocks(search, prove_block)


def prove(roots: Sequence[Root], pool: Pool) -> bool:
    """Let the workers search until all is proved, stopped or does not fit.

    Parameters
    ----------
    roots
        The trees; more may be appended meanwhile.

    Returns
    -------
    bool
        False if the pool is gone before, which is noted.

    Raises
    ------
    SolverError
        If a task fails.
    """
    trees: list[_Tree] = []
    try:
        while len(trees) < len(roots) or any(tree.is_open for tree in trees):
            trees += [_Tree(*root) for root in roots[len(trees) :]]
            _give_out(trees, pool)
            pool.check()
            running = [future for tree in trees for future in tree.running]
            wait(running, _POLL_S, return_when=FIRST_COMPLETED)
            for tree in trees:
                tree.collect()
    except PoolGoneError as error:
        trees[0].search.notes.append(f"executor: it is gone ({error}); went on without it")
        return False
    finally:
        for tree in trees:
            tree.end()
    return True


def _give_out(trees: Sequence[_Tree], pool: Pool) -> None:
    """Submit tasks of the trees with the minimum effort, as many as the pool takes."""
    running = sum(len(tree.running) for tree in trees)
    for _ in range(pool.width + math.ceil(pool.width / _PER_SPARE_TASK) - running):
        ready = [tree for tree in trees if tree.is_open and tree.waiting]
        if not ready:
            break
        min(ready, key=lambda tree: tree.effort).submit(pool)


@dataclass
class _Share:
    """Subtrees for a task, and how often they were lost with a worker."""

    subtrees: Subtrees
    lost: int = 0

    @property
    def floor(self) -> int:
        return min(siblings.floors[0] for siblings in self.subtrees)

    def split(self) -> list[_Share]:
        """Return two parts, or one that cannot be split.

        The offsets at the top of the tree are divided, or its only one is a part.
        """
        top, *rest = self.subtrees
        if len(top.offsets) > 1:
            return [_Share((top.half(0), *rest)), _Share((top.half(1),))]
        return [_Share((top,)), _Share(tuple(rest))] if rest else [self]


class _Tree:
    """What is open of a tree of a block."""

    def __init__(self, search: SolverRun, network: CostNetwork | None) -> None:
        self.search = search
        self.effort = 0
        self.waiting = [_Share(_WHOLE)]
        self.running: dict[Future[TaskResult], _Share] = {}
        self._lost = 0
        self._fits = True
        self._block = pickle.dumps((search.instance, network))
        self._terms = _terms(search)
        self._scale = self._terms[0] if network is None else network.scale

    @property
    def is_open(self) -> bool:
        """Return True if there is anything to search, and time."""
        left = bool(self.waiting or self.running)
        return left and self._fits and not self.search.stopped

    @property
    def _limit(self) -> int:
        """The maximum units of a schedule that is better than the present incumbent."""
        assert self.search.incumbent is not None  # noqa: S101 (the caller's business)
        return int(self.search.incumbent / self._scale) - 1

    def submit(self, pool: Pool) -> None:
        """Submit what has the minimum bound; one part of it if nothing else waits."""
        chosen = min(self.waiting, key=lambda waiting: waiting.floor)
        self.waiting.remove(chosen)
        if not self.waiting:
            chosen, *self.waiting = chosen.split()
        assert self.search.best is not None  # noqa: S101 (the caller's business)
        seconds = _TASK_S if self.waiting else _SHORT_TASK_S
        best, left = self.search.best, self.search.remaining
        task = Task(self._block, self._terms, best, chosen.subtrees, seconds, left)
        self.running[pool.submit(search_subtrees, task)] = chosen

    def collect(self) -> None:
        """Take what tasks have found, and report it; a `PoolGoneError` if one is always lost."""
        for future in [future for future in self.running if future.done()]:
            searched = self.running.pop(future)
            try:
                subtrees, incumbent, effort = future.result()
            except SolverError:
                raise
            except (TooLargeError, MemoryError) as error:
                self.search.notes.append(f"no elimination: {describe_error(error)}")
                self._fits = False
            except Exception as error:  # lost: `search_subtrees` raises no other
                self._lost += 1
                if searched.lost + 1 >= _MAX_LOST:
                    raise PoolGoneError(f"a task was lost {_MAX_LOST} times: {error}") from None
                self.waiting.append(_Share(searched.subtrees, searched.lost + 1))
            else:
                self.search.offer(incumbent, elimination.SOURCE)
                self.effort += effort
                if subtrees:
                    self.waiting.append(_Share(subtrees))
        if self._fits:
            self._drop_and_bound()

    def _drop_and_bound(self) -> None:
        """Drop what cannot be better, and report what is true of the rest."""
        limit = self._limit
        self.waiting = [share for share in self.waiting if share.floor <= limit]
        floors = [share.floor for share in (*self.waiting, *self.running.values())]
        self.search.raise_bound(min([limit + 1, *floors]) * self._scale, elimination.SOURCE)

    def end(self) -> None:
        """Cancel the tasks; those that have begun end within a second or so."""
        for future in self.running:
            future.cancel()
        if self._lost:
            self.search.notes.append(f"tasks lost with their worker, given again: {self._lost}")


def _terms(search: SolverRun) -> Terms:
    """Return the terms in which all searches of a block must agree."""
    return scale_of(search.compiled), tuple(map(len, domains_of(search.instance)))


# ------------------------------------------------------------------ in a worker


_roots: dict[bytes, tuple[CostNetwork, tuple[int, ...]]] = {}
"""Networks of blocks before any decision, with the schedules that they were pruned by."""
_lock = threading.Lock()


def search_subtrees(task: Task) -> TaskResult:
    """Search the subtrees of a task for its time, the last first.

    Raises
    ------
    TooLargeError, MemoryError
        If the network does not fit.
    SolverError
        If anything else fails.
    """
    try:
        return _search(task)
    except (TooLargeError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise SolverError(f"elimination failed in a worker ({reason})") from None


def _search(task: Task) -> TaskResult:
    instance, network = pickle.loads(task.block)  # noqa: S301 (from the process of the tree)
    search = SolverRun(instance, time_limit=task.time_limit, seed=0, threads=1)
    search.offer(task.incumbent)
    root = _find_root(search, network, task)
    best = search.best or task.incumbent
    left = list(task.subtrees)
    effort = 0
    end = time.thread_time() + task.seconds
    while root is not None and left:
        part = search.subproblem(instance)  # its bounds are those of these subtrees only
        part.offer(best)
        attempt = _begin(part, root, left[-1])
        attempt.expand(1)  # at least: a task comes further, however long it takes to begin
        while not part.stopped and time.thread_time() < end:
            attempt.expand(1)
        effort += attempt.effort
        best = part.best or best
        if part.stopped and not part.proved:
            break  # perhaps amid a node
        left[-1:] = [_siblings(here) for here in attempt.path if (here.open <= attempt.limit).any()]
        if time.thread_time() >= end:
            break
    return tuple(left), best, effort


def _find_root(search: SolverRun, network: CostNetwork | None, task: Task) -> CostNetwork | None:
    """Return the network of a tree, made now if it is not kept; None if there is no time.

    The schedule that it was pruned by is offered to the search.
    """
    with _lock:
        if task.block not in _roots:
            part = search.subproblem(search.instance)
            part.offer(task.incumbent)
            if _terms(part) != task.terms:
                raise SolverError("the worker runs another version of the package")
            network = shrink(part, network or build(part), elimination.MAX_CELLS)
            if part.stopped and not part.proved:
                return None
            while len(_roots) >= _KEPT:
                del _roots[next(iter(_roots))]
            _roots[task.block] = network, task.incumbent
        network, incumbent = _roots[task.block]
    search.offer(incumbent)
    return network


def _begin(search: SolverRun, root: CostNetwork, siblings: Siblings) -> Attempt:
    """Return a search that has come to some subtrees; one without any if nothing is left of them.

    The search has an incumbent that is as good as that of the root.
    """
    attempt = Attempt(search, root)
    if siblings.job < 0:
        attempt.begin(root, elimination.MAX_CELLS)
        return attempt
    network = replace(root, limit=attempt.limit)
    for job, offset in siblings.decisions:
        places = np.flatnonzero(network.domains[job] == offset)
        if not len(places):  # pruned
            return attempt
        network = network.given(job, int(places[0]))
    job = siblings.job
    below = search.subproblem(search.instance)
    limits = elimination.MAX_CELLS, elimination.MAX_CELLS
    network, gone = eliminate(below, condition(network), *limits, kept=(job,))
    floors = np.maximum(network.floor + network.rises(job), _floors(siblings, network))
    entries = np.argsort(floors, kind="stable")
    entries = entries[floors[entries] <= network.limit]
    if len(entries):
        here = Branching(siblings.decisions, network, tuple(gone), job, entries, floors[entries])
        attempt.path.append(here)
    return attempt


def _floors(siblings: Siblings, network: CostNetwork) -> Ints:
    """Return the known bounds of a job's offsets; those not to be searched are beyond the limit."""
    known = dict(zip(siblings.offsets, siblings.floors, strict=True))
    domain = network.domains[siblings.job]
    return np.array([known.get(int(offset), network.limit + 1) for offset in domain])


def _siblings(here: Branching) -> Siblings:
    """Return the offsets that are left of a branching."""
    offsets = here.network.domains[here.job][here.entries[here.following :]]
    return Siblings(here.decisions, here.job, tuple(offsets.tolist()), tuple(here.open.tolist()))
