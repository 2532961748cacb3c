"""The default: presolve and blocks, then proofs and better schedules side by side."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.blocks import Blocks
from metronome_opt.solvers.clusters import Clusters
from metronome_opt.solvers.pace import Pace
from metronome_opt.solvers.population import Population
from metronome_opt.solvers.search import Search

_START_SHARE = 0.1  # of the time, at most, for first schedules
_LOOK_S = 0.2  # seconds between two looks at what the blocks have come to


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
        self._unproved: deque[Search] = deque()
        self._searched: Counter[int] = Counter()
        self._populations: dict[int, Population] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Find first schedules and do the quick proofs."""

        def task(part: Search) -> Callable[[], None]:
            def begin() -> None:
                self.blocks.start(part, share=_START_SHARE)
                self._clusters[id(part)].play()

            return begin

        self._together([task(part) for part in self.blocks.open])

    def finish(self) -> None:
        """Prove and improve what is open until nothing is, or the time is over."""
        self._unproved.extend(self.blocks.open)
        workers = self._search.workers
        if workers == 1:
            while self._prove_one():
                self._improve_one()
                self.blocks.join()
        elif self._unproved:
            self._together([self._improve, *[self._prove] * (workers - 1)])

    def _together(self, tasks: list[Callable[[], None]]) -> None:
        """Do all tasks, as many at a time as there are workers; put blocks together meanwhile."""
        if self._search.workers == 1:  # no looks by the clock: the run is to be repeatable
            for task in tasks:
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
        """Take the next block a round further; return False if there is none to take."""
        with self._lock:
            if self._search.stopped or not self._unproved:
                return False
            part = self._unproved.popleft()
        spare = self._search.workers // max(1, len(self.blocks.open))
        self._clusters[id(part)].play(threads=spare)
        if not part.proved and not self._clusters[id(part)].too_large:
            self._unproved.append(part)
        return True

    def _improve_one(self) -> bool:
        """Look for a better schedule of one block; return False if it is not worth it."""
        for part in self.blocks.open:
            if id(part) not in self._populations:
                population = local.begin(part)
                if population is not None:
                    self._populations[id(part)] = population
        worth = [
            part
            for part in self.blocks.open
            if id(part) in self._populations and self._populations[id(part)].idle < local.PATIENCE
        ]
        if self._search.stopped or not worth:
            return False
        part = min(worth, key=lambda part: self._searched[id(part)])
        self._searched[id(part)] += 1
        self._populations[id(part)].play(Pace(part, 1 / len(worth)))
        return True
