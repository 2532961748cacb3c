"""Campaigns on the terminal: run what a file of records lacks, and print each record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

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
from rich.table import Column

from metronome_opt.bench.campaign import Case, Pool, R, remaining_cases, run_campaign
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.cli.options import note
from metronome_opt.cli.progress import CARET
from metronome_opt.errors import pluralise
from metronome_opt.files.journal import Journal


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


def run_remaining(
    cases: Sequence[Case[R]], file: Journal[R], pool: AbstractContextManager[Pool], output: Path
) -> Watcher | None:
    """Run the cases that a file of records lacks.

    Parameters
    ----------
    cases
        All cases of a campaign.
    file, output
        The file of its records, and the name that messages give it.
    pool
        Where the cases run.

    Returns
    -------
    Watcher or None
        The counts of the cases that ran; None if the campaign was interrupted.

    Raises
    ------
    MetronomeError
        If the pool is gone.
    """
    left = remaining_cases(cases, file.records)
    if len(left) < len(cases):
        done = len(cases) - len(left)
        note(f"{output}: {done:,} of {pluralise(len(cases), 'case')} recorded already")
    try:
        with pool as running, watching(len(left)) as watcher:
            run_campaign(left, running, file, watcher)
    except KeyboardInterrupt:
        note(f"interrupted; {output} holds what is done, the same command with --resume goes on")
        return None
    return watcher


@contextmanager
def watching(total: int) -> Iterator[Watcher]:
    """Yield a watcher of `total` cases that writes to standard error."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if console.is_terminal:
        console.width -= CARET
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
