"""`metronome claims diff`: what apply would do."""

from __future__ import annotations

import json

import typer

from metronome_opt.cli import options as common
from metronome_opt.cli.claims import options


def diff(
    directory: options.Folders,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.InNamespace = None,
    timeout: options.Timeout = options.TIMEOUT,
    prune: options.Prune = False,
    force: options.Force = False,
    as_json: common.Json = False,
) -> int:
    """Show what apply would do, object by object and field by field.

    Exit 0 if it would do nothing, 1 if something. The server tries it, which takes the same rights.
    """
    from metronome_opt.cli.claims.session import NOTHING, note_passed_over
    from metronome_opt.cli.progress import counting
    from metronome_opt.kubernetes.cluster import connect
    from metronome_opt.kubernetes.cluster.desired import read_desired
    from metronome_opt.kubernetes.cluster.trial import prepare

    desired = read_desired(directory, namespace)
    with (
        connect(kubeconfig, context, namespace, timeout_s=timeout) as connection,
        counting("objects tried") as tell,
    ):
        trial = prepare(connection, desired, prune=prune, force=force, tell=tell)
    if as_json:
        rows = [
            {
                "action": action.verb.value,
                "kind": action.kind.kind,
                "namespace": action.namespace,
                "name": action.name,
                "fields": [
                    {"path": one.path, "before": one.before, "after": one.after} for one in changes
                ],
            }
            for action, changes in trial.changes
        ]
        refused = [str(refusal) for refusal in trial.refusals]
        typer.echo(json.dumps({"changes": rows, "refused": refused}, indent=2))
    else:
        for action, changes in trial.changes:
            typer.echo(str(action))
            for change in changes:
                typer.echo(f"  {change}")
    for refusal in trial.refusals:
        typer.echo(f"metronome: error: {refusal}", err=True)
    note_passed_over(trial.plan.passed_over)
    if trial.changes or trial.refusals:
        return 1
    if not as_json:
        typer.echo(NOTHING)
    return 0
