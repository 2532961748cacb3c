"""The default: presolve and blocks, then proofs and better schedules side by side."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count

from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.blocks import Blocks
from metronome_opt.solvers.clusters import Clusters
from metronome_opt.solvers.elimination import Elimination
from metronome_opt.solvers.population import Population
from metronome_opt.solvers.search import Search

_START_SHARE = 0.1  # of the time, at most, for first schedules
_ALONE_SHARE = 0.1  # the same for each generation where one worker proves and improves in turn
_LOOK_S = 0.2  # seconds between two looks at what the blocks have come to

Prover = Clusters | Elimination


def run(search: Search) -> None:
    """Offer the greedy schedule, then solve block by block and put the blocks together."""
    greedy.run(search)
    if search.stopped:
        return
    crew = Crew(search)
    crew.start()
    crew.finish()
    crew.blocks.say()


class Crew:
    """The workers of a run, and the blocks that they work on."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.blocks = Blocks(search)
        self._clusters = {id(part): Clusters(part) for part in self.blocks.parts}
        self._provers: list[Prover] = []  # those that nobody works with now
        self._proving = 0  # how many are worked with
        self._searched: Counter[int] = Counter()
        self._populations: dict[int, Population | None] = {}
        # Of what time is left, the most that one generation may take, for all blocks together.
        self._improving = 1.0 if search.workers > 1 else _ALONE_SHARE
        self._lock = threading.Lock()

    def start(self) -> None:
        """Find first schedules and do the quick proofs."""

        def task(part: Search) -> Callable[[], None]:
            def begin() -> None:
                self._populations[id(part)] = self.blocks.start(part, share=_START_SHARE)
                if self._search.rounds != 0:
                    self._clusters[id(part)].play()

            return begin

        self._together([task(part) for part in self.blocks.open])

    def finish(self) -> None:
        """Prove and improve what is open until nothing is, or the time is over."""
        for part in self.blocks.open:
            self._provers.append(self._clusters[id(part)])
            if len(part.compiled.links) > 1:  # one link's jobs all meet: no use to eliminate any
                self._provers.append(Elimination(part))
        workers = self._search.workers
        if workers > 1:
            self._together([self._improve, *[self._prove] * (workers - 1)])
            return
        rounds: Iterable[int] = (
            count() if self._search.rounds is None else range(self._search.rounds)
        )
        for _ in rounds:
            proves, improves = self._prove_one(), self._improve_one()
            self.blocks.join()
            if not (proves or improves):
                return

    def _together(self, tasks: list[Callable[[], None]]) -> None:
        """Do all tasks, as many at a time as there are workers; put blocks together meanwhile."""
        if self._search.workers == 1:  # no looks by the clock: the run is to be repeatable
            for task in tasks:
                if not self._search.stopped:
                    task()
                    self.blocks.join()
            return
        with ThreadPoolExecutor(self._search.workers) as pool:
            pending: set[Future[None]] = {pool.submit(task) for task in tasks}
            try:
                while pending:
                    done, pending = wait(pending, timeout=_LOOK_S)
                    for future in done:
                        future.result()
                    self.blocks.join()
            except BaseException:
                self._search.finish()  # the pool waits for the other tasks
                raise

    def _prove(self) -> None:
        while self._prove_one():
            pass

    def _improve(self) -> None:
        while self._improve_one():
            pass
        self._prove()

    def _prove_one(self) -> bool:
        """Let the prover that did least go a round further; return False if there is none."""
        with self._lock:
            if self._search.stopped or not self._provers:
                return False
            prover = min(self._provers, key=lambda prover: prover.effort)
            self._provers.remove(prover)
            self._proving += 1
            enough = len(self._provers) + self._proving >= self._search.workers
        prover.play(threads=1 if enough else 2)
        with self._lock:
            self._proving -= 1
            if not (prover.search.proved or prover.over):
                self._provers.append(prover)
        return True

    def _improve_one(self) -> bool:
        """Look for a better schedule of one block; return False if it is not worth it."""
        worth = {}
        for part in self.blocks.open:
            if id(part) not in self._populations:  # there was no time to begin
                self._populations[id(part)] = local.begin(part)
            population = self._populations[id(part)]
            if population is not None and population.idle < local.PATIENCE:
                worth[part] = population
        if self._search.stopped or not worth:
            return False
        part = min(worth, key=lambda part: self._searched[id(part)])
        self._searched[id(part)] += 1
        worth[part].pace.allot(self._improving / len(worth))
        worth[part].play()
        return True
