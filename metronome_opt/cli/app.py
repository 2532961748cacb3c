"""The commands by name. A command is imported when it is called, so that help is there at once."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from metronome_opt.cli.group import Group

# The module below `metronome_opt.cli`, the function or the group in it, and the line of the help.
COMMANDS = {
    "solve": (
        "solve",
        "solve",
        "Say when each job of FILE is to burst, and who had better not wait; print what it brings.",
    ),
    "import": (
        "import_",
        "import_",
        "Read nodes, links, workloads and claims of a cluster into one scenario.",
    ),
    "fit": (
        "fit",
        "fit",
        "Say whether the jobs of FILE can keep slots without ever asking a link for too much.",
    ),
    "pareto": (
        "pareto",
        "pareto",
        "Find the schedules of FILE of which none is as good as another in every objective.",
    ),
    "simulate": (
        "simulate",
        "simulate",
        "Simulate the jobs of SCENARIO under several policies, and report what each brings.",
    ),
    "place": (
        "place",
        "place",
        "Place all tasks of JOB together, in their best rotation; prints where, and what it costs.",
    ),
    "controller": (
        "controller",
        "controller",
        "Give gated pods of a cluster their nodes and slots, all pods of a job together.",
    ),
    "inject": (
        "inject",
        "inject",
        "Let the workloads of FILE wait for their places, and find their slots.",
    ),
    "profile": (
        "profile",
        "profile",
        "Find the period of a job and its bursts in the throughput of FILE.",
    ),
    "monitor": (
        "monitor",
        "monitor",
        "Compare what jobs do with what they claim; decide who is to wait, once, and for how long.",
    ),
    "report": (
        "report",
        "report",
        "Write RESULT as a page in which jobs can be turned by hand, contention following exactly.",
    ),
    "verify": (
        "verify",
        "verify",
        "Recompute every number that SCHEDULE states; exit 0 only if all are true.",
    ),
    "export": ("export", "export", "Write the rotation problem of FILE for other solvers."),
    "demo": (
        "demo",
        "demo",
        "Schedule the shipped 24-node scenario: table, pictures, claims.",
    ),
    "bench": ("bench", "app", "Compare solvers on stored instances."),
    "claims": ("claims", "app", "Write claims as manifests, and apply them to a cluster."),
}


class _Commands(Group):
    """A group that knows the names of its commands and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, typer.core.TyperCommand(name=None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if there is none of the name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found = getattr(import_module(f"metronome_opt.cli.{module}"), attribute)
        parent = typer.Typer(**_STYLE)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=cmd_name)
        else:
            parent.command(cmd_name)(found)
        return typer.main.get_group(parent).commands[cmd_name]

    def summary(self, name: str) -> str:
        """Return the sentence of a command without importing it."""
        return COMMANDS[name][2]


_STYLE: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "rich_markup_mode": None,  # whose import takes longer than all else that help needs
}
app = typer.Typer(
    name="metronome",
    cls=_Commands,
    help="Decide when periodic training jobs may burst, so that they share links in peace.",
    **_STYLE,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"metronome-opt {version('metronome-opt')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version
