"""The definitions of claims and capacities in a cluster; only administrators may change them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.connect import ALL_NAMESPACES, Connection
from metronome_opt.kubernetes.cluster.failure import ClusterError, UnknownKindError
from metronome_opt.kubernetes.cluster.fields import is_so
from metronome_opt.kubernetes.cluster.kinds import (
    DEFINITIONS,
    Kind,
    capacities_of,
    claims_of,
    title,
)
from metronome_opt.kubernetes.cluster.plan import Action, Part, Plan, Verb, is_ours

_LOOK_S = 0.1


def plan_definitions(connection: Connection, definitions: Iterable[Manifest]) -> Plan:
    """Plan to make a cluster know these definitions."""
    actions = []
    unchanged = 0
    for item in definitions:
        live = connection.get(DEFINITIONS, item["metadata"]["name"])
        if live is not None and is_so(item, live):
            unchanged += 1
        else:
            verb = Verb.CREATE if live is None else Verb.CHANGE
            actions.append(Action(verb, DEFINITIONS, item, live))
    return Plan((Part(None, tuple(actions)),) if actions else (), unchanged)


def wait_established(
    connection: Connection,
    definitions: Iterable[Manifest],
    timeout_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a cluster serves what is defined.

    Raises
    ------
    ClusterError
        If it does not within `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    for item in definitions:
        while not _is_served(connection, item):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{connection.server}: {title(item)} is not established after {timeout_s:g} s; "
                    "kubectl describe says why"
                )
            sleep(_LOOK_S)


def deletable(connection: Connection, group: str, namespace: str) -> list[Manifest]:
    """Return the definitions of `group` that are there, if nothing of others goes with them.

    Others are those whose objects lack our label or are in another namespace than `namespace`,
    unless that is `ALL_NAMESPACES`.

    Raises
    ------
    InputError
        If there are objects of others: they would be deleted too.
    """
    kinds = (claims_of(group), capacities_of(group))
    for kind in kinds:
        try:
            found = connection.list(kind, ALL_NAMESPACES if kind.namespaced else None)
        except UnknownKindError:
            continue
        for item in found:
            elsewhere = item["metadata"].get("namespace") not in (None, namespace)
            if (elsewhere and namespace != ALL_NAMESPACES) or not is_ours(item):
                raise InputError(
                    f"--definitions: {title(item)} would be deleted with the definition of its "
                    "kind; delete it first, or leave the definitions"
                )
    names = [kind.resource for kind in kinds]
    present = [connection.get(DEFINITIONS, name) for name in names]
    return [item for item in present if item is not None]


def _is_served(connection: Connection, definition: Manifest) -> bool:
    live = connection.get(DEFINITIONS, definition["metadata"]["name"])
    # Until the server has looked at it, its status is missing or its conditions are null.
    conditions = ((live or {}).get("status") or {}).get("conditions") or ()
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        return False
    spec = definition["spec"]
    version = spec["versions"][0]["name"]
    kind = Kind(
        f"{spec['group']}/{version}",
        spec["names"]["kind"],
        spec["names"]["plural"],
        spec["scope"] == "Namespaced",
    )
    try:
        connection.list(kind)
    except UnknownKindError:  # the server takes a moment longer to serve it
        return False
    return True
