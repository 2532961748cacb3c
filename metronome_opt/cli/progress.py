"""Progress on a terminal: a live line or a bar; without a terminal quiet or plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

CARET = 3  # columns for the ^C of a terminal, which would wrap a full line and leave it behind


@contextmanager
def live_line(title: str, describe: Callable[..., str]) -> Iterator[Callable[..., None] | None]:
    """Yield a function that displays events, None without a terminal."""
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield None
        return
    console.width -= CARET
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    with Progress(*columns, console=console, refresh_per_second=8, transient=True) as line:
        task = line.add_task(title, total=None, text="")
        yield lambda *event: line.update(task, text=describe(*event))
