"""What the commands that change a cluster have in common: interruption, and what they print."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from types import FrameType

    from metronome_opt.kubernetes.cluster import Connection
    from metronome_opt.kubernetes.cluster.carryout import Outcome
    from metronome_opt.kubernetes.cluster.kinds import Kind
    from metronome_opt.kubernetes.cluster.plan import Part, Plan

NOTHING = "nothing to do"

_INTERRUPTED = 130


@contextmanager
def finishing(connection: Connection) -> Iterator[Callable[[], bool]]:
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


def counts(parts: list[Part] | tuple[Part, ...]) -> dict[str, int]:
    """Return how many objects of these parts are created, changed, deleted."""
    verbs = [action.verb.value for part in parts for action in part.actions]
    return {f"{verb}d": verbs.count(verb) for verb in ("create", "change", "delete")}


def tell_plan(
    parts: list[Part] | tuple[Part, ...], *, would: bool, title: str | None = None
) -> None:
    """Print a line for each part, with a title of its own or `title`."""
    for part in parts:
        typer.echo(f"{title or part}: {_counted(counts([part]), would=would)}")


def tell_outcome(outcome: Outcome, plan: Plan, *, interrupted: bool, quiet: bool) -> int:
    """Print what became of a plan, errors only if `quiet`; return the exit status."""
    if not quiet:
        tell_plan(outcome.done, would=False)
        typer.echo(_summary(outcome, plan))
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
        return _INTERRUPTED
    return 1 if outcome.failed or outcome.untried else 0


def _summary(outcome: Outcome, plan: Plan) -> str:
    number = plan.unchanged
    so = f"{number} object{' is' if number == 1 else 's are'} so already" if number else ""
    if not plan.parts:
        return f"{NOTHING}: {so}" if so else NOTHING
    done = _counted(counts(outcome.done), would=False) or "nothing changed"
    return f"in all {done}; {so}" if so else f"in all {done}"


def note_passed_over(passed_over: Mapping[Kind, int]) -> None:
    """Say which objects are left out, because the cluster does not know their kinds."""
    if passed_over:
        kinds = " and ".join(sorted(kind.kind for kind in passed_over))
        typer.echo(
            f"note: the cluster does not know {kinds}, so {sum(passed_over.values())} objects are "
            "left out; the network-aware scheduler plugins define them",
            err=True,
        )


def outcome_dict(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Return what became of a plan for programs."""
    errors = {id(part): line for part, line in outcome.failed}
    states = {id(part): "done" for part in outcome.done}
    states |= dict.fromkeys(errors, "failed")
    return {
        **counts(outcome.done),
        "unchanged": plan.unchanged,
        "left_out": {kind.resource: number for kind, number in plan.passed_over.items()},
        "parts": [
            {
                "namespace": part.job.namespace if part.job else None,
                "job": part.job.name if part.job else None,
                "state": states.get(id(part), "not begun"),
                **counts([part]),
                "error": errors.get(id(part)),
            }
            for part in plan.parts
        ],
    }


def _counted(total: Mapping[str, int], *, would: bool) -> str:
    verb = "to be " if would else ""
    return ", ".join(f"{number} {verb}{what}" for what, number in total.items() if number)
