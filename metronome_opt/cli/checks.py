"""What a check of the monitor came to, for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from metronome_opt.control.watch import Check

_MOST_NAMED = 10


class Show:
    """Tells what a check came to, and keeps the claims in a folder up to date."""

    def __init__(self, state: Path, claims: Path | None, *, as_json: bool, dry_run: bool) -> None:
        self._state, self._claims = state, claims
        self._as_json, self._dry_run = as_json, dry_run
        self._is_current = dry_run

    def __call__(self, check: Check) -> None:
        """Tell one check."""
        if self._as_json:
            typer.echo(json.dumps(_document(check)))
        else:
            _tell(check, dry_run=self._dry_run)
        self._is_current &= not check.kept
        self.write_claims()

    def write_claims(self) -> None:
        """Write the claims in force if the folder has others.

        At the beginning it may: of a process that was killed between a decision and its claims.
        """
        if self._claims is None or self._is_current:
            return
        from metronome_opt.cli.place import export_state, is_exported
        from metronome_opt.scheduling.store import Store

        with Store(self._state) as store:
            if not is_exported(store.state, self._claims):
                export_state(store.state, self._claims)
        self._is_current = True


def _document(check: Check) -> dict[str, Any]:
    decision = check.decision
    steps = decision.plan.steps if decision is not None and decision.plan is not None else ()
    contention = decision.contention if decision is not None else None
    return {
        "at_s": check.at_s,
        "jobs": check.jobs,
        "measured": sorted(check.observations),
        "unmeasured": dict(check.unmeasured),
        "decision": str(decision.kind) if decision is not None else "nothing",
        "reason": decision.reason if decision is not None else "no job has claims on links",
        "findings": [
            {
                "kind": str(each.kind),
                "name": each.name,
                "what": each.what,
                "claimed": each.claimed,
                "measured": each.measured,
            }
            for each in (decision.findings if decision is not None else ())
        ],
        "steps": [
            {
                "job": step.job,
                "wait_slots": step.wait,
                "offset_before": step.before,
                "offset_after": step.after,
            }
            for step in steps
        ],
        "contention": None
        if contention is None
        else {
            "claimed": str(contention.claimed),
            "measured": str(contention.measured),
            "planned": str(contention.planned),
        },
        "kept": check.kept,
    }


def _tell(check: Check, *, dry_run: bool) -> None:
    at = datetime.fromtimestamp(check.at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    decision = check.decision
    seen = f"{len(check.observations)} of {check.jobs} jobs measured"
    if decision is None:
        typer.echo(f"{at}  {seen}: no job has claims on links")
        return
    what, kept = str(decision.kind), ""
    if decision.contention is not None:
        what = "nobody is moved" if decision.plan is None else what
        kept = ", not kept" if dry_run else ""
    typer.echo(f"{at}  {seen}: {what}{kept}; {decision.reason}")
    if decision.plan is not None:
        for number, step in enumerate(decision.plan.steps, start=1):
            slot_ms = decision.plan.claims_before.instance.slot_ms
            typer.echo(f"  {number}. {step.job} waits {step.wait * slot_ms} ms, once")
    _tell_unmeasured(check)


def _tell_unmeasured(check: Check) -> None:
    """Tell who was not measured, and why: a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for job, reason in check.unmeasured.items():
        by_reason.setdefault(reason, []).append(job)
    for reason, jobs in by_reason.items():
        named = ", ".join(jobs[:_MOST_NAMED])
        if len(jobs) > _MOST_NAMED:
            named += f" and {len(jobs) - _MOST_NAMED} more"
        typer.echo(f"  not measured: {named}: {reason}")
