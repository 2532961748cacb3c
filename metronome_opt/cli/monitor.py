"""``metronome monitor``: compare the claims of a cluster with measurements of gates."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.errors import MetronomeError, counted

if TYPE_CHECKING:
    from metronome_opt.cluster.monitor import Answer, Monitor, Rephased

_MAX_INTERVAL_S = 86_400.0
_MAX_NAMED = 10


def monitor(
    state: options.State,
    prometheus: Annotated[str, typer.Option(metavar="URL", help="Where gates are scraped.")],
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
    from metronome_opt.cluster.monitor import Monitor
    from metronome_opt.cluster.prometheus import Prometheus
    from metronome_opt.cluster.store import Store

    if claims is not None:
        from metronome_opt.kubernetes import check_folder

        check_folder(claims)
    Store.check(state)  # rather than at each check
    watch = _Watch(state, claims, as_json=as_json)
    read = Prometheus(prometheus, timeout_s=max(5.0, interval)).read
    if once or dry_run:
        # There is one check only, so its findings are believed.
        return watch.once(Monitor(read, check_s=interval, persist=1), dry_run=dry_run)
    return watch.repeat(Monitor(read, check_s=interval), interval)


@dataclass
class _Watch:
    """Checks of a state folder, which is free for others while a decision is made."""

    state: Path
    claims: Path | None
    as_json: bool
    exported: bool = False  # the folder has the claims in force

    def once(self, monitor: Monitor, *, dry_run: bool) -> int:
        """Check once; return the exit status."""
        from metronome_opt.cluster.store import Store

        with Store(self.state) as store:
            question = monitor.ask(store.state, measured=True)
        if question is None:
            self._print("no job has claims on links", 0, {})
            return 1
        answer = monitor.answer(question)
        if dry_run:
            self._print(answer.reason, 0, _unmeasured(answer), answer.fault)
        else:
            with Store(self.state) as store:
                done = monitor.apply(store.state, question, answer)
            self._report(done, answer)
            self._export()
        return 0 if answer.fault is None and _is_measured(answer) else 1

    def repeat(self, monitor: Monitor, interval_s: float) -> int:
        """Check until interrupted; what fails is tried again."""
        try:
            while True:
                try:
                    self._check(monitor)
                except MetronomeError as error:  # another process has the folder, say; that passes
                    typer.echo(f"metronome: {error}", err=True)
                time.sleep(interval_s)
        except KeyboardInterrupt:
            return options.INTERRUPTED

    def _check(self, monitor: Monitor) -> None:
        from metronome_opt.cluster.monitor import Question
        from metronome_opt.cluster.store import Store

        self._export()
        with Store(self.state) as store:
            following = monitor.next(store.state)
        if isinstance(following, Question):
            answer = monitor.answer(following)
            with Store(self.state) as store:
                self._report(monitor.apply(store.state, following, answer), answer)
        elif following is not None:
            self._report(following, None)
        self._export()

    def _export(self) -> None:
        """Write the claims in force if the folder may have others.

        At the beginning it may: of a process that was killed between a decision and its claims.
        """
        if self.claims is None or self.exported:
            return
        from metronome_opt.cli.place import export_state
        from metronome_opt.cluster.store import Store

        with Store(self.state) as store:
            if store.state.claims:
                export_state(store.state, self.claims)
        self.exported = True

    def _report(self, done: Rephased, answer: Answer | None) -> None:
        self.exported &= not done.gangs
        unmeasured = {} if answer is None else _unmeasured(answer)
        self._print(done.line, done.gangs, unmeasured, done.fault)

    def _print(
        self, reason: str, gangs: int, unmeasured: dict[str, str], fault: str | None = None
    ) -> None:
        """Print the outcome of a check: a line, and a line for each reason not to measure a job."""
        if self.as_json:
            document: dict[str, Any] = {"rephased": gangs, "reason": reason}
            typer.echo(json.dumps({**document, "unmeasured": unmeasured, "fault": fault}))
            return
        if fault is not None:
            typer.echo(f"metronome: {fault}", err=True)
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        typer.echo(f"{at}  {counted(gangs, 'job')} rephased: {reason}")
        by_reason: dict[str, list[str]] = {}
        for job, why in unmeasured.items():
            by_reason.setdefault(why, []).append(job)
        for why, jobs in by_reason.items():
            named = ", ".join(jobs[:_MAX_NAMED])
            if len(jobs) > _MAX_NAMED:
                named += f" and {len(jobs) - _MAX_NAMED} more"
            typer.echo(f"  not measured: {named}: {why}")


def _unmeasured(answer: Answer) -> dict[str, str]:
    return {job: each for job, each in answer.observations.items() if isinstance(each, str)}


def _is_measured(answer: Answer) -> bool:
    return any(not isinstance(each, str) for each in answer.observations.values())
