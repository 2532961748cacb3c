"""`metronome claims`: writing manifests, and what a real cluster makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from metronome_opt.cli.claims.apply import apply
from metronome_opt.cli.claims.delete import delete
from metronome_opt.cli.claims.diff import diff
from metronome_opt.cli.claims.rbac import rbac
from metronome_opt.cli.claims.status import status
from metronome_opt.cli.claims.write import write
from metronome_opt.cli.group import Group
from metronome_opt.errors import InputError, show

_HELP = """Write claims as manifests, and apply them to a cluster.

metronome claims INSTANCE SCHEDULE --output DIR writes the manifests of a schedule and asks no
cluster; it is short for metronome claims write, whose --help has its options. The other commands
talk to the API server that the kubeconfig names.
"""


class _WriteUnlessNamed(Group):
    """A group whose command is `write` unless the first argument names another.

    An instance that is called like a command is given as ./NAME.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `write` before arguments that do not begin with a command."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            if args:
                _refuse_misspelt(args[0], self.commands)
            args = ["write", *args]
        return super().parse_args(ctx, args)


def _refuse_misspelt(word: str, commands: Iterable[str]) -> None:
    near = get_close_matches(word, commands, n=1)
    if near and not Path(word).exists():
        raise InputError(
            f"claims: there is no command {show(word)}, nor a file of that name; "
            f"did you mean {near[0]}?"
        )


app = typer.Typer(cls=_WriteUnlessNamed, help=_HELP, add_completion=False)
app.command()(write)
app.command()(apply)
app.command()(diff)
app.command()(status)
app.command()(delete)
app.command()(rbac)
