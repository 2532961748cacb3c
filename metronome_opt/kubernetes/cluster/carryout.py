"""Carrying a plan out part by part; of a part that fails, what was done is taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from metronome_opt.kubernetes.cluster.connect import Connection
from metronome_opt.kubernetes.cluster.failure import ClusterError
from metronome_opt.kubernetes.cluster.fields import former, former_managers, managed, managers
from metronome_opt.kubernetes.cluster.plan import Action, Part, Plan, Verb
from metronome_opt.kubernetes.cluster.several import Tell, each


@dataclass
class Outcome:
    """What became of a plan.

    Attributes
    ----------
    done
        Parts that are carried out.
    failed
        Parts that are not, each with a line that says why.
    untried
        Parts that were not begun: stopped, the server was gone, or what jobs share failed.
    """

    done: list[Part] = field(default_factory=list)
    failed: list[tuple[Part, str]] = field(default_factory=list)
    untried: list[Part] = field(default_factory=list)

    def count(self, verb: Verb) -> int:
        """Return with how many objects this was done."""
        return sum(action.verb is verb for part in self.done for action in part.actions)


def carry_out(
    connection: Connection,
    plan: Plan,
    *,
    force: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    tell: Tell | None = None,
) -> Outcome:
    """Carry out a plan.

    What jobs share goes first; if that fails, no job is begun. Jobs are independent of one another,
    so one that fails leaves the others; if the server is gone, no further one is begun.

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
    outcome = Outcome()

    def run(part: Part) -> str | None:
        if gone.is_set() or stopped():
            return ""
        try:
            _carry_out(connection, part, force)
        except _PartError as error:
            if error.passing:
                gone.set()
            return str(error)
        return None

    for parts in _in_order(plan):
        if outcome.failed:
            outcome.untried += parts
            continue
        try:
            results = each(run, parts, tell)
        except BaseException:
            gone.set()
            raise
        _note(outcome, parts, results)
    return outcome


def _in_order(plan: Plan) -> tuple[list[Part], list[Part]]:
    """Return what jobs share and the jobs; the jobs first where what they share is deleted."""
    shared = [part for part in plan.parts if part.job is None]
    jobs = [part for part in plan.parts if part.job is not None]
    deleting = all(action.verb is Verb.DELETE for part in shared for action in part.actions)
    return (jobs, shared) if deleting else (shared, jobs)


def _note(outcome: Outcome, parts: list[Part], results: list[str | None]) -> None:
    for part, result in zip(parts, results, strict=True):
        if result is None:
            outcome.done.append(part)
        elif result:
            outcome.failed.append((part, result))
        else:
            outcome.untried.append(part)


class _PartError(ClusterError):
    """A part failed; the text says why and what became of it."""


def _carry_out(connection: Connection, part: Part, force: bool) -> None:
    answered: list[Action] = []
    for action in part.actions:
        try:
            _act(connection, action, force)
            answered.append(action)
        except ClusterError as error:
            # Without a clear answer it may have been done nevertheless.
            doubtful = action if error.passing else None
            raise _PartError(
                f"{part}: {error}; {_take_back(connection, answered, doubtful)}",
                passing=error.passing,
            ) from None


def _act(connection: Connection, action: Action, force: bool) -> None:
    if action.manifest is None:
        connection.delete(action.kind, action.name, action.namespace)
    else:
        connection.apply(action.kind, action.manifest, force=force)


def _take_back(connection: Connection, answered: list[Action], doubtful: Action | None) -> str:
    """Undo actions, the last first; return what that came to."""
    left = len(answered) + (doubtful is not None)
    if not left:
        return "nothing of it is applied"
    try:
        if doubtful is not None and (doubtful.live is not None or _is_there(connection, doubtful)):
            _undo(connection, doubtful)
        for action in reversed(answered):
            _undo(connection, action)
    except ClusterError:
        return "what was applied of it could not be taken back: the next run completes it"
    return "what was applied of it is taken back"


def _is_there(connection: Connection, action: Action) -> bool:
    """Return whether an object that was to be created is there, and by us."""
    found = connection.list(action.kind, action.namespace, name=action.name)
    return any(managed(item) for item in found)


def _undo(connection: Connection, action: Action) -> None:
    if action.live is None:
        connection.delete(action.kind, action.name, action.namespace)
        return
    result = connection.apply(action.kind, former(action.live, action.manifest), force=True)
    # The values are back; so that their managers are too, these are written as they were.
    if managers(result) != managers(action.live):
        entries = former_managers(action.live)
        patch = {"metadata": {"managedFields": entries}}
        connection.merge(action.kind, action.name, action.namespace, patch)
