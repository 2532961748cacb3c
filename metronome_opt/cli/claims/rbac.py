"""`metronome claims rbac`: the rights that applying takes."""

from __future__ import annotations

from typing import Annotated

import typer

from metronome_opt.cli import options as common
from metronome_opt.errors import InputError


def rbac(
    namespace: common.Namespace = common.NAMESPACE,
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
    group: common.Group = common.GROUP,
) -> int:
    """Print the roles and bindings with just the rights that apply, diff, status and delete take.

    An administrator applies them: metronome claims rbac --user NAME | kubectl apply -f -
    """
    from metronome_opt.kubernetes.cluster.rights import Subject, rbac_manifests, service_account
    from metronome_opt.kubernetes.dump import dump_objects
    from metronome_opt.kubernetes.names import MANAGER, is_label

    if user is not None and serviceaccount is not None:
        raise InputError("claims rbac: name a --user or a --serviceaccount, not both")
    if not is_label(namespace):
        raise InputError(f"--namespace {namespace!r}: is not a namespace; use lower-case letters")
    subject = (
        Subject("User", user)
        if user is not None
        else service_account(serviceaccount or MANAGER, namespace)
    )
    objects = rbac_manifests(group, namespace, subject, definitions=definitions)
    typer.echo(dump_objects(objects), nl=False)
    return 0
