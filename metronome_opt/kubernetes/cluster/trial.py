"""Having the server try out a plan: a dry run of every action, before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from metronome_opt.kubernetes.cluster.connect import Connection
from metronome_opt.kubernetes.cluster.desired import Desired
from metronome_opt.kubernetes.cluster.failure import RefusedError
from metronome_opt.kubernetes.cluster.fields import Change, differences, managers
from metronome_opt.kubernetes.cluster.plan import Action, Plan, Verb, plan_apply
from metronome_opt.kubernetes.cluster.several import Tell, each
from metronome_opt.kubernetes.cluster.survey import survey
from metronome_opt.kubernetes.crd import CAPACITY


@dataclass(frozen=True)
class Trial:
    """What a dry run came to.

    Attributes
    ----------
    plan
        The plan without actions that would change nothing.
    changes
        For each action of it in turn, the fields that it would change; none for an object that is
        created or deleted as a whole.
    refusals
        What the server said against single objects, conflicts over fields among it.
    """

    plan: Plan
    changes: tuple[tuple[Action, tuple[Change, ...]], ...]
    refusals: tuple[RefusedError, ...]


def prepare(
    connection: Connection,
    desired: Desired,
    *,
    prune: bool = False,
    force: bool = False,
    tell: Tell | None = None,
) -> Trial:
    """Plan to make a cluster hold what is desired, and try that out; see `plan_apply`, `try_out`.

    Raises
    ------
    ClusterError
        If the server cannot be asked, lacks the definitions or refuses the user.
    """
    found = survey(
        connection,
        desired.group,
        desired.namespaces,
        capacities=any(item["kind"] == CAPACITY for item in desired.shared),
    )
    plan = plan_apply(desired, found.live, unknown=found.unknown, prune=prune)
    return try_out(connection, plan, force=force, tell=tell)


def try_out(connection: Connection, plan: Plan, *, force: bool, tell: Tell | None = None) -> Trial:
    """Try a plan out; nothing is changed.

    Parameters
    ----------
    connection
        Where.
    plan
        What to try.
    force
        Take fields away from other managers.
    tell
        Called with how many actions of how many have been tried.

    Raises
    ------
    ForbiddenError
        If the user lacks a right.
    ClusterError
        If the server cannot be asked.
    """

    def attempt(action: Action) -> tuple[Change, ...] | RefusedError | None:
        try:
            return _attempt(connection, action, force)
        except RefusedError as refusal:
            return refusal

    actions = [action for part in plan.parts for action in part.actions]
    answers = each(attempt, actions, tell)
    outcomes = dict(zip(map(id, actions), answers, strict=True))
    parts = []
    for part in plan.parts:
        kept = tuple(action for action in part.actions if outcomes[id(action)] is not None)
        if kept:
            parts.append(replace(part, actions=kept))
    return Trial(
        plan=replace(
            plan,
            parts=tuple(parts),
            unchanged=plan.unchanged + sum(answer is None for answer in answers),
        ),
        changes=tuple(
            (action, answer)
            for action, answer in zip(actions, answers, strict=True)
            if isinstance(answer, tuple)
        ),
        refusals=tuple(answer for answer in answers if isinstance(answer, RefusedError)),
    )


def _attempt(connection: Connection, action: Action, force: bool) -> tuple[Change, ...] | None:
    """Return what an action would change; None if it would change nothing."""
    if action.manifest is None:
        connection.delete(action.kind, action.name, action.namespace, dry_run=True)
        return ()
    result = connection.apply(action.kind, action.manifest, force=force, dry_run=True)
    if action.verb is Verb.CREATE or action.live is None:
        return ()
    changes = differences(action.live, result)
    if changes or managers(action.live) == managers(result):
        return changes or None
    return (Change("metadata.managedFields", None, "metronome-opt"),)
