"""What a cluster holds of an export: its claims, capacities, AppGroups and topologies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.connect import Connection
from metronome_opt.kubernetes.cluster.failure import MissingDefinitionError, UnknownKindError
from metronome_opt.kubernetes.cluster.kinds import (
    APP_GROUPS,
    TOPOLOGIES,
    Kind,
    capacities_of,
    claims_of,
)

# Installed apart, by the network-aware scheduler plugins.
_OPTIONAL = (APP_GROUPS, TOPOLOGIES)


@dataclass(frozen=True)
class Survey:
    """What was found.

    Attributes
    ----------
    live
        The objects.
    unknown
        Kinds that the cluster does not know and that it may do without.
    """

    live: tuple[Manifest, ...]
    unknown: frozenset[Kind]


def survey(
    connection: Connection, group: str, namespaces: Iterable[str], *, capacities: bool = True
) -> Survey:
    """List what a cluster holds.

    Parameters
    ----------
    connection
        Where to look.
    group
        API group of the claims.
    namespaces
        The namespaces to look in.
    capacities
        Whether to look at capacities, which belong to no namespace.

    Raises
    ------
    MissingDefinitionError
        If the cluster does not know claims or capacities.
    ClusterError
        If it does not answer, or refuses the user.
    """
    places = list(namespaces)
    asked: list[tuple[Kind, str | None]] = [(kind, place) for kind in _OPTIONAL for place in places]
    if capacities:
        asked.insert(0, (capacities_of(group), None))
    live = list_claims(connection, group, places)
    unknown: set[Kind] = set()
    for kind, place in asked:
        try:
            live += connection.list(kind, place)
        except UnknownKindError:
            if kind not in _OPTIONAL:
                raise _lacking(connection, kind) from None
            unknown.add(kind)
    return Survey(tuple(live), frozenset(unknown))


def list_claims(connection: Connection, group: str, namespaces: Iterable[str]) -> list[Manifest]:
    """Return the claims of some namespaces. Raises as `survey` does."""
    try:
        return [claim for place in namespaces for claim in connection.list(claims_of(group), place)]
    except UnknownKindError:
        raise _lacking(connection, claims_of(group)) from None


def _lacking(connection: Connection, kind: Kind) -> MissingDefinitionError:
    return MissingDefinitionError(
        f"{connection.server}: the cluster lacks the definition of {kind.resource}; "
        "an administrator applies it with metronome claims apply DIR --definitions"
    )
