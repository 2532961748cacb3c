"""A check of a cluster whose state is kept in a folder: read, compare, decide, keep.

Offsets count from the Unix epoch: all clocks of a cluster agree on it, within their error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.control.claims import Claims
from metronome_opt.control.decide import Memory, Settings
from metronome_opt.control.detect import Kind
from metronome_opt.control.monitor import Decision, Monitor
from metronome_opt.control.observation import Observation
from metronome_opt.control.reading import Read, Selector, observe
from metronome_opt.documents import write_text
from metronome_opt.instance import Instance
from metronome_opt.records import read_as
from metronome_opt.scheduling.gang import Claim, Gang
from metronome_opt.scheduling.store import Store
from metronome_opt.scheduling.views import instance_of
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.control.metrics import Metrics
    from metronome_opt.scheduling.state import ClusterState

MEMORY_FILE = "monitor.json"


@dataclass(frozen=True)
class Check:
    """What one check came to."""

    at_s: float  # seconds since the epoch
    jobs: int  # that have claims on links
    observations: Mapping[str, Observation]  # by job, of those that were measured
    unmeasured: Mapping[str, str]  # why the others were not, by job
    decision: Decision | None  # None if there was nobody to look at
    kept: bool  # whether the state is another one than before

    @property
    def is_blind(self) -> bool:
        """Whether there are jobs, of which none was measured."""
        return self.jobs > 0 and not self.observations


def check(
    folder: Path,
    read: Read,
    selector: Selector,
    now_s: float,
    *,
    window_s: float = 120.0,
    gone_s: float = 60.0,
    settings: Settings | None = None,
    metrics: Metrics | None = None,
    dry_run: bool = False,
) -> Check:
    """Look at the last minutes of a cluster before a moment, and decide.

    Nothing is written before all that a decision needs has been read; a check that fails leaves
    the state as it was. While samples are read, the folder is free for others.

    Parameters
    ----------
    folder
        That of a `Store`; what the monitor remembers is kept there too.
    read, selector
        Where samples come from.
    now_s, window_s
        The moment, seconds since the epoch, and how far to look back.
    gone_s
        For how long a job has to send nothing, ten periods at least, to be taken for gone.
    settings
        How to decide.
    metrics
        Told of the check; None to tell nobody.
    dry_run
        Decide, but keep nothing, and count nothing as decided.

    Raises
    ------
    InputError
        If the folder holds no state, or is in use before or after samples are read.
    PrometheusError
        If Prometheus gave no answer that can be used; everything is as before.
    """
    begin = time.monotonic()
    with Store(folder) as store:
        state, claims = store.state, claims_of(store.state)
    path = folder / MEMORY_FILE
    memory = read_as(path, Memory.from_dict) if path.exists() else Memory()
    seen: dict[str, Observation | str] = {}
    if claims is not None:
        moved_s = {job: moved.at_ms / 1000 for job, moved in memory.moved.items()}
        seen = observe(
            state,
            claims,
            selector,
            read,
            now_s=now_s,
            for_s=window_s,
            moved_s=moved_s,
            gone_s=gone_s,
        )
    with Store(folder) as store:
        if store.state.sequence != state.sequence:
            claims, after = claims_of(store.state), store.state.claims
            same = {job for job, claim in after.items() if claim == state.claims.get(job)}
            seen = {job: each for job, each in seen.items() if job in same}
        observations = {job: each for job, each in seen.items() if isinstance(each, Observation)}
        unmeasured = {job: each for job, each in seen.items() if isinstance(each, str)}
        decision, kept = None, False
        if claims is not None:
            monitor = Monitor(settings, memory)
            decision = monitor.check(claims, observations, 1000 * now_s)
            if not dry_run:
                kept = carry_out(store.state, decision)
                write_text(path, json.dumps(monitor.memory.to_dict(), indent=2) + "\n")
    jobs = 0 if claims is None else len(claims.offsets)
    found = Check(now_s, jobs, observations, unmeasured, decision, kept)
    if metrics is not None:
        metrics.tell(claims, found, time.monotonic() - begin, dry_run=dry_run)
    return found


# ------------------------------------------------------------------ active claims


def claims_of(state: ClusterState) -> Claims | None:
    """Return the claims in force of all jobs that use links; None if there are none."""
    jobs = [job for job in state.claims if state.flows(job)]
    if not jobs:
        return None
    instance = instance_of(state, jobs)
    stretch = {job: state.claims[job].stretch for job in jobs}
    return Claims(
        instance,
        stretch=stretch,
        cushions=_cushions(instance, stretch),
        hyperperiod=state.cluster.hyperperiod,
    )


def _cushions(instance: Instance, stretch: Mapping[str, int]) -> dict[str, int]:
    """Return by how many slots each job may be off, early or late, while others are as well.

    Between any two bursts there is the cushion of their link; each of the two may use half of it.
    Where something is late already, there is none.
    """
    offsets = {job.name: job.current_offset or 0 for job in instance.jobs}
    limits = {
        link.name: 0 if link.late else link.cushion
        for link in evaluate(instance, offsets, stretch).links
    }
    cushions = {}
    for job in instance.jobs:
        known = [limit for link in job.links if (limit := limits[link]) is not None]
        cushions[job.name] = min(known, default=job.period) // 2
    return cushions


def carry_out(state: ClusterState, decision: Decision) -> bool:
    """Keep in a state what was decided: jobs that are gone, capacities, claims put right, moves.

    In an exclusive cluster bandwidth is given to a job when it is placed. One that sends faster
    than that keeps the claim that it has.

    Returns
    -------
    bool
        Whether anything is new.
    """
    after, changed = decision.claims, False
    if decision.contention is None and after is not None:
        return changed  # nothing is believed yet
    for finding in decision.findings:
        if finding.kind is Kind.GONE:
            changed |= state.unreserve(finding.name)
    if after is None:
        return changed
    right = {link.name: link.capacity for link in after.instance.links}
    for finding in decision.findings:
        if finding.kind is Kind.CAPACITY and finding.measured is not None:
            measured = round(finding.measured)
            # A finding that is not believed yet left the link as it was; one that carries nothing
            # has 1 Mbit/s in an instance, which is not to become its capacity.
            if right.get(finding.name) == max(1, measured):
                changed |= state.set_capacity(finding.name, measured)
    claims = [_claim(state.claims[name], after) for name in after.offsets]
    changed |= state.revise(
        claim
        for claim in claims
        if state.mode == "shared" or claim.gang.peak <= state.claims[claim.job].gang.peak
    )
    return changed


def _claim(before: Claim, after: Claims) -> Claim:
    """Return the claim of a job as it is to be."""
    job = after.instance.job(before.job)
    stretch = after.stretch.get(job.name, 0)
    changes = {
        "period": job.period,
        "phases": job.phases,
        "max_stretch": max(before.gang.max_stretch, stretch),
    }
    gang = Gang.model_validate(before.gang.model_copy(update=changes).model_dump())
    return Claim(gang=gang, nodes=before.nodes, offset=after.offsets[job.name], stretch=stretch)
