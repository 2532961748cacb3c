"""`metronome claims`: writing manifests, and what a real cluster makes of them."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.cli.app import Group
from metronome_opt.cli.progress import live_line
from metronome_opt.errors import InputError, quote
from metronome_opt.scenario import Problem, load
from metronome_opt.schedule import read_schedule

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
            near = get_close_matches(args[0], self.commands, n=1) if args else []
            if near and not Path(args[0]).exists():
                raise InputError(
                    f"claims: there is no command {quote(args[0])}, nor a file of that name; "
                    f"did you mean {near[0]}?"
                )
            args = ["write", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_WriteUnlessNamed, help=_HELP, add_completion=False)

_Folders = Annotated[
    list[Path],
    typer.Argument(metavar="DIR", help="Folders that an export wrote, or files of one."),
]
_InNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Refuse manifests of other namespaces.",
        show_default="any",
    ),
]
_LookIn = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Where to look; with DIR, refuse manifests of other namespaces.",
        show_default="that of the manifests, else of the context",
    ),
]
_Everywhere = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")
]
_Timeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="For one question to the server, repetitions included."),
]
_Force = Annotated[
    bool, typer.Option("--force", help="Take fields that others manage away from them.")
]
_Prune = Annotated[
    bool, typer.Option("--prune", help="Delete our objects of jobs that are not in DIR, too.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Have the server try everything, and change nothing.")
]


@app.command()
def write(
    instance: options.InstanceFile,
    schedule: options.ScheduleFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the manifests.")
    ],
    group: options.Group = options.GROUP,
    namespace: options.Namespace = options.NAMESPACE,
    hyperperiod_limit: options.Limit = options.LIMIT,
) -> int:
    """Write SCHEDULE as manifests for a cluster: definitions, capacities and claims."""
    from metronome_opt.kubernetes import export_claims

    problem = load(instance, hyperperiod_limit=hyperperiod_limit)
    with live_line(f"writing {output}", str):
        export_claims(
            problem.instance,
            read_schedule(schedule),
            problem.deployment,
            output,
            group=group,
            namespace=namespace,
        )
    options.wrote(output)
    note_missing_nodes(problem)
    return 0


def note_missing_nodes(problem: Problem) -> None:
    """Say so if claims cannot name the nodes of a real cluster."""
    if not problem.traffic:
        options.note(
            "an instance does not say where tasks run: every link is taken for a node of its own, "
            "with a task for each flow; claims for a real cluster need the scenario"
        )


@app.command()
def apply(
    directory: _Folders,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: _InNamespace = None,
    timeout: _Timeout = 30.0,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Apply the definitions first; for administrators.")
    ] = False,
    prune: _Prune = False,
    force: _Force = False,
    dry_run: _DryRun = False,
    as_json: options.Json = False,
) -> int:
    """Make the cluster hold what DIR says, all objects of a job or none.

    The server tries everything first. Of a job that then fails, what was applied is taken back.
    Objects that are so already are not touched. Fields that others manage are left to them, and
    told, unless --force is given.
    """
    from metronome_opt.cli.claims import changes

    desired = changes.read_desired(directory, namespace)
    with changes.connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        told = changes.Told(dry_run, as_json)
        if definitions and not changes.define(connection, desired, told, force, timeout):
            options.note("claims can be tried once their definitions are there")
            return 0
        plan = changes.plan_apply(connection, desired, prune=prune)
        return changes.run(connection, plan, told, "applied", force=force)


@app.command()
def diff(
    directory: _Folders,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: _InNamespace = None,
    timeout: _Timeout = 30.0,
    prune: _Prune = False,
    force: _Force = False,
    as_json: options.Json = False,
) -> int:
    """Show what apply would do, object by object and field by field.

    Exit 0 if it would do nothing, 1 if something. The server tries it, which takes the same rights.
    """
    from metronome_opt.cli.claims import changes

    desired = changes.read_desired(directory, namespace)
    with changes.connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        return changes.diff(connection, desired, as_json=as_json, prune=prune, force=force)


@app.command()
def status(
    directory: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]", help="Compare with this export."),
    ] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: _LookIn = None,
    everywhere: _Everywhere = False,
    timeout: _Timeout = 30.0,
    group: options.Group = options.GROUP,
    as_json: options.Json = False,
) -> int:
    """Show the claims in the cluster, job by job: where, when, and what is observed of them.

    Exit 1 if DIR is given and a job is not as it says.
    """
    from metronome_opt.cli.claims import changes
    from metronome_opt.cli.claims.status import show_status

    _check_places(directory, namespace, everywhere)
    desired = changes.read_desired(directory, namespace) if directory else None
    with changes.connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        return show_status(connection, group, desired, everywhere=everywhere, as_json=as_json)


@app.command()
def delete(
    directory: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]", help="Delete the jobs of this export."),
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Delete this job; may be repeated.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete all jobs of the namespace, or of all (-A).")
    ] = False,
    capacities: Annotated[
        bool,
        typer.Option(
            "--capacities",
            help="Capacities and network topologies, too: those of DIR, with --all all of them.",
        ),
    ] = False,
    definitions: Annotated[
        bool,
        typer.Option("--definitions", help="With --all: the definitions, too; for administrators."),
    ] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: _LookIn = None,
    everywhere: _Everywhere = False,
    timeout: _Timeout = 30.0,
    group: options.Group = options.GROUP,
    dry_run: _DryRun = False,
    as_json: options.Json = False,
) -> int:
    """Delete claims and AppGroups of jobs: those of DIR, those named with --job, or all.

    Only what carries our label is deleted; what is not there need not be. Capacities, topologies
    and definitions stay unless asked for.
    """
    from metronome_opt.cli.claims import changes

    if sum(map(bool, (directory, job, everything))) != 1:
        raise InputError("claims delete: name a DIR, jobs with --job, or --all; one of them")
    if definitions and not (everything and capacities):
        raise InputError("--definitions: takes all objects along; give --all --capacities as well")
    _check_places(directory, namespace, everywhere)
    desired = changes.read_desired(directory, namespace) if directory else None
    with changes.connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        plan = changes.plan_delete(
            connection,
            desired.group if desired else group,
            desired=desired,
            names=job,
            capacities=capacities,
            definitions=definitions,
            everywhere=everywhere,
        )
        return changes.run(connection, plan, changes.Told(dry_run, as_json), "deleted")


@app.command()
def rbac(
    namespace: options.Namespace = options.NAMESPACE,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Grant them to a user.")] = None,
    serviceaccount: Annotated[
        str | None,
        typer.Option(
            metavar="[NAMESPACE:]NAME",
            help="Grant them to a service account.",
            show_default="metronome-opt, if no user is given",
        ),
    ] = None,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="With those to apply definitions.")
    ] = False,
    group: options.Group = options.GROUP,
) -> int:
    """Print the roles and bindings with just the rights that apply, diff, status and delete take.

    An administrator applies them: metronome claims rbac --user NAME | kubectl apply -f -
    """
    from metronome_opt.kubernetes.cluster.objects import rbac_manifests
    from metronome_opt.kubernetes.files import dump_objects
    from metronome_opt.kubernetes.names import is_label

    if user is not None and serviceaccount is not None:
        raise InputError("claims rbac: name a --user or a --serviceaccount, not both")
    if not is_label(namespace):
        raise InputError(f"--namespace {namespace!r}: is not a namespace; use lower-case letters")
    objects = rbac_manifests(
        group, namespace, user=user, account=serviceaccount, definitions=definitions
    )
    typer.echo(dump_objects(objects), nl=False)
    return 0


def _check_places(directory: list[Path] | None, namespace: str | None, everywhere: bool) -> None:
    """Refuse to look everywhere and in certain namespaces at once."""
    if everywhere and (directory or namespace is not None):
        beside = "DIR names its namespaces" if directory else "--namespace names one"
        raise InputError(f"--all-namespaces: {beside}; leave one of the two out")
