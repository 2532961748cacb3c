"""`metronome claims apply`: a cluster takes the claims."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options as common
from metronome_opt.cli.claims import options

if TYPE_CHECKING:
    from metronome_opt.kubernetes.cluster import Connection
    from metronome_opt.kubernetes.cluster.desired import Desired
    from metronome_opt.kubernetes.cluster.trial import Trial


def apply(
    directory: options.Folders,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.InNamespace = None,
    timeout: options.Timeout = options.TIMEOUT,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Apply the definitions first; for administrators.")
    ] = False,
    prune: options.Prune = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    as_json: common.Json = False,
) -> int:
    """Make the cluster hold what DIR says, all objects of a job or none.

    The server tries everything first. Of a job that then fails, what was applied is taken back.
    Objects that are so already are not touched. Fields that others manage are left to them, and
    told, unless --force is given.
    """
    from metronome_opt.kubernetes.cluster import connect
    from metronome_opt.kubernetes.cluster.desired import read_desired

    desired = read_desired(directory, namespace)
    with connect(kubeconfig, context, namespace, timeout_s=timeout) as connection:
        if definitions:
            there = _apply_definitions(connection, desired, timeout, force, dry_run, as_json)
            if not there:
                typer.echo("note: claims can be tried once their definitions are there", err=True)
                return 0
        return _apply(connection, desired, prune, force, dry_run, as_json)


def _apply_definitions(
    connection: Connection,
    desired: Desired,
    timeout: float,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> bool:
    """Apply the definitions, ours if DIR has none; return whether the cluster has them all."""
    from metronome_opt.cli.claims.session import tell_plan
    from metronome_opt.kubernetes.cluster.carryout import carry_out
    from metronome_opt.kubernetes.cluster.definitions import plan_definitions, wait_established
    from metronome_opt.kubernetes.cluster.failure import ClusterError
    from metronome_opt.kubernetes.cluster.plan import Verb
    from metronome_opt.kubernetes.cluster.trial import try_out
    from metronome_opt.kubernetes.crd import custom_resource_definitions

    wanted = desired.definitions or custom_resource_definitions(desired.group)
    plan = plan_definitions(connection, wanted)
    trial = try_out(connection, plan, force=force)
    if trial.refusals:
        raise trial.refusals[0]
    if not as_json:
        tell_plan(trial.plan.parts, would=dry_run, title="definitions")
    if dry_run:
        return all(action.verb is not Verb.CREATE for part in plan.parts for action in part.actions)
    outcome = carry_out(connection, trial.plan, force=force)
    if outcome.failed:
        raise ClusterError(outcome.failed[0][1])
    wait_established(connection, wanted, timeout)
    return True


def _apply(
    connection: Connection,
    desired: Desired,
    prune: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    from metronome_opt.cli.claims.session import (
        finishing,
        note_passed_over,
        outcome_dict,
        tell_outcome,
        tell_plan,
    )
    from metronome_opt.cli.progress import counting
    from metronome_opt.kubernetes.cluster.carryout import Outcome, carry_out
    from metronome_opt.kubernetes.cluster.trial import prepare

    with counting("objects tried") as tell:
        trial = prepare(connection, desired, prune=prune, force=force, tell=tell)
    if trial.refusals:
        return _refused(trial, as_json)
    interrupted = False
    outcome = Outcome(untried=list(trial.plan.parts))
    if not dry_run:
        with finishing(connection) as stopped, counting("jobs applied") as tell:
            outcome = carry_out(connection, trial.plan, force=force, stopped=stopped, tell=tell)
            interrupted = stopped()
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, **outcome_dict(outcome, trial.plan)}, indent=2))
    note_passed_over(trial.plan.passed_over)
    if dry_run:
        if not as_json:
            tell_plan(trial.plan.parts, would=True)
        return 0
    return tell_outcome(outcome, trial.plan, interrupted=interrupted, quiet=as_json)


def _refused(trial: Trial, as_json: bool) -> int:
    if as_json:
        lines = [str(refusal) for refusal in trial.refusals]
        typer.echo(json.dumps({"refused": lines}, indent=2))
    for refusal in trial.refusals:
        typer.echo(f"metronome: error: {refusal}", err=True)
    typer.echo("nothing is applied", err=True)
    return 1
