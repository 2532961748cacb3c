"""Tables as they are printed."""

from __future__ import annotations

from rich.table import Table

from metronome_opt.output.tables import terminal


def lines(table: Table) -> list[list[str]]:
    """Return the words of each line of a table."""
    console = terminal()
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]
