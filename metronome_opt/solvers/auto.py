"""Default solver: presolve, blocks, then heuristic and exact searches in parallel.

And branch and bound by itself, which goes the same way with one kind of proof and no improvement.

How time is split: first schedules take `local.SHARE` of it at most, each block an equal part. After
that there are rounds. A round of proof goes to the prover, of all those of all open blocks, that
has had the minimum effort so far; its rounds grow threefold, in nodes (`link_groups`) or in tables
(`elimination`), or are sweeps (`cost_shifting`). When sweeps begin to gain little, another
elimination begins on the shifted costs. A round of improvement goes to the block that had fewest.
With one thread the two take turns, and improvement has `_ALONE_SHARE` of what is left at most; with
several, one thread improves for as long as that is promising, after a generation without gain for
half of the time, and the others prove. They share a sweep that is under way. With a pool, its
workers search all trees of elimination (`distributed`), and the threads do the rest. Where nothing
is left to prove with, improvement goes on until the end of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import count

from metronome_opt.pools import Pool
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import distributed, greedy, local
from metronome_opt.solvers.blocks import BlockRun, Blocks, join_until_done
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_shifting import CostShifting
from metronome_opt.solvers.elimination import Elimination
from metronome_opt.solvers.link_groups import LinkGroups
from metronome_opt.solvers.run import SolverRun

_ALONE_SHARE = 0.1  # of the time, at most, for each generation if one thread proves and improves
_POLL_S = 0.05  # between two looks for a prover

Prover = LinkGroups | Elimination | CostShifting


def run(search: SolverRun) -> None:
    """Offer the greedy schedule, then solve block by block and put the blocks together."""
    greedy.run(search)
    _solve_blocks(search)


def run_branch_bound(search: SolverRun) -> None:
    """Start from greedy and a short local search, then prove; the quick blocks first."""
    greedy.run(search)
    local.improve(search, share=local.SHARE)
    _solve_blocks(search, only_branch=True)


def _solve_blocks(search: SolverRun, *, only_branch: bool = False) -> None:
    if search.stopped:
        return
    portfolio = _Portfolio(search, only_branch=only_branch)
    portfolio.start()
    portfolio.finish()
    portfolio.use_up()
    portfolio.blocks.collect_notes()


class _Portfolio:
    """The threads of a run: of all provers of open blocks, the one with the minimum effort goes on.

    With `only_branch` the only way is branch and bound, and no better schedule is searched for.
    """

    def __init__(self, search: SolverRun, *, only_branch: bool) -> None:
        self._search = search
        self._only_branch = only_branch
        self.blocks = Blocks(search)
        self._link_groups = {run: LinkGroups(run.search) for run in self.blocks.runs}
        self._provers: list[Prover] = []  # without what a thread works with, but for shared sweeps
        self._trees: list[distributed.Root] = []  # for the pool, if there is one
        self._distributes = search.pool is not None
        # The maximum share of the time left for one generation, for all blocks together.
        self._improving = 1.0 if search.threads > 1 else _ALONE_SHARE
        self._lock = threading.Condition()

    def start(self) -> None:
        """Find first schedules and do the quick proofs."""
        if self._only_branch:
            for run in self.blocks.runs:
                self.blocks.start(run)
            self.blocks.join()

        def task(run: BlockRun) -> Callable[[], None]:
            def begin() -> None:
                if not self._only_branch:
                    self.blocks.start(run)
                if self._search.rounds != 0:
                    self._link_groups[run].step()

            return begin

        self._together([task(run) for run in self.blocks.open])

    def finish(self) -> None:
        """Prove and improve what is open until nothing is, or the time is over."""
        for run in self.blocks.open:
            if not self._link_groups[run].exhausted:
                self._provers.append(self._link_groups[run])
            several = len(run.search.compiled.links) > 1  # the jobs of one link all meet
            if several and not self._only_branch:
                self._provers.append(CostShifting(run.search))
                self._eliminate(run.search)
        threads, pool = self._search.threads, self._search.pool
        if threads > 1 or pool is not None:
            tasks = [self._improve, *[self._prove] * (threads - 1)]
            if pool is not None:
                tasks.append(partial(self._distribute, pool))
            self._together(tasks)
            return
        rounds: Iterable[int] = (
            count() if self._search.rounds is None else range(self._search.rounds)
        )
        for _ in rounds:
            proves, improves = self._prove_one(), self._improve_one()
            self.blocks.note_progress()
            if not (proves or improves):
                break
        self.blocks.join()

    def use_up(self) -> None:
        """Where nothing is left to prove with, improve until the end of the time, if it has one."""
        is_limited = self._search.remaining is not None and self._search.rounds is None
        while is_limited and self._improve_one(promising_only=False):
            self.blocks.join()

    def _together(self, tasks: list[Callable[[], None]]) -> None:
        """Do all tasks, as many at a time as there are threads; put blocks together meanwhile."""
        pooled = self._search.pool is not None
        if self._search.threads == 1 and not pooled:  # independent of the clock: repeatable
            for task in tasks:
                if not self._search.stopped:
                    task()
                    self.blocks.note_progress()
            self.blocks.join()
            return
        with ThreadPoolExecutor(self._search.threads + pooled) as pool:  # one waits for its pool
            try:
                join_until_done(self.blocks, {pool.submit(task) for task in tasks})
            except BaseException:
                self._search.end(StopReason.FINISHED)  # the pool waits for the other tasks
                raise

    def _eliminate(self, search: SolverRun, network: CostNetwork | None = None) -> None:
        """Begin an elimination of a block, by the workers of the pool if there is one."""
        if self._distributes:
            self._trees.append((search, network))
        else:
            self._provers.append(Elimination(search, network))

    def _distribute(self, pool: Pool) -> None:
        """Have trees searched by the workers of a pool, and here once it is gone."""
        if not distributed.prove(self._trees, pool):
            with self._lock:
                self._distributes = False
                for tree in self._trees:
                    self._eliminate(*tree)
            self._prove()

    def _prove(self) -> None:
        while self._prove_one():
            pass

    def _improve(self) -> None:
        """Improve while that is promising; what gains nothing gives as much time to proofs."""
        while True:
            began, before = self._search.elapsed, self._values
            if not self._improve_one():
                break
            until = 2 * self._search.elapsed - began
            while self._values == before and self._search.elapsed < until and self._prove_one():
                pass
        self._prove()

    @property
    def _values(self) -> list[Fraction | None]:
        return [run.search.incumbent for run in self.blocks.runs]

    def _prove_one(self) -> bool:
        """Let the prover with the minimum effort go on; return False if there is none."""
        with self._lock:
            if self._search.stopped or not self._provers:
                return False
            free = [
                prover
                for prover in self._provers
                if not (isinstance(prover, CostShifting) and prover.is_busy)
            ]
            if not free:
                self._lock.wait(_POLL_S)
                return True
            prover = min(free, key=lambda prover: prover.effort)
            if not isinstance(prover, CostShifting):
                self._provers.remove(prover)
        prover.step()
        with self._lock:
            if isinstance(prover, CostShifting):
                while prover.networks:
                    self._eliminate(prover.search, prover.networks.pop())
            elif not prover.exhausted:
                self._provers.append(prover)
            self._provers = [
                other
                for other in self._provers
                if not (other.search.proved or (other is prover and prover.exhausted))
            ]
            self._lock.notify_all()
        return True

    def _improve_one(self, *, promising_only: bool = True) -> bool:
        """Look for a better schedule of one block; return False if none is promising."""
        if self._only_branch and promising_only:
            return False
        promising = [
            (run, population)
            for run in self.blocks.open
            if (population := run.promising if promising_only else run.population)
        ]
        if self._search.stopped or not promising:
            return False
        run, population = min(promising, key=lambda pair: pair[0].improved)
        run.improved += 1
        population.set_budget(self._improving / len(promising))
        population.step()
        return True
