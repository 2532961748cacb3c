"""How a campaign gets on: a bar on a terminal, a line for each case where there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Recorded(Protocol):
    """What can be told of a record, whatever was run."""

    @property
    def kind(self) -> str:
        """What came of the case, in a word."""

    @property
    def title(self) -> str:
        """Which case it was, for people."""

    @property
    def outcome(self) -> str:
        """What came of it, for people."""

    @property
    def went_well(self) -> bool:
        """Whether it brought what it was run for."""


class Watcher:
    """Counts the records by kind and tells of each one.

    Attributes
    ----------
    kinds
        How many records of each kind there are.
    lost_cases
        How many cases could not be run.
    """

    def __init__(self, total: int, console: Console, bar: Progress | None) -> None:
        self._total = total
        self._console = console
        self._bar = bar
        self._task = bar.add_task("", total=total) if bar is not None else None
        self.kinds: Counter[str] = Counter()
        self.lost_cases = 0

    def recorded(self, record: Recorded) -> None:
        """Tell of a record."""
        self.kinds[record.kind] += 1
        self._tell(f"{record.title}: {record.outcome}", worth_keeping=not record.went_well)

    def lost(self, case: object, error: Exception) -> None:
        """Tell of a case that could not be run."""
        self.lost_cases += 1
        reason = " ".join(f"{type(error).__name__} {error}".split())
        self._tell(f"{case}: could not be run ({reason})", worth_keeping=True)

    def _tell(self, text: str, *, worth_keeping: bool) -> None:
        if self._bar is not None and self._task is not None:
            if worth_keeping:
                self._console.print(text, soft_wrap=True)
            self._bar.update(self._task, advance=1, description=escape(text))
        else:
            done = self.kinds.total() + self.lost_cases
            width = len(str(self._total))
            self._console.print(f"[{done:{width}}/{self._total}] {text}", soft_wrap=True)


@contextmanager
def watching(total: int) -> Iterator[Watcher]:
    """Yield a watcher of `total` cases that writes to standard error."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        yield Watcher(total, console, None)
        return
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as bar:
        yield Watcher(total, console, bar)
