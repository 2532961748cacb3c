"""``metronome monitor``: compare the claims of a cluster with measurements of gates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import MetronomeError, first_few, pluralise

if TYPE_CHECKING:
    from metronome_opt.kubernetes.state.monitor import Monitor, SlotDecision, SlotReview
    from metronome_opt.kubernetes.state.state import ClusterState

_MAX_INTERVAL_S = 86_400.0
_MAX_NAMED = 10


def monitor(
    state: options.State,
    prometheus: Annotated[str, typer.Option(metavar="URL", help="URL of the Prometheus server.")],
    once: Annotated[bool, typer.Option("--once", help="Check once, and end.")] = False,
    interval: Annotated[
        float, typer.Option(min=1, max=_MAX_INTERVAL_S, metavar="S", help="Check every S seconds.")
    ] = 10.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check once and decide, but change nothing.")
    ] = False,
    claims: options.ClaimsFolder = None,
    as_json: options.Json = False,
) -> int:
    """Compare measured traffic with claims and correct them.

    With --once or --dry-run the exit status is 1 if no job was measured.
    """
    from metronome_opt.kubernetes.profiles.prometheus import Prometheus
    from metronome_opt.kubernetes.state.monitor import Monitor, SlotDecision
    from metronome_opt.kubernetes.state.store import read_cluster_state

    options.check_outputs(claims=claims)
    read_cluster_state(state)  # a fault ends the command, and not a check only
    read = Prometheus(prometheus, timeout_s=max(5.0, interval)).read
    if not (once or dry_run):
        watch = _Watch(state, Monitor(read, check_s=interval), claims, as_json=as_json)
        return watch.repeat(interval)
    # There is only one check, so its findings need no confirmation.
    monitored = Monitor(read, check_s=interval, persist=1)
    watch = _Watch(state, monitored, None if dry_run else claims, as_json=as_json)
    decision = watch.check(partial(monitored.review, measured=True), dry_run=dry_run)
    if decision is None:
        watch.report(0, SlotDecision({}, "no job has claims on links"))
        return 1
    return 0 if len(_unmeasured(decision)) < len(decision.observations) else 1


@dataclass
class _Watch:
    """Checks of a state, which others may change while a decision is made."""

    state: Path
    monitor: Monitor
    claims: Path | None
    as_json: bool
    exported: bool = False  # the folder has the claims in force

    def repeat(self, interval_s: float) -> int:
        """Check until interrupted; a failed check is repeated."""
        try:
            while True:
                try:
                    self.check(self.monitor.next)
                except MetronomeError as error:  # another process writes it, say; that passes
                    typer.echo(f"metronome: {error}", err=True)
                time.sleep(interval_s)
        except KeyboardInterrupt:
            return options.INTERRUPTED

    def check(
        self, ask: Callable[[ClusterState], SlotReview | None], *, dry_run: bool = False
    ) -> SlotDecision | None:
        """Review the windows of a state and apply the decision; return it."""
        from metronome_opt.kubernetes.state.store import Store, read_cluster_state

        self._export()
        review = ask(read_cluster_state(self.state))
        if review is None:
            return None
        decision, gangs = self.monitor.decide(review), 0
        if not dry_run:
            with Store(self.state) as store:
                gangs = self.monitor.apply(store.state, review, decision)
        self.exported &= not gangs
        self.report(gangs, decision)
        self._export()
        return decision

    def _export(self) -> None:
        """Write the claims in force if the folder may have others.

        The folder of a process that was killed between a decision and its claims has others.
        """
        if self.claims is None or self.exported:
            return
        from metronome_opt.cli.place import export_state
        from metronome_opt.kubernetes.state.store import read_cluster_state

        state = read_cluster_state(self.state)
        if state.reservations:
            export_state(state, self.claims)
        self.exported = True

    def report(self, gangs: int, decision: SlotDecision) -> None:
        """Print the outcome of a check, and the reasons of missing measurements."""
        unmeasured, fault = _unmeasured(decision), decision.fault
        if self.as_json:
            document = {"rephased": gangs, "reason": decision.reason}
            typer.echo(json.dumps({**document, "unmeasured": unmeasured, "fault": fault}))
            return
        if fault is not None:
            typer.echo(f"metronome: {fault}", err=True)
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        typer.echo(f"{at}  {pluralise(gangs, 'job')} rephased: {decision.reason}")
        for why in dict.fromkeys(unmeasured.values()):
            jobs = [job for job, reason in unmeasured.items() if reason == why]
            typer.echo(f"  not measured: {first_few(jobs, _MAX_NAMED)}: {why}")


def _unmeasured(decision: SlotDecision) -> dict[str, str]:
    return {job: reason for job, reason in decision.observations.items() if isinstance(reason, str)}
