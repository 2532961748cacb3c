"""What has to be done so that a cluster holds what is desired. No input, no output.

Objects are done with in parts, each all or nothing: what all jobs share is one, then each job is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.desired import Desired, JobKey, job_of
from metronome_opt.kubernetes.cluster.fields import is_so
from metronome_opt.kubernetes.cluster.kinds import Kind, kind_of, title
from metronome_opt.kubernetes.names import MANAGER

Identity = tuple[Kind, str | None, str]


class Verb(StrEnum):
    """What is done with an object."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True)
class Action:
    """One thing to do with one object.

    Attributes
    ----------
    verb, kind
        What is to be done with what.
    manifest
        What to apply; None where something is deleted.
    live
        The object as it is; None where it is created.
    """

    verb: Verb
    kind: Kind
    manifest: Manifest | None
    live: Manifest | None

    @property
    def target(self) -> Manifest:
        """The object that it is about."""
        found = self.manifest if self.manifest is not None else self.live
        if found is None:
            raise ValueError("an action needs an object")
        return found

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.target["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Namespace of the object; None if it has none."""
        found = self.target["metadata"].get("namespace")
        return None if found is None else str(found)

    def __str__(self) -> str:
        return f"{self.verb} {title(self.target)}"


@dataclass(frozen=True)
class Part:
    """Actions that are done all or not at all.

    Attributes
    ----------
    job
        The job that they are for; None for what jobs share.
    actions
        In their order.
    """

    job: JobKey | None
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return "what jobs share" if self.job is None else f"job {self.job}"


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Attributes
    ----------
    parts
        Only those in which something is to be done, that of all jobs first.
    unchanged
        How many objects are as desired already.
    passed_over
        For kinds that the cluster does not know, how many objects are left out.
    """

    parts: tuple[Part, ...]
    unchanged: int = 0
    passed_over: Mapping[Kind, int] = field(default_factory=dict)


def plan_apply(
    desired: Desired,
    live: Iterable[Manifest],
    *,
    unknown: Collection[Kind] = (),
    prune: bool = False,
) -> Plan:
    """Plan to make a cluster hold what is desired.

    Parameters
    ----------
    desired
        What is desired.
    live
        What the cluster holds of these kinds, in the namespaces concerned.
    unknown
        Kinds that the cluster does not know; their objects are left out.
    prune
        Delete the objects of jobs that are not desired at all, too.

    Returns
    -------
    Plan
        Of jobs that are desired, objects that no longer are get deleted, of others only if `prune`
        says so; in both cases only those that carry our label.
    """
    found = {identity(item, desired.group): item for item in live}
    passed: dict[Kind, int] = {}
    parts = []
    unchanged = 0
    wanted: set[Identity] = set()
    for job, items in ((None, desired.shared), *desired.jobs.items()):
        actions = []
        for item in items:
            kind = kind_of(item, desired.group)
            if kind in unknown:
                passed[kind] = passed.get(kind, 0) + 1
                continue
            key = identity(item, desired.group)
            wanted.add(key)
            present = found.get(key)
            if present is None:
                actions.append(Action(Verb.CREATE, kind, item, None))
            elif is_so(item, present):
                unchanged += 1
            else:
                actions.append(Action(Verb.CHANGE, kind, item, present))
        parts.append(Part(job, tuple(actions)))
    stale = _stale(found, wanted, desired, prune)
    parts = [Part(part.job, (*part.actions, *stale.pop(part.job, ()))) for part in parts]
    parts += [Part(job, tuple(actions)) for job, actions in sorted(stale.items())]
    return Plan(tuple(part for part in parts if part.actions), unchanged, passed)


def plan_delete(
    live: Iterable[Manifest],
    group: str,
    *,
    jobs: Collection[JobKey] | None,
    shared: Collection[Identity] | None = (),
) -> Plan:
    """Plan to delete what carries our label.

    Parameters
    ----------
    live
        What the cluster holds.
    group
        API group of the claims.
    jobs
        The jobs whose objects go; None for all.
    shared
        What goes of that which jobs share; None for all.
    """
    parts: dict[JobKey | None, list[Action]] = {}
    for item in live:
        job = job_of(item, group)
        if job is None:
            wanted = shared is None or identity(item, group) in shared
        else:
            wanted = jobs is None or job in jobs
        if wanted and is_ours(item):
            parts.setdefault(job, []).append(Action(Verb.DELETE, kind_of(item, group), None, item))
    order = sorted(parts, key=lambda job: (job is None, job or JobKey("", "")))
    return Plan(tuple(Part(job, tuple(parts[job])) for job in order))


def identity(manifest: Mapping[str, Any], group: str) -> Identity:
    """Return what tells an object from all others of a cluster."""
    metadata = manifest["metadata"]
    return kind_of(manifest, group), metadata.get("namespace"), metadata["name"]


def is_ours(manifest: Mapping[str, Any]) -> bool:
    """Return whether an object carries our label."""
    labels = manifest["metadata"].get("labels") or {}
    return bool(labels.get("app.kubernetes.io/managed-by") == MANAGER)


def _stale(
    found: Mapping[Identity, Manifest],
    wanted: Collection[Identity],
    desired: Desired,
    prune: bool,
) -> dict[JobKey | None, list[Action]]:
    stale: dict[JobKey | None, list[Action]] = {}
    for key, item in sorted(
        found.items(), key=lambda pair: (pair[0][0], pair[0][1] or "", pair[0][2])
    ):
        job = job_of(item, desired.group)
        if key in wanted or job is None or not is_ours(item):
            continue
        if job in desired.jobs or prune:
            stale.setdefault(job, []).append(Action(Verb.DELETE, key[0], None, item))
    return stale
