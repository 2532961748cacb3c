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
from metronome_opt.cli.options import note
from metronome_opt.cli.progress import CARET
from metronome_opt.errors import pluralise
from metronome_opt.files.journal import Journal
from metronome_opt.plugins import describe_failure

LOST = "lost"
"""The kind of a case that could not be run; it is not in the file."""


def run_remaining(
    cases: Sequence[Case[R]], file: Journal[R], pool: AbstractContextManager[Pool], output: Path
) -> Counter[str] | None:
    """Run the cases that a file of records lacks, and print each outcome; a traceback only once.

    Returns the numbers of cases by the kind of their record; None after Ctrl-C. Messages name the
    file by `output`.
    """
    left = remaining_cases(cases, file.records)
    if len(left) < len(cases):
        done = len(cases) - len(left)
        note(f"{output}: {done:,} of {pluralise(len(cases), 'case')} recorded already")
    kinds: Counter[str] = Counter()
    tracebacks: set[tuple[str, ...]] = {()}
    try:
        with pool as running, _progress_bar() as bar:
            console, task = bar.console, bar.add_task("", total=len(left))
            for case, outcome in run_campaign(left, running, file):
                record: R | None = None
                if isinstance(outcome, Exception):
                    text = f"{case.title}: could not be run ({describe_failure(outcome)})"
                else:
                    record, text = outcome, f"{case.title}: {outcome.outcome}"
                kinds[record.kind if record else LOST] += 1
                bar.update(task, advance=1, description=escape(text))
                if not console.is_terminal:
                    number = f"{kinds.total():{len(str(len(left)))}}/{len(left)}"
                    console.print(f"[{number}] {text}", soft_wrap=True)
                elif record is None or not record.succeeded:
                    console.print(text, soft_wrap=True)
                if record and record.kind == "crash" and record.notes not in tracebacks:
                    tracebacks.add(record.notes)
                    console.print(*record.notes, sep="\n", soft_wrap=True)
    except KeyboardInterrupt:
        note(f"interrupted; {output} holds what is done, the same command with --resume goes on")
        return None
    return kinds


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Yield a bar on standard error, which is not there without a terminal."""
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
    try:
        with Progress(
            *columns, console=console, expand=True, disable=not console.is_terminal
        ) as bar:
            yield bar
    finally:
        console.show_cursor(True)  # an interrupted bar may have left it hidden
