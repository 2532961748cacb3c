"""A check of a cluster whose state is kept in a folder: read, compare, decide, keep."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.control.decide import Settings, Verdict
from metronome_opt.control.declared import (
    CONTENTION,
    CUSHION,
    DECISIONS,
    DRIFT,
    DURATION,
    ERRORS,
    FINDINGS,
    JOBS,
    LAST_CHECK,
    PERIOD,
    REPHASINGS,
    SCORE,
)
from metronome_opt.control.inforce import carry_out, claims_of
from metronome_opt.control.memory import Memory
from metronome_opt.control.monitor import Decision, Monitor
from metronome_opt.control.observation import Observation, signed
from metronome_opt.control.reading import Read, Seen, Selector, observe
from metronome_opt.documents import write_text
from metronome_opt.records import read_as
from metronome_opt.scheduling.store import Store
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.control.claims import Claims
    from metronome_opt.control.metrics import Metrics
    from metronome_opt.scheduling.state import ClusterState

MEMORY_FILE = "monitor.json"
WINDOW_S = 120.0
GONE_S = 60.0


@dataclass(frozen=True)
class Check:
    """What one check came to.

    Attributes
    ----------
    at_s
        When, seconds since the epoch.
    jobs
        How many have claims on links.
    observations
        By job, of those that were measured.
    unmeasured
        Why the others were not, by job.
    decision
        None if there was nobody to look at.
    kept
        Whether the state is another one than before.
    """

    at_s: float
    jobs: int
    observations: Mapping[str, Observation]
    unmeasured: Mapping[str, str]
    decision: Decision | None
    kept: bool

    @property
    def is_blind(self) -> bool:
        """Whether there are jobs, of which none was measured."""
        return self.jobs > 0 and not self.observations


class Watch:
    """Checks a cluster again and again.

    Nothing is written before all that a decision needs has been read; a check that fails leaves
    the state as it was. Between two checks the folder is free for others.

    Parameters
    ----------
    folder
        That of a `Store`; what the monitor remembers is kept there too.
    read, selector
        Where samples come from.
    window_s
        How far back to look.
    gone_s
        For how long a job has to send nothing, ten periods at least, to be taken for gone.
    settings
        How to decide.
    metrics
        Told of every check; None to tell nobody.
    dry_run
        Decide, but keep nothing, and count nothing as decided.
    """

    def __init__(
        self,
        folder: str | Path,
        read: Read,
        selector: Selector,
        *,
        window_s: float = WINDOW_S,
        gone_s: float = GONE_S,
        settings: Settings | None = None,
        metrics: Metrics | None = None,
        dry_run: bool = False,
    ) -> None:
        self._folder, self._read, self._selector = Path(folder), read, selector
        self._window_s, self._gone_s, self._dry_run = window_s, gone_s, dry_run
        self._settings, self._metrics = settings or Settings(), metrics

    def check(self, now_s: float) -> Check:
        """Look at the last minutes before a moment, seconds since the epoch, and decide.

        Raises
        ------
        InputError
            If the folder holds no state, or is in use before or after Prometheus is asked.
        PrometheusError
            If Prometheus gave no answer that can be used; everything is as before.
        """
        begin = time.monotonic()
        with Store(self._folder) as store:
            state, claims = store.state, claims_of(store.state)
        memory = self._remembered()
        # While Prometheus is asked, others may have the folder.
        seen = Seen({}, {}) if claims is None else self._observe(state, claims, memory, now_s)
        with Store(self._folder) as store:
            if store.state.sequence != state.sequence:
                claims = claims_of(store.state)
                seen = seen.only(
                    {
                        job
                        for job, claim in store.state.claims.items()
                        if claim == state.claims.get(job)
                    }
                )
            check = self._decide(store, claims, seen, memory, now_s)
        if self._metrics is not None:
            _tell(self._metrics, claims, check, time.monotonic() - begin)
            if not self._dry_run:
                _count(self._metrics, claims, check)
        return check

    def failed(self) -> None:
        """Count a check that was left out because there was no answer to be used."""
        if self._metrics is not None:
            self._metrics.add(ERRORS.name)

    def _remembered(self) -> Memory:
        path = self._folder / MEMORY_FILE
        return read_as(path, Memory.from_dict) if path.exists() else Memory()

    def _observe(self, state: ClusterState, claims: Claims, memory: Memory, now_s: float) -> Seen:
        return observe(
            state,
            claims,
            self._selector,
            self._read,
            now_s=now_s,
            for_s=self._window_s,
            moved_s={job: moved.at_ms / 1000 for job, moved in memory.moved.items()},
            gone_s=self._gone_s,
        )

    def _decide(
        self, store: Store, claims: Claims | None, seen: Seen, memory: Memory, now_s: float
    ) -> Check:
        if claims is None:
            return Check(now_s, 0, {}, {}, None, kept=False)
        monitor = Monitor(self._settings, memory)
        decision = monitor.check(claims, seen.observations, 1000 * now_s)
        kept = False
        if not self._dry_run:
            kept = carry_out(store.state, decision)
            text = json.dumps(monitor.memory.to_dict(), indent=2) + "\n"
            write_text(self._folder / MEMORY_FILE, text)
        jobs = len(claims.offsets)
        return Check(now_s, jobs, seen.observations, seen.unmeasured, decision, kept)


def _tell(metrics: Metrics, claims: Claims | None, check: Check, took_s: float) -> None:
    """Set the metrics by what a check came to."""
    decision, seen = check.decision, check.observations
    gone = sum(each.gone for each in seen.values())
    for state, count in (
        ("measured", len(seen) - gone),
        ("unmeasured", check.jobs - len(seen)),
        ("gone", gone),
    ):
        metrics.set(JOBS.name, count, state=state)
    metrics.set(DURATION.name, took_s)
    metrics.set(LAST_CHECK.name, check.at_s)
    if claims is None or decision is None:
        return
    slot_s = claims.instance.slot_ms / 1000
    metrics.replace(DRIFT.name, _drifts_s(claims, seen))
    metrics.replace(
        CUSHION.name, {job: slot_s * claims.cushions.get(job, 0) for job in claims.offsets}
    )
    metrics.replace(
        PERIOD.name,
        {job: each.period_ms / 1000 for job, each in seen.items() if each.period_ms is not None},
    )
    for kind, count in Counter(finding.kind for finding in decision.findings).items():
        metrics.add(FINDINGS.name, count, kind=kind)
    _tell_of_links(metrics, claims, decision)


def _count(metrics: Metrics, claims: Claims | None, check: Check) -> None:
    """Count what was decided and kept: a dry run tells nobody to wait."""
    decision = check.decision
    metrics.add(DECISIONS.name, decision=decision.kind if decision else Verdict.NOTHING)
    if claims is None or decision is None:
        return
    steps = Counter(step.job for step in decision.plan.steps) if decision.plan else Counter()
    for job in claims.instance.jobs:
        metrics.add(
            REPHASINGS.name, steps[job.name], training_job=job.name, priority=str(job.weight)
        )


def _tell_of_links(metrics: Metrics, claims: Claims, decision: Decision) -> None:
    measured = decision.claims or claims
    evaluation = evaluate(measured.instance, measured.offsets, measured.stretch)
    metrics.replace(
        SCORE.name, {link.name: float(link.score) for link in evaluation.links if link.jobs > 1}
    )
    if decision.contention is not None:
        for state in ("claimed", "measured", "planned"):
            value = float(getattr(decision.contention, state))
            metrics.set(CONTENTION.name, value * _BYTES_PER_MBIT, state=state)


_BYTES_PER_MBIT = 125_000


def _drifts_s(claims: Claims, seen: Mapping[str, Observation]) -> dict[str, float]:
    """Return how far each job is off its slot, in seconds; above 0 is late."""
    slot_ms = claims.instance.slot_ms
    drifts = {}
    for job, each in seen.items():
        if each.origin_ms is not None:
            due_ms = claims.epoch_ms + claims.offsets[job] * slot_ms
            drifts[job] = signed(each.origin_ms - due_ms, claims.period(job) * slot_ms) / 1000
    return drifts
