"""A group of commands whose help has a whole sentence for each of them."""

from __future__ import annotations

import sys
from typing import Any

import typer


class Group(typer.core.TyperGroup):
    """A group of commands."""

    def summary(self, name: str) -> str:
        """Return the sentence of a command."""
        return self.commands[name].get_short_help_str(limit=sys.maxsize)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and sentences into the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(name)) for name in self.list_commands(ctx)])
