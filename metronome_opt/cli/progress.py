"""A live line while a solver runs: elapsed time, incumbent and bound; silent when piped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from metronome_opt.result import Event
from metronome_opt.solvers import Callback


class Progress:
    """What the line says; a callback of `solve`."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = time.perf_counter()
        self._spinner = Spinner("dots")
        self._event: Event | None = None

    def __call__(self, event: Event, /) -> None:
        """Take note of an event."""
        self._event = event

    def __rich__(self) -> Table:
        """Draw the line with the time as it is now."""
        grid = Table.grid(padding=(0, 1))
        text = f"{self._title}  {time.perf_counter() - self._start:5.1f} s"
        if self._event is not None and self._event.incumbent is not None:
            text += f"  incumbent {float(self._event.incumbent):,.1f}"
        if self._event is not None and self._event.bound is not None:
            text += f"  bound {float(self._event.bound):,.1f}"
        grid.add_row(self._spinner, Text(text))
        return grid


@contextmanager
def progress(title: str) -> Iterator[Callback | None]:
    """Yield a callback that keeps a live line on a terminal, None where there is none."""
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield None
        return
    line = Progress(title)
    with Live(line, console=console, refresh_per_second=8, transient=True):
        yield line
