"""Commands by name; a command is imported when it is called, so that help is fast."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer

from metronome_opt.errors import quote

# A command is the function of its name in the module of its name, a group is the `app` there.
COMMANDS = {
    "init": "Write a small, complete scenario to FILE, to be changed.",
    "validate": "Check FILE and describe its contents.",
    "allocate": "Choose where jobs run, which are gated and when they send.",
    "solve": "Choose offsets at given placements: an exact problem with value, bound and gap.",
    "import": "Read nodes, links, workloads and claims of a cluster into a scenario.",
    "fit": "Test whether all jobs of FILE can be gated.",
    "pareto": "Find the Pareto front of FILE for two objectives.",
    "simulate": "Simulate the jobs of SCENARIO under several policies.",
    "place": "Place all tasks of JOB in a cluster, or none.",
    "controller": "Give waiting pods of a cluster nodes and windows.",
    "inject": "Prepare the workloads of FILE for the controller.",
    "profile": "Estimate the period and the bursts of a job.",
    "monitor": "Compare measured traffic with claims and correct them.",
    "report": "Write RESULT as an interactive page.",
    "verify": "Recompute every number that SCHEDULE states.",
    "export": "Write the problem of FILE for other solvers.",
    "demo": "Allocate two shipped scenarios: tables, figures, claims.",
    "bench": "Compare solvers on stored instances or on files of your own.",
    "claims": "Write SCHEDULE as manifests for a cluster.",
}


class Group(typer.core.TyperGroup):
    """A group of commands whose help has a whole sentence for each command."""

    def summary(self, name: str) -> str:
        """Return the sentence of a command."""
        return self.commands[name].get_short_help_str(limit=sys.maxsize)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and sentences into the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(name)) for name in self.list_commands(ctx)])


# Options of the release before; they stay for one more.
OLD_OPTIONS = {
    "--capacity": "--link-capacity",
    "--down": "--cordon",
    "--jobs": "--processes",
    "--move-cost": "--migration-cost",
    "--node-patience": "--node-timeout",
    "--patience": "--bind-timeout",
    "--policy": "--policies",
    "--seeds": "--replications",
    "--set": "--conditions",
    "--sharing": "--network",
    "--take": "--apply-schedule",
    "--tolerance": "--max-loss",
    "--up": "--uncordon",
    "--workers": "--threads",
}


class Command(typer.core.TyperCommand):
    """A command that knows old names of options, and refuses an option that is given twice.

    Options that collect values may be given several times.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; a usage error for an option whose first value would be lost."""
        args = self._in_new_names(args)
        given = list(args)
        rest: list[str] = super().parse_args(ctx, args)
        values, _, order = self.make_parser(ctx).parse_args(given)
        option: Any
        for option in order:
            value = values.get(option.name)
            if order.count(option) > 1 and not isinstance(value, list):
                last = "" if option.is_flag else f", last as {quote(value)}"
                said = f"given more than once{last}; give it once"
                raise typer.BadParameter(said, ctx=ctx, param=option)
        return rest

    def _in_new_names(self, args: list[str]) -> list[str]:
        """Return arguments with the new names of options where the command has lost the old."""
        known = {name for option in self.params for name in option.opts}
        renamed = []
        for arg in args:
            name, equals, value = arg.partition("=")
            new = OLD_OPTIONS.get(name)
            is_old = new in known and name not in known
            renamed.append(f"{new}{equals}{value}" if is_old else arg)
        return renamed


F = TypeVar("F", bound=Callable[..., Any])


class App(typer.Typer):
    """An application whose commands are `Command`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Register a function as a command."""
        return super().command(name, **{"cls": Command, **settings})


class _Commands(Group):
    """A group that imports a command when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS, typer.core.TyperCommand(name=None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None for an unknown name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        name = "import_" if cmd_name == "import" else cmd_name
        module = import_module(f"metronome_opt.cli.{name}")
        parent = App(**_STYLE)
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=cmd_name)
        else:
            parent.command(cmd_name)(getattr(module, name))
        return typer.main.get_group(parent).commands[cmd_name]

    def summary(self, name: str) -> str:
        """Return the sentence of a command without importing it."""
        return COMMANDS[name]


_STYLE: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "rich_markup_mode": None,  # whose import takes longer than all else that help needs
}
app = typer.Typer(
    name="metronome",
    cls=_Commands,
    help="Place training jobs on a cluster, and give their bursts windows where these fit.",
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
