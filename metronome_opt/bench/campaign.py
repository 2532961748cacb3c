"""Campaigns: many cases, each a task somewhere, each outcome recorded as soon as it is there.

Nothing here knows what a case is about, as long as it can be told apart, run and recorded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Protocol, TypeVar

from metronome_opt.bench.executors import Pool
from metronome_opt.bench.process import Outcome, Task
from metronome_opt.errors import InputError
from metronome_opt.journal import Journal

_LOOK_S = 5.0


class Keyed(Protocol):
    """What can be told from every other one of its kind."""

    @property
    def key(self) -> Hashable:
        """By what; that of a record is that of its case."""


R = TypeVar("R", bound=Keyed)
R_co = TypeVar("R_co", bound=Keyed, covariant=True)
R_contra = TypeVar("R_contra", bound=Keyed, contravariant=True)


class Case(Keyed, Protocol[R_co]):
    """What a campaign runs."""

    def task(self) -> Task:
        """Return what is to be run."""

    def record(self, outcome: Outcome) -> R_co:
        """Return what is recorded of the outcome."""


class Watcher(Protocol[R_contra]):
    """Told how a campaign gets on."""

    def recorded(self, record: R_contra) -> None:
        """Take note of a record that is in the file."""

    def lost(self, case: Case[R_contra], error: Exception) -> None:
        """Take note of a case that could not be run; it is not in the file."""


C = TypeVar("C", bound=Keyed)


def missing(cases: Iterable[C], file: Journal[R]) -> list[C]:
    """Return the cases that `file` does not hold yet."""
    held = {record.key for record in file.records}
    return [case for case in cases if case.key not in held]


def run_campaign(
    cases: Iterable[Case[R]], pool: Pool, file: Journal[R], watcher: Watcher[R]
) -> None:
    """Run `cases` and append their records to `file`.

    As many cases as the pool is wide run at once. The next one starts when a record is judged and
    written, so that judging disturbs nothing that runs alone. A case that cannot be run (a worker
    of a cluster that died with it, say, or input that makes no task) is left out, and the others
    go on.

    Raises
    ------
    MetronomeError
        If the pool is gone, and with it everything that is not recorded.
    """
    waiting = _tasks(cases, watcher)
    running: dict[Future[Outcome], Case[R]] = {}
    while True:
        for case, task in islice(waiting, pool.width - len(running)):
            running[pool.submit(task)] = case
        if not running:
            return
        pool.check()
        for future in wait(running, _LOOK_S, return_when=FIRST_COMPLETED).done:
            case = running.pop(future)
            try:
                outcome = future.result()
            except Exception as error:
                watcher.lost(case, error)
                continue
            record = case.record(outcome)
            file.append(record)
            watcher.recorded(record)


def _tasks(cases: Iterable[Case[R]], watcher: Watcher[R]) -> Iterator[tuple[Case[R], Task]]:
    for case in cases:
        try:
            yield case, case.task()
        except InputError as error:
            watcher.lost(case, error)
