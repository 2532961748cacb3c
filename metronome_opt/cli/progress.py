"""Progress on a terminal: a live line or a bar; without a terminal quiet or plain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

if TYPE_CHECKING:
    from metronome_opt.bench.simulations import SimulationRecord
    from metronome_opt.bench.solver_runs import SolverRecord
    from metronome_opt.problem.result import ProgressEvent

_CARET = 3  # columns for the ^C of a terminal, which would wrap a full line and leave it behind


@contextmanager
def live_line(title: str, describe: Callable[..., str]) -> Iterator[Callable[..., None] | None]:
    """Yield a function that displays events, None without a terminal."""
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield None
        return
    console.width -= _CARET
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console, refresh_per_second=8, transient=True) as line:
        task = line.add_task(title, total=None, text="")
        yield lambda *event: line.update(task, text=describe(*event))


def describe_event(event: ProgressEvent) -> str:
    """Return incumbent and bound of an event."""
    incumbent = "" if event.incumbent is None else f"incumbent {float(event.incumbent):,.6g}"
    bound = "" if event.bound is None else f"bound {float(event.bound):,.1f}"
    return f"{incumbent}  {bound}"


class Watcher:
    """Counts the records of a campaign by kind and prints each one.

    Attributes
    ----------
    kinds
        Numbers of records by kind.
    lost_cases
        Number of cases that could not be run.
    """

    def __init__(self, total: int, bar: Progress) -> None:
        self._total = total
        self._bar = bar
        self._task = bar.add_task("", total=total)
        self.kinds: Counter[str] = Counter()
        self.lost_cases = 0
        self._tracebacks: set[tuple[str, ...]] = {()}

    def recorded(self, record: SolverRecord | SimulationRecord) -> None:
        """Count and print a record; print a traceback only once."""
        self.kinds[record.kind] += 1
        self._print(f"{record.title}: {record.outcome}", kept=not record.succeeded)
        if record.kind == "crash" and record.notes not in self._tracebacks:
            self._tracebacks.add(record.notes)
            self._bar.console.print(*record.notes, sep="\n", soft_wrap=True)

    def lost(self, case: object, error: Exception) -> None:
        """Count and print a case that could not be run."""
        self.lost_cases += 1
        reason = " ".join(f"{type(error).__name__} {error}".split())
        self._print(f"{case}: could not be run ({reason})", kept=True)

    def _print(self, text: str, *, kept: bool) -> None:
        self._bar.update(self._task, advance=1, description=escape(text))
        if not self._bar.console.is_terminal:
            done = self.kinds.total() + self.lost_cases
            text = f"[{done:{len(str(self._total))}}/{self._total}] {text}"
        elif not kept:
            return
        self._bar.console.print(text, soft_wrap=True)


@contextmanager
def watching(total: int) -> Iterator[Watcher]:
    """Yield a watcher of `total` cases that writes to standard error."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if console.is_terminal:
        console.width -= _CARET
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True)),
    )
    bar = Progress(*columns, console=console, expand=True, disable=not console.is_terminal)
    try:
        with bar:
            yield Watcher(total, bar)
    finally:
        console.show_cursor(True)  # an interrupted bar may have left it hidden
