"""A live line while something runs: the time and how far it has come; silent when piped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from metronome_opt.multiobjective import FrontEvent
from metronome_opt.result import Event

E = TypeVar("E")


class _Line(Generic[E]):
    """What the line says; a callback of `solve` or `pareto`."""

    def __init__(self, title: str, describe: Callable[[E], str]) -> None:
        self._title = title
        self._describe = describe
        self._start = time.perf_counter()
        self._spinner = Spinner("dots")
        self._event: E | None = None

    def __call__(self, event: E, /) -> None:
        """Take note of an event."""
        self._event = event

    def __rich__(self) -> Table:
        """Draw the line with the time as it is now."""
        grid = Table.grid(padding=(0, 1))
        told = "" if self._event is None else self._describe(self._event)
        text = f"{self._title}  {time.perf_counter() - self._start:5.1f} s{told}"
        grid.add_row(self._spinner, Text(text))
        return grid


def _describe(event: Event) -> str:
    text = ""
    if event.incumbent is not None:
        text += f"  incumbent {float(event.incumbent):,.6g}"
    if event.bound is not None:
        text += f"  bound {float(event.bound):,.1f}"
    return text


def _describe_front(event: FrontEvent) -> str:
    return f"  {event.done} of {event.parts} parts, {event.points} points"


def _describe_count(count: tuple[int, int]) -> str:
    return f"  {count[0]} of {count[1]}"


@contextmanager
def progress(title: str) -> Iterator[Callable[[Event], None] | None]:
    """Yield a callback of `solve` that keeps a live line, None where there is no terminal."""
    with _live(_Line(title, _describe)) as line:
        yield line


@contextmanager
def front_progress(title: str) -> Iterator[Callable[[FrontEvent], None] | None]:
    """Yield a callback of `pareto` that keeps a live line, None where there is no terminal."""
    with _live(_Line(title, _describe_front)) as line:
        yield line


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what takes how many of how many are done, None where there is no terminal."""
    with _live(_Line(what, _describe_count)) as line:
        yield None if line is None else lambda done, of: line((done, of))


@contextmanager
def _live(line: _Line[E]) -> Iterator[_Line[E] | None]:
    console = Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        yield None
        return
    with Live(line, console=console, refresh_per_second=8, transient=True):
        yield line
