"""The rights that applying claims takes, and the objects that grant them.

One table says which; what asks the server uses no other verb.
"""

from __future__ import annotations

from dataclasses import dataclass

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.kinds import (
    APP_GROUPS,
    DEFINITIONS,
    TOPOLOGIES,
    Kind,
    capacities_of,
    claims_of,
)
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, is_label, labels

_RBAC = "rbac.authorization.k8s.io"
# Applying on the server's side is a patch, which also has to be a right to create where it does.
# What fails midway is taken back, so whoever creates has to be able to delete.
_VERBS = ("create", "delete", "list", "patch")


@dataclass(frozen=True)
class Right:
    """What may be done with a resource."""

    kind: Kind
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """Who is to have the rights.

    Attributes
    ----------
    kind
        ``User`` or ``ServiceAccount``.
    name, namespace
        Who; users have no namespace.
    """

    kind: str
    name: str
    namespace: str | None = None

    @property
    def title(self) -> str:
        """A part of names that is nobody else's; users may be called anything."""
        if self.namespace is None:
            return f"user:{labels([self.name])[self.name]}"
        return f"serviceaccount:{self.namespace}:{self.name}"

    def to_dict(self) -> dict[str, str]:
        """Return the subject of a binding."""
        if self.namespace is None:
            return {"kind": self.kind, "name": self.name, "apiGroup": _RBAC}
        return {"kind": self.kind, "name": self.name, "namespace": self.namespace}


def service_account(text: str, namespace: str) -> Subject:
    """Return the service account that ``NAMESPACE:NAME`` or ``NAME`` means.

    Raises
    ------
    InputError
        If it means none.
    """
    place, colon, name = text.rpartition(":")
    place = place if colon else namespace
    if not (is_label(place) and is_label(name)):
        raise InputError(
            f"--serviceaccount {show(text)}: is none; give its NAME, or NAMESPACE:NAME"
        )
    return Subject("ServiceAccount", name, place)


def rights(group: str, *, definitions: bool) -> tuple[list[Right], list[Right]]:
    """Return the rights within a namespace, and those in the whole cluster.

    Parameters
    ----------
    group
        API group of the claims.
    definitions
        Whether definitions are to be applied and deleted too.
    """
    inside = [Right(kind, _VERBS) for kind in (claims_of(group), APP_GROUPS, TOPOLOGIES)]
    across = [Right(capacities_of(group), _VERBS)]
    if definitions:
        across.append(Right(DEFINITIONS, ("create", "delete", "get", "patch")))
        across.append(Right(claims_of(group), ("list",)))
    return inside, across


def rbac_manifests(
    group: str, namespace: str, subject: Subject, *, definitions: bool = False
) -> list[Manifest]:
    """Return the roles and bindings that give somebody just the rights needed.

    Parameters
    ----------
    group
        API group of the claims.
    namespace
        Where the claims are.
    subject
        Who is to have the rights.
    definitions
        Whether definitions are to be applied and deleted too.
    """
    inside, across = rights(group, definitions=definitions)
    # Names tell groups and subjects apart, so that who comes later takes nothing from others.
    own = MANAGER if group == DEFAULT_GROUP else f"{MANAGER}:{group}"
    # A cluster has one role for all namespaces, and bindings for each of them.
    role = f"{own}-definitions" if definitions else own
    return [
        _role("Role", own, namespace, inside),
        _binding("RoleBinding", f"{own}:{subject.title}", "Role", own, namespace, subject),
        _role("ClusterRole", role, None, across),
        _binding(
            "ClusterRoleBinding",
            f"{role}:{namespace}:{subject.title}",
            "ClusterRole",
            role,
            None,
            subject,
        ),
    ]


def _role(kind: str, name: str, namespace: str | None, granted: list[Right]) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _metadata(name, namespace),
        "rules": [
            {
                "apiGroups": [right.kind.group],
                "resources": [right.kind.plural],
                "verbs": list(right.verbs),
            }
            for right in granted
        ],
    }


def _binding(
    kind: str, name: str, role_kind: str, role: str, namespace: str | None, subject: Subject
) -> Manifest:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _metadata(name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [subject.to_dict()],
    }


def _metadata(name: str, namespace: str | None) -> dict[str, object]:
    return {
        "name": name,
        **({} if namespace is None else {"namespace": namespace}),
        "labels": {"app.kubernetes.io/managed-by": MANAGER},
    }
