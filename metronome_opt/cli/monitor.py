"""``metronome monitor``: hold a cluster's claims against what its Prometheus measures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.documents import check_targets, write_text
from metronome_opt.errors import InputError, MetronomeError

if TYPE_CHECKING:
    from metronome_opt.control.metrics import Metrics
    from metronome_opt.control.watch import Check

    _Look = Callable[[float], Check]

_LONGEST_PAUSE_S = 600.0
_DAY_S = 86_400.0
_LATEST_S = 1e11  # later years have five digits


def monitor(
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The state of the cluster; see place.")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Where throughput is measured.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            metavar="PROMQL",
            help="Counter of the bytes that a task sends; $pod, $job, $task, $node and $interface "
            "stand for its names.",
            show_default='container_network_transmit_bytes_total{pod="$pod"}',
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Check once, and end.")] = False,
    interval: Annotated[
        float | None, typer.Option(min=1, max=_DAY_S, metavar="S", help="Check every S seconds.")
    ] = None,
    window: Annotated[
        float, typer.Option(min=1, metavar="S", help="How far to look back, in seconds.")
    ] = 120.0,
    gone: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="A job that sends nothing for so long is gone."),
    ] = 60.0,
    at: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=_LATEST_S,
            metavar="T",
            help="Check as if it were T, in seconds since the epoch.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds for each answer.")
    ] = 30.0,
    attempts: Annotated[int, typer.Option(min=1, help="How often to ask for an answer.")] = 4,
    price: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="P",
            help="Of moves: 1 over the iterations in which one has to pay.",
        ),
    ] = 0.02,
    gain: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="G",
            help="What a plan has to gain beyond that, as a share of the weighted traffic.",
        ),
    ] = 0.01,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide, but keep nothing.")] = False,
    claims: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the claims in force here, as manifests."),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the monitor's own metrics here (.prom)."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Answer scrapes of the monitor's own metrics here."),
    ] = None,
    dashboard: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a Grafana dashboard of these metrics (JSON)."),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Compare what jobs do with what they claim; decide who is to wait, once, and for how long.

    A check without an answer that can be used changes nothing: it is told in one line, and with
    --interval the next one comes later. Who was not measured is told with the reason; with --once
    the exit status is 1 if that is everybody.
    """
    from metronome_opt.scheduling.store import Store

    check_targets([], [dashboard, metrics])
    if dashboard is not None and state is None and prometheus is None:
        _write_dashboard(dashboard)
        return 0
    if state is None or prometheus is None:
        raise InputError(f"--{'state' if state is None else 'prometheus'}: missing")
    if once and interval is not None:
        raise InputError("--once, --interval: give one of them, not both")
    if not once and interval is None:
        raise InputError("--once, --interval: give one of them")
    if at is not None and not once:
        raise InputError("--at: is for --once")
    if claims is not None:
        from metronome_opt.kubernetes import check_folder

        check_folder(claims)
    Store.check(state)  # rather than at each check, for ever
    if dashboard is not None:
        _write_dashboard(dashboard)
    with _metrics(metrics, listen) as told:
        from metronome_opt.control.monitor import Settings
        from metronome_opt.control.watch import DEFAULT_SELECTOR, Selector, check
        from metronome_opt.profiles.prometheus import Prometheus
        from metronome_opt.slowdown.rephase import least_slowdown

        look = partial(
            check,
            state,
            Prometheus(prometheus, timeout_s=timeout, attempts=attempts).raw,
            Selector(DEFAULT_SELECTOR if selector is None else selector),
            window_s=window,
            gone_s=gone,
            settings=Settings(price=Fraction(str(price)), minimum_gain=Fraction(str(gain))),
            choose=least_slowdown,
            metrics=told,
            dry_run=dry_run,
        )
        show = _Show(state, claims, as_json=as_json, dry_run=dry_run)
        if interval is None:
            found = _check(look, show, told, metrics, time.time() if at is None else at)
            return 1 if found is None or found.is_blind else 0
        return _repeat(look, show, told, metrics, interval)


def _write_dashboard(file: Path) -> None:
    from metronome_opt.control.metrics import dashboard_json

    write_text(file, dashboard_json())
    options.wrote(file)


@contextmanager
def _metrics(file: Path | None, listen: str | None) -> Iterator[Metrics | None]:
    """Yield the metrics if anybody is to see them; counters go on from what the file has."""
    if file is None and listen is None:
        yield None
        return
    from metronome_opt.control.metrics import Metrics

    told = Metrics()
    if file is not None:
        told.resume(file)
        told.write(file)  # a file that cannot be written is found before anything is decided
        options.wrote(file)
    if listen is None:
        yield told
        return
    with told.serve(listen) as address:
        typer.echo(f"metrics at {address}", err=True)
        yield told


def _repeat(
    look: _Look, show: _Show, told: Metrics | None, file: Path | None, interval: float
) -> int:
    """Check until interrupted; after failures the pause doubles, up to ten minutes."""
    pause = interval
    try:
        while True:
            begin = time.monotonic()
            try:
                failed = _check(look, show, told, file, time.time()) is None
            except MetronomeError as error:
                failed = True  # somebody else has the folder, say; that passes
                typer.echo(f"metronome: {error}", err=True)
            pause = min(2 * pause, max(interval, _LONGEST_PAUSE_S)) if failed else interval
            time.sleep(max(0.0, begin + pause - time.monotonic()))
    except KeyboardInterrupt:
        return options.INTERRUPTED


def _check(
    look: _Look, show: _Show, told: Metrics | None, file: Path | None, now_s: float
) -> Check | None:
    """Check once and tell what it came to; return None if there was no answer."""
    from metronome_opt.profiles.prometheus import PrometheusError

    try:
        show.write_claims()
        check = look(now_s)
    except PrometheusError as error:
        if told is not None:
            told.failed()
        typer.echo(f"metronome: {error}", err=True)
        return None
    finally:
        if told is not None and file is not None:
            told.write(file)
    show(check)
    return check


# ------------------------------------------------------------------ what a check came to

_MOST_NAMED = 10
_OF_FINDING = ("name", "what", "claimed", "measured")
_OF_CONTENTION = ("claimed", "measured", "planned")


class _Show:
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
            {"kind": str(each.kind), **{name: getattr(each, name) for name in _OF_FINDING}}
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
        else {name: str(getattr(contention, name)) for name in _OF_CONTENTION},
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
    # Who was not measured, and why: a line for each reason.
    by_reason: dict[str, list[str]] = {}
    for job, reason in check.unmeasured.items():
        by_reason.setdefault(reason, []).append(job)
    for reason, jobs in by_reason.items():
        named = ", ".join(jobs[:_MOST_NAMED])
        if len(jobs) > _MOST_NAMED:
            named += f" and {len(jobs) - _MOST_NAMED} more"
        typer.echo(f"  not measured: {named}: {reason}")
