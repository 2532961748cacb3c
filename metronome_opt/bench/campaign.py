"""Campaigns: many cases, each a task somewhere, each outcome recorded as soon as it is there.

Nothing here knows what a case is about, as long as it can be told apart, run and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Protocol, TypeVar

from metronome_opt.bench.executors import Pool
from metronome_opt.bench.process import Outcome, Task
from metronome_opt.bench.records import Key, Record, RecordFile

_LOOK_S = 5.0


class Case(Protocol):
    """What a campaign runs."""

    @property
    def key(self) -> Key:
        """What tells it from every other one, as in its record."""

    def task(self) -> Task:
        """Return what is to be run."""

    def record(self, outcome: Outcome) -> Record:
        """Return what is recorded of the outcome."""


class Watcher(Protocol):
    """Told how a campaign gets on."""

    def recorded(self, record: Record) -> None:
        """Take note of a record that is in the file."""

    def lost(self, case: Case, error: Exception) -> None:
        """Take note of a case that could not be run; it is not in the file."""


C = TypeVar("C", bound=Case)


def missing(cases: Iterable[C], file: RecordFile) -> list[C]:
    """Return the cases that `file` does not hold yet."""
    held = {record.key for record in file.records}
    return [case for case in cases if case.key not in held]


def run_campaign(cases: Iterable[Case], pool: Pool, file: RecordFile, watcher: Watcher) -> None:
    """Run `cases` and append their records to `file`.

    As many cases as the pool is wide run at once. The next one starts when a record is judged and
    written, so that judging disturbs nothing that runs alone. A case that cannot be run (a worker
    of a cluster that died with it, say) is left out, and the others go on.

    Raises
    ------
    MetronomeError
        If the pool is gone, and with it everything that is not recorded.
    """
    waiting = iter(cases)
    running: dict[Future[Outcome], Case] = {}
    while True:
        for case in islice(waiting, pool.width - len(running)):
            running[pool.submit(case.task())] = case
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
