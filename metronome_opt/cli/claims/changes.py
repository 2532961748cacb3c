"""Changing a cluster: what is tried and done is printed, and Ctrl-C ends it between two jobs."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import typer

from metronome_opt.cli.options import INTERRUPTED, note, print_json
from metronome_opt.cli.progress import live_line
from metronome_opt.kubernetes.cluster import ClusterError, Connection, connect
from metronome_opt.kubernetes.cluster.objects import Desired, capacities_of, claims_of, read_desired
from metronome_opt.kubernetes.cluster.plan import (
    Outcome,
    Part,
    Plan,
    carry_out,
    plan_apply,
    plan_definitions,
    plan_delete,
    try_out,
    wait_served,
)
from metronome_opt.kubernetes.schemas import custom_resource_definitions

__all__ = [
    "Told",
    "connect",
    "define",
    "diff",
    "plan_apply",
    "plan_delete",
    "read_desired",
    "run",
]


@dataclass(frozen=True)
class Told:
    """How a change is told: whether it is only tried, whether for programs."""

    dry_run: bool
    as_json: bool


def define(
    connection: Connection, desired: Desired, told: Told, force: bool, timeout: float
) -> bool:
    """Apply the definitions, ours if there are none; return whether the cluster has them all."""
    wanted = desired.definitions or custom_resource_definitions(desired.group)
    plan = plan_definitions(connection, wanted)
    tried = try_out(connection, plan, force=force)
    if tried.refusals:
        raise tried.refusals[0]
    for part in () if told.as_json else tried.parts:
        typer.echo(f"definitions: {_counted([part], told.dry_run)}")
    if told.dry_run:
        return all(action.live is not None for part in plan.parts for action in part.actions)
    outcome = carry_out(connection, tried, force=force)
    if outcome.failed:
        raise ClusterError(outcome.failed[0][1])
    wait_served(connection, [claims_of(desired.group), capacities_of(desired.group)], timeout)
    return True


def diff(
    connection: Connection, desired: Desired, *, as_json: bool, prune: bool, force: bool
) -> int:
    """Print what applying would do; return 1 if that is anything."""
    plan = plan_apply(connection, desired, prune=prune)
    with live_line("objects tried", _describe) as tell:
        plan = try_out(connection, plan, force=force, tell=tell)
    changes = [(action, action.differences()) for part in plan.parts for action in part.actions]
    if as_json:
        names = ("path", "before", "after")
        rows = [
            {
                "action": action.verb,
                "kind": action.kind.kind,
                "namespace": action.namespace,
                "name": action.name,
                "fields": [dict(zip(names, one, strict=True)) for one in fields],
            }
            for action, fields in changes
        ]
        refused = [str(refusal) for refusal in plan.refusals]
        print_json({"changes": rows, "refused": refused})
    else:
        for action, fields in changes:
            typer.echo(str(action))
            for path, before, after in fields:
                typer.echo(f"  {path}: {_brief(before)} -> {_brief(after)}")
    for refusal in plan.refusals:
        typer.echo(f"metronome: error: {refusal}", err=True)
    _note_left_out(plan)
    if not as_json and not changes and not plan.refusals:
        typer.echo("nothing to do")
    return 1 if changes or plan.refusals else 0


def run(connection: Connection, plan: Plan, told: Told, done: str, *, force: bool = False) -> int:
    """Try a plan out and carry it out if nothing is refused; return the exit status."""
    with live_line("objects tried", _describe) as tell:
        plan = try_out(connection, plan, force=force, tell=tell)
    if plan.refusals:
        lines = [str(refusal) for refusal in plan.refusals]
        if told.as_json:
            print_json({"refused": lines})
        for line in lines:
            typer.echo(f"metronome: error: {line}", err=True)
        typer.echo("nothing is applied", err=True)
        return 1
    interrupted = False
    outcome = Outcome(untried=list(plan.parts))
    if not told.dry_run:
        with _finishing(connection) as stopped, live_line(f"jobs {done}", _describe) as tell:
            outcome = carry_out(connection, plan, force=force, stopped=stopped, tell=tell)
            interrupted = stopped()
    if told.as_json:
        print_json({"dry_run": told.dry_run, **_rows(outcome, plan)})
    _note_left_out(plan)
    if told.dry_run:
        for part in () if told.as_json else plan.parts:
            typer.echo(f"{part}: {_counted([part], would=True)}")
        return 0
    return _tell(outcome, plan, interrupted, told)


@contextmanager
def _finishing(connection: Connection) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end a run between two jobs: yield what says that it was pressed.

    Pressed a second time it interrupts at once.
    """
    pressed = False

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        connection.stop_waiting()
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread: whoever called us handles signals
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _tell(outcome: Outcome, plan: Plan, interrupted: bool, told: Told) -> int:
    """Print what became of a plan, only errors if programs read it; return the exit status."""
    if not told.as_json:
        for part in outcome.done:
            typer.echo(f"{part}: {_counted([part])}")
        number = plan.unchanged
        so = f"{number} object{' is' if number == 1 else 's are'} so already" if number else ""
        if plan.parts:
            did = f"in all {_counted(outcome.done) or 'nothing changed'}"
            typer.echo(f"{did}; {so}" if so else did)
        else:
            typer.echo(f"nothing to do: {so}" if so else "nothing to do")
    for _, line in outcome.failed:
        typer.echo(f"metronome: error: {line}", err=True)
    if outcome.untried:
        why = "interrupted: " if interrupted else ""
        typer.echo(
            f"metronome: error: {why}{len(outcome.done)} of {len(plan.parts)} parts are done, "
            f"{len(outcome.untried)} were not begun; the next run completes them",
            err=True,
        )
    if interrupted and outcome.untried:
        return INTERRUPTED
    return 1 if outcome.failed or outcome.untried else 0


def _note_left_out(plan: Plan) -> None:
    if plan.left_out:
        kinds = " and ".join(sorted(kind.kind for kind in plan.left_out))
        note(
            f"the cluster does not know {kinds}, so {sum(plan.left_out.values())} objects are "
            "left out; the network-aware scheduler plugins define them"
        )


def _rows(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Return what became of a plan for programs."""
    errors = {part.job: line for part, line in outcome.failed}
    states = {part.job: "done" for part in outcome.done} | dict.fromkeys(errors, "failed")
    return {
        **_counts(outcome.done),
        "unchanged": plan.unchanged,
        "left_out": {kind.resource: number for kind, number in plan.left_out.items()},
        "parts": [
            {
                "namespace": part.job.namespace if part.job else None,
                "job": part.job.name if part.job else None,
                "state": states.get(part.job, "not begun"),
                **_counts([part]),
                "error": errors.get(part.job),
            }
            for part in plan.parts
        ],
    }


def _counts(parts: Sequence[Part]) -> dict[str, int]:
    verbs = [action.verb for part in parts for action in part.actions]
    return {f"{verb}d": verbs.count(verb) for verb in ("create", "change", "delete")}


def _counted(parts: Sequence[Part], would: bool = False) -> str:
    verb = "to be " if would else ""
    counts = _counts(parts).items()
    return ", ".join(f"{number} {verb}{what}" for what, number in counts if number)


def _describe(done: int, of: int) -> str:
    return f"{done} of {of}"


def _brief(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
