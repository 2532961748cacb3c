"""Steps by which a cluster comes to hold what is desired: planned, tried, done or taken back.

Objects are done with in parts, each all or nothing: what all jobs share is one, then each job is.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tenacity

from metronome_opt.errors import InputError, format_path
from metronome_opt.kubernetes.cluster.connect import (
    ALL_NAMESPACES,
    ClusterError,
    Connection,
    RefusedError,
    Tell,
    UnknownKindError,
    each,
)
from metronome_opt.kubernetes.cluster.objects import (
    APP_GROUPS,
    DEFINITIONS,
    TOPOLOGIES,
    Desired,
    JobKey,
    Kind,
    capacities_of,
    claims_of,
    identity,
    is_ours,
    job_of,
    title,
)
from metronome_opt.kubernetes.names import MANAGER
from metronome_opt.kubernetes.schemas import Manifest

_OPTIONAL = (APP_GROUPS, TOPOLOGIES)  # installed apart, by the network-aware scheduler plugins
_POLL_S = 0.1
_SERVERS_OWN = {"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}


@dataclass(frozen=True)
class Action:
    """One thing to do with one object."""

    kind: Kind
    manifest: Manifest | None  # what to apply; None to delete it
    live: Manifest | None  # the object as it is; None where it is created
    after: Manifest | None = None  # as a dry run would leave it; None before one

    @property
    def verb(self) -> str:
        """What is done: create, change, delete."""
        if self.manifest is None:
            return "delete"
        return "create" if self.live is None else "change"

    @property
    def target(self) -> Manifest:
        """The object that it is about."""
        return self.manifest or self.live or {}

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.target["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """Namespace of the object; None if it has none."""
        found: str | None = self.target["metadata"].get("namespace")
        return found

    def differences(self) -> list[tuple[str, Any, Any]]:
        """Return each field that changes: its path, its values before and after, None for none.

        There are none for an object that is created or deleted as a whole.
        """
        if self.live is None or self.after is None:
            return []
        old, new = _flat(plain(self.live), ()), _flat(plain(self.after), ())
        paths = [*old, *(path for path in new if path not in old)]
        found = [
            (format_path(path), old.get(path), new.get(path))
            for path in paths
            if (path in old, old.get(path)) != (path in new, new.get(path))
        ]
        return found or [("metadata.managedFields", None, MANAGER)]

    def __str__(self) -> str:
        return f"{self.verb} {title(self.target)}"


@dataclass(frozen=True)
class Part:
    """Actions that are done all or not at all."""

    job: JobKey | None  # None for what jobs share
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return "what jobs share" if self.job is None else f"job {self.job}"


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    parts: tuple[Part, ...]  # those in which something is to be done, in their order
    left_out: Mapping[Kind, int] = field(default_factory=dict)  # of kinds the cluster lacks
    unchanged: int = 0  # how many objects are as desired already, as a dry run says
    refusals: tuple[RefusedError, ...] = ()  # what a dry run said against single objects


def survey(
    connection: Connection,
    kinds: Iterable[Kind],
    namespaces: Collection[str],
    *,
    strict: bool = True,
) -> tuple[list[Manifest], set[Kind]]:
    """Return the objects of some kinds that a cluster holds, and the kinds that it does not know.

    Raises
    ------
    ClusterError
        If the cluster does not answer or refuses the user; if `strict`, also if it does not know
        claims or capacities.
    """
    live: list[Manifest] = []
    unknown = set()
    for kind in kinds:
        try:
            for space in namespaces if kind.namespaced else [None]:
                live += connection.list(kind, space)
        except UnknownKindError:
            if strict and kind not in _OPTIONAL:
                raise ClusterError(
                    f"{connection.server}: the cluster lacks the definition of {kind.resource}; "
                    "an administrator applies it with metronome claims apply DIR --definitions"
                ) from None
            unknown.add(kind)
    return live, unknown


def plan_apply(connection: Connection, desired: Desired, *, prune: bool = False) -> Plan:
    """Plan to make a cluster hold what is desired.

    Of jobs that are desired, objects that no longer are get deleted, of other jobs in the same
    namespaces only if `prune` says so; in both cases only those that carry our label. Objects of
    kinds that the cluster may do without and does not know are left out.

    Raises
    ------
    ClusterError
        As `survey` does.
    """
    group = desired.group
    with_capacities = any(identity(item, group)[0] not in _OPTIONAL for item in desired.shared)
    live, unknown = survey(connection, _kinds(group, with_capacities), desired.namespaces)
    found = {identity(item, group): item for item in live}
    left_out: Counter[Kind] = Counter()
    actions: defaultdict[JobKey | None, list[Action]] = defaultdict(list)
    for job, items in ((None, desired.shared), *desired.jobs.items()):
        for item in items:
            key = identity(item, group)
            if key[0] in unknown:
                left_out[key[0]] += 1
            else:
                actions[job].append(Action(key[0], item, found.pop(key, None)))
    rest = [(job_of(item, group), kind, item) for (kind, _, _), item in found.items()]
    stale = [one for one in rest if one[0] is not None and is_ours(one[2])]
    for job, kind, item in sorted(stale, key=lambda one: (one[0], one[1], title(one[2]))):
        if prune or job in desired.jobs:
            actions[job].append(Action(kind, None, item))
    return Plan(_parts(actions), left_out)


def plan_delete(
    connection: Connection,
    group: str,
    *,
    desired: Desired | None = None,
    names: Collection[str] | None = None,
    capacities: bool = False,
    definitions: bool = False,
    everywhere: bool = False,
) -> Plan:
    """Plan to delete what is there of this and carries our label, what jobs share last.

    Parameters
    ----------
    connection
        Its namespace counts where no export names one and not all are meant.
    group
        API group of the claims.
    desired
        The jobs of this export; None for others.
    names
        Jobs by their own names or their labels; None for all, or those of the export.
    capacities, definitions
        These as well: capacities and topologies of the export, else all.
    everywhere
        Jobs and topologies of all namespaces.

    Raises
    ------
    InputError
        If something of others would go with the definitions.
    ClusterError
        If the server cannot be asked or refuses the user.
    """
    here = ALL_NAMESPACES if everywhere else connection.namespace
    places = desired.namespaces if desired else [here]
    live, _ = survey(connection, _kinds(group, capacities), places, strict=False)
    # An AppGroup knows only the label of its job, but goes with the claims.
    jobs = (
        desired.jobs
        if desired
        else {job_of(item, group) for item in live if _is(item, names, group)}
    )
    shared = [identity(item, group) for item in (desired.shared if desired else live)]
    actions: defaultdict[JobKey, list[Action]] = defaultdict(list)
    last = []
    for item in filter(is_ours, live):
        job, key = job_of(item, group), identity(item, group)
        if job is None and capacities and key in shared:
            last.append(Action(key[0], None, item))
        elif job is not None and job in jobs:
            actions[job].append(Action(key[0], None, item))
    if definitions:
        last += _definitions_to_delete(connection, group, here)
    return Plan(_parts({**dict(sorted(actions.items())), None: last}))


def plan_definitions(connection: Connection, definitions: Iterable[Manifest]) -> Plan:
    """Plan to make a cluster know these definitions."""
    actions = [
        Action(DEFINITIONS, item, connection.get(DEFINITIONS, item["metadata"]["name"]))
        for item in definitions
    ]
    return Plan(_parts({None: actions}))


def try_out(
    connection: Connection, plan: Plan, *, force: bool = False, tell: Tell | None = None
) -> Plan:
    """Have the server try every action of a plan; nothing is changed.

    Returned is the plan without actions that would change nothing, and with what the server
    refuses. With `force` fields are taken away from other managers; `tell` is called with how many
    actions of how many have been tried.

    Raises
    ------
    ClusterError
        If the server cannot be asked, or the user lacks a right.
    """

    def attempt(action: Action) -> Action | RefusedError | None:
        try:
            if action.manifest is None:
                connection.delete(action.kind, action.name, action.namespace, dry_run=True)
                return action
            after = connection.apply(action.kind, action.manifest, force=force, dry_run=True)
        except RefusedError as refusal:
            return refusal
        same = action.live is not None and _state(action.live) == _state(after)
        return None if same else replace(action, after=after)

    answers = each(attempt, [action for part in plan.parts for action in part.actions], tell)
    left = iter(answers)
    tried = {part.job: [next(left) for _ in part.actions] for part in plan.parts}
    kept = {job: [one for one in of if isinstance(one, Action)] for job, of in tried.items()}
    return replace(
        plan,
        parts=_parts(kept),
        unchanged=answers.count(None),
        refusals=tuple(answer for answer in answers if isinstance(answer, RefusedError)),
    )


@dataclass
class Outcome:
    """What became of the parts of a plan."""

    done: list[Part] = field(default_factory=list)
    failed: list[tuple[Part, str]] = field(default_factory=list)  # each with a line that says why
    untried: list[Part] = field(default_factory=list)  # stopped, or the server was gone


def carry_out(
    connection: Connection,
    plan: Plan,
    *,
    force: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    tell: Tell | None = None,
) -> Outcome:
    """Carry out a plan that was tried out; of a part that fails, what was done is taken back.

    What jobs share goes first, but is deleted last; if that fails, no job is begun. Jobs are
    independent of one another, so one that fails leaves the others; if the server is gone, no
    further one is begun.

    With `force` fields are taken away from other managers. `stopped` is asked before each part is
    begun; those begun are finished. `tell` is called with how many parts of how many are done with.
    """
    gone = threading.Event()

    def run(part: Part) -> str | None:
        """Return what went wrong, nothing if it did not; None if it is not begun."""
        if gone.is_set() or stopped():
            return None
        failure, passing = _carry_out(connection, part, force)
        if passing:
            gone.set()
        return failure

    outcome = Outcome()
    shared = [part for part in plan.parts if part.job is None]
    jobs = [part for part in plan.parts if part.job is not None]
    deleting = all(action.manifest is None for part in shared for action in part.actions)
    for parts in (jobs, shared) if deleting else (shared, jobs):
        if outcome.failed:
            outcome.untried += parts
            continue
        try:
            failures = each(run, parts, tell)
        except BaseException:
            gone.set()
            raise
        for part, failure in zip(parts, failures, strict=True):
            if failure is None:
                outcome.untried.append(part)
            elif failure:
                outcome.failed.append((part, failure))
            else:
                outcome.done.append(part)
    return outcome


def _carry_out(connection: Connection, part: Part, force: bool) -> tuple[str, bool]:
    """Carry out a part; return why it failed, if it did, and whether that may pass."""
    for number, action in enumerate(part.actions):
        try:
            if action.manifest is None:
                connection.delete(action.kind, action.name, action.namespace)
            else:
                connection.apply(action.kind, action.manifest, force=force)
        except ClusterError as error:
            # Without a clear answer it may have been done nevertheless.
            done = part.actions[: number + error.passing]
            return f"{part}: {error}; {_take_back(connection, done)}", error.passing
    return "", False


def wait_served(connection: Connection, kinds: Iterable[Kind], timeout_s: float) -> None:
    """Wait until a cluster serves what has been defined.

    Raises
    ------
    UnknownKindError
        If it does not within `timeout_s` seconds.
    """
    asking = tenacity.Retrying(
        stop=tenacity.stop_after_delay(timeout_s),
        wait=tenacity.wait_fixed(_POLL_S),
        retry=tenacity.retry_if_exception_type(UnknownKindError),
        reraise=True,
    )
    for kind in kinds:
        asking(connection.list, kind, name="none")


# ------------------------------------------------------------------ the way back


def _take_back(connection: Connection, done: Sequence[Action]) -> str:
    """Undo actions, the last first; return what that came to."""
    if not done:
        return "nothing of it is applied"
    try:
        for action in reversed(done):
            _undo(connection, action)
    except ClusterError:
        return "what was applied of it could not be taken back: the next run completes it"
    return "what was applied of it is taken back"


def _undo(connection: Connection, action: Action) -> None:
    live = action.live
    if live is None:
        # If it is not certain that we made it, it may be missing, or somebody else's.
        for item in connection.list(action.kind, action.namespace, name=action.name):
            if MANAGER in {entry.get("manager") for entry in _entries(item)}:
                connection.delete(action.kind, action.name, action.namespace)
        return
    if action.manifest is None:
        connection.apply(action.kind, plain(live), force=True)
    patch = _merge_patch(plain(action.after or live), plain(live))
    entries = [entry for entry in _entries(live) if entry["fieldsV1"]]
    patch["metadata"] = {**patch.get("metadata", {}), "managedFields": entries}
    # The first brings the values back, of which the server makes us a manager; the second changes
    # no value any more, so that the managers are as it says.
    for _ in range(2):
        connection.merge(action.kind, action.name, action.namespace, patch)


def _entries(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return who manages what of an object, but for its status."""
    return [
        {**entry, "fieldsV1": {key: of for key, of in fields.items() if key != "f:status"}}
        for entry in live["metadata"].get("managedFields") or ()
        if (fields := entry.get("fieldsV1"))
    ]


def _merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch (RFC 7396) that makes `new` of `old`."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(old.get(key), Mapping):
            inner = _merge_patch(old[key], value)
            patch |= {key: inner} if inner else {}
        elif key not in old or old[key] != value:
            patch[key] = value
    return patch


# ------------------------------------------------------------------ objects compared


def plain(manifest: Mapping[str, Any]) -> Manifest:
    """Return an object without what only the server sets."""
    metadata = {
        key: value for key, value in manifest["metadata"].items() if key not in _SERVERS_OWN
    }
    rest = {key: value for key, value in manifest.items() if key != "status"}
    return {**rest, "metadata": metadata}


def _state(manifest: Manifest) -> tuple[Manifest, set[str]]:
    """Return what can be told apart of an object: its fields, and who manages what of it."""
    entries = manifest["metadata"].get("managedFields") or ()
    untimed = ({**entry, "time": None} for entry in entries)
    return plain(manifest), {json.dumps(entry, sort_keys=True) for entry in untimed}


def _kinds(group: str, capacities: bool) -> list[Kind]:
    return [claims_of(group), *([capacities_of(group)] if capacities else ()), *_OPTIONAL]


def _parts(actions: Mapping[JobKey | None, list[Action]]) -> tuple[Part, ...]:
    return tuple(Part(job, tuple(found)) for job, found in actions.items() if found)


def _is(item: Manifest, names: Collection[str] | None, group: str) -> bool:
    """Return whether an object is that of a job of one of these names, or labels."""
    job = job_of(item, group)
    return job is not None and (
        names is None or job.name in names or item["spec"].get("job") in names
    )


def _definitions_to_delete(connection: Connection, group: str, namespace: str) -> list[Action]:
    """Return what deletes the definitions that are there, if nothing of others goes with them."""
    kinds = [claims_of(group), capacities_of(group)]
    live, _ = survey(connection, kinds, [ALL_NAMESPACES], strict=False)
    for item in live:
        elsewhere = item["metadata"].get("namespace") not in (None, namespace)
        if (elsewhere and namespace != ALL_NAMESPACES) or not is_ours(item):
            raise InputError(
                f"--definitions: {title(item)} would be deleted with the definition of its "
                "kind; delete it first, or leave the definitions"
            )
    found = [connection.get(DEFINITIONS, kind.resource) for kind in kinds]
    return [Action(DEFINITIONS, None, item) for item in found if item and is_ours(item)]


def _flat(node: Any, path: tuple[str | int, ...]) -> dict[tuple[str | int, ...], Any]:
    """Return the leaves of a document by their paths."""
    if isinstance(node, Mapping) and node:
        items: Any = node.items()
    elif isinstance(node, list) and node:
        items = enumerate(node)
    else:
        return {path: node}
    found: dict[tuple[str | int, ...], Any] = {}
    for step, inner in items:
        found |= _flat(inner, (*path, step))
    return found
