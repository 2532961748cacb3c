"""Carrying a plan out part by part; of a part that fails, what was done is taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tenacity

from metronome_opt.kubernetes.cluster.connect import Connection, Tell, each
from metronome_opt.kubernetes.cluster.failure import ClusterError, UnknownKindError
from metronome_opt.kubernetes.cluster.objects import Kind
from metronome_opt.kubernetes.cluster.plan import Action, Part, Plan, plain
from metronome_opt.kubernetes.names import MANAGER

_LOOK_S = 0.1


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
    """Carry out a plan that was tried out.

    What jobs share goes first, but is deleted last; if that fails, no job is begun. Jobs are
    independent of one another, so one that fails leaves the others; if the server is gone, no
    further one is begun.

    Parameters
    ----------
    connection
        Where.
    plan
        What to do.
    force
        Take fields away from other managers.
    stopped
        Asked before each part is begun; those begun are finished.
    tell
        Called with how many parts of how many are done with.
    """
    gone = threading.Event()

    def run(part: Part) -> str:
        """Return what went wrong, nothing if it did not."""
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
            results = each(
                lambda part: None if gone.is_set() or stopped() else run(part), parts, tell
            )
        except BaseException:
            gone.set()
            raise
        for part, failure in zip(parts, results, strict=True):
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
        wait=tenacity.wait_fixed(_LOOK_S),
        retry=tenacity.retry_if_exception_type(UnknownKindError),
        reraise=True,
    )
    for kind in kinds:
        asking(connection.list, kind, name="none")


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
