"""`metronome claims delete`: a cluster gives claims up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options as common
from metronome_opt.cli.claims import options
from metronome_opt.errors import InputError


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
    namespace: options.LookIn = None,
    everywhere: options.Everywhere = False,
    timeout: options.Timeout = options.TIMEOUT,
    group: common.Group = common.GROUP,
    dry_run: options.DryRun = False,
    as_json: common.Json = False,
) -> int:
    """Delete claims and AppGroups of jobs: those of DIR, those named with --job, or all.

    Only what carries our label is deleted; what is not there need not be. Capacities, topologies
    and definitions stay unless asked for.
    """
    from metronome_opt.cli.claims.session import (
        finishing,
        outcome_dict,
        tell_outcome,
        tell_plan,
    )
    from metronome_opt.cli.progress import counting
    from metronome_opt.kubernetes.cluster import connect
    from metronome_opt.kubernetes.cluster.carryout import Outcome, carry_out
    from metronome_opt.kubernetes.cluster.desired import read_desired
    from metronome_opt.kubernetes.cluster.removal import Removal, plan_removal
    from metronome_opt.kubernetes.cluster.trial import try_out

    if sum(map(bool, (directory, job, everything))) != 1:
        raise InputError("claims delete: name a DIR, jobs with --job, or --all; one of them")
    if definitions and not (everything and capacities):
        raise InputError("--definitions: takes all objects along; give --all --capacities as well")
    options.check_places(directory, namespace, everywhere)
    desired = read_desired(directory, namespace) if directory else None
    removal = Removal(desired, job or None, capacities, definitions, everywhere)
    interrupted = False
    with connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        plan = plan_removal(connection, desired.group if desired else group, removal)
        with counting("objects tried") as tell:
            plan = try_out(connection, plan, force=False, tell=tell).plan
        outcome = Outcome(untried=list(plan.parts))
        if not dry_run:
            with finishing(connection) as stopped, counting("jobs deleted") as tell:
                outcome = carry_out(connection, plan, stopped=stopped, tell=tell)
                interrupted = stopped()
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, **outcome_dict(outcome, plan)}, indent=2))
    if dry_run:
        if not as_json:
            tell_plan(plan.parts, would=True)
        return 0
    return tell_outcome(outcome, plan, interrupted=interrupted, quiet=as_json)
