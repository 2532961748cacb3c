"""A check of a cluster whose state is kept in a folder: read, compare, decide, keep.

Offsets count from the Unix epoch: all clocks of a cluster agree on it, within their error.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Kind
from metronome_opt.control.monitor import (
    Choose,
    Decision,
    Memory,
    Monitor,
    Settings,
    least_contention,
)
from metronome_opt.control.observation import Observation, from_profile
from metronome_opt.documents import write_text
from metronome_opt.errors import InputError, quote
from metronome_opt.profiles import Samples, profile
from metronome_opt.records import read_as
from metronome_opt.scheduling.gang import Claim, Gang
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store
from metronome_opt.scheduling.views import instance_of
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.control.metrics import Metrics
    from metronome_opt.scheduling.state import ClusterState


_FIELDS = ("job", "task", "pod", "node", "interface")
DEFAULT_SELECTOR = 'container_network_transmit_bytes_total{pod="$pod"}'
_TASKS = 3  # of a job that are asked for, until one has samples
_GONE_PERIODS = 10  # without a byte
_WAITING_PERIODS = 2  # until a job that was told to wait has done so

Read = Callable[[str, float, float], Mapping[Any, Samples]]
"""Samples of counters of bytes, by series: a selector, and the time from and to, in seconds."""
MEMORY_FILE = "monitor.json"


class Selector:
    """PromQL for what one task of a job sends, with ``$job``, ``$task`` and so on in it.

    Parameters
    ----------
    text
        May name `_FIELDS`. ``$pod`` is called like the claim of the task, ``JOB-TASK``. Without
        ``$pod`` and ``$task`` it counts what several tasks send: those of the node if it names
        ``$node`` or ``$interface``, else those of the job.

    Raises
    ------
    InputError
        If it names anything else, or nothing that tells jobs apart.
    """

    def __init__(self, text: str) -> None:
        self._template = Template(text)
        if not self._template.is_valid():
            raise InputError(
                f"selector: {quote(text)}: a $ must be followed by a name; write $$ for a $ itself"
            )
        self._named = set(self._template.get_identifiers())
        unknown = sorted(self._named - set(_FIELDS))
        if unknown:
            raise InputError(
                f"selector: ${unknown[0]} is not known; choose from $" + ", $".join(_FIELDS)
            )
        if not self._named:
            raise InputError(f"selector: {quote(text)}: is the same for all jobs; name $pod, say")

    def of_task(self, state: ClusterState, job: str, task: int) -> str:
        """Return the selector of one task."""
        node = state.claims[job].nodes[task]
        interface = state.cluster.hosts[node].rails[0]
        values = zip(_FIELDS, (job, str(task), f"{job}-{task}", node, interface), strict=True)
        return self._template.substitute({key: _quoted(text) for key, text in values})

    def counted(self, state: ClusterState, job: str, task: int) -> int:
        """Return how many tasks that send are counted together with one of them, itself included.

        Raises
        ------
        InputError
            If other jobs are, so that nobody can tell what is whose.
        """
        if self._named & {"pod", "task"}:
            return 1
        nodes = state.claims[job].nodes
        sending = [nodes[each] for each in state.senders(job)]
        if not self._named & {"node", "interface"}:
            return len(sending)
        node = nodes[task]
        interface = state.cluster.hosts[node].rails[0]
        others = [
            other for other in state.claims if other != job and interface in state.flows(other)
        ]
        if others and "job" not in self._named:
            raise InputError(
                f"selector: counts all that {quote(node)} sends, which is used by {quote(job)} and "
                f"{quote(others[0])}; name $pod, or $job and $task"
            )
        return sending.count(node)


def _quoted(text: str) -> str:
    """Return a name as it may stand in a string of PromQL, in quotes of either kind."""
    return re.sub(r"""["'\\]""", lambda found: f"\\x{ord(found[0]):02x}", text)


def observe(
    state: ClusterState,
    claims: Claims,
    selector: Selector,
    read: Read,
    *,
    now_s: float,
    for_s: float,
    moved_s: Mapping[str, float],
    gone_s: float = 60.0,
) -> dict[str, Observation | str]:
    """Return what can be seen of each job, or why nothing can.

    A job's tasks do the same at the same time, so the first one that has samples speaks for all.

    Parameters
    ----------
    now_s, for_s
        The end of the time to look at, seconds since the epoch, and its length.
    moved_s
        When a job was told to wait; what it did until then says nothing any more.
    gone_s
        A job that sent nothing for so long, and for ten periods, is gone. It may be saving its
        state, so this should be longer than that takes: who is gone loses its nodes.
    """
    seen: dict[str, Observation | str] = {}
    for job in claims.running.jobs:
        begin_s = now_s - for_s
        if job.name in moved_s:
            waited_s = _WAITING_PERIODS * job.period * claims.instance.slot_ms / 1000
            begin_s = max(begin_s, moved_s[job.name] + waited_s)
        if begin_s >= now_s:
            seen[job.name] = "waits, as it was told to"
            continue
        samples = _samples(state, job.name, selector, read, begin_s, now_s)
        seen[job.name] = (
            f"no samples in {now_s - begin_s:.6g} s; check selector and window"
            if samples is None
            else _found_out(claims, job.name, samples, gone_s)
        )
    return seen


def _samples(
    state: ClusterState, job: str, selector: Selector, read: Read, begin_s: float, end_s: float
) -> Samples | None:
    """Return the samples of one flow of the first task that sends and has any."""
    for task in state.senders(job)[:_TASKS]:
        counted = selector.counted(state, job, task)
        found = read(selector.of_task(state, job, task), begin_s, end_s)
        if len(found) > 1:
            raise InputError(
                f"selector: matches {len(found)} series for task {task} of {job}; "
                "it has to match one, name the interface as well"
            )
        for samples in found.values():
            if len(samples):
                return replace(samples, rates_mbps=samples.rates_mbps / counted)
    return None


def observation(claims: Claims, name: str, samples: Samples, *, gone_s: float = 0.0) -> Observation:
    """Return what samples of one task say of its job; `gone_s` as in `observe`."""
    found = _found_out(claims, name, samples, gone_s)
    return found if isinstance(found, Observation) else Observation()


def _found_out(claims: Claims, name: str, samples: Samples, gone_s: float) -> Observation | str:
    """Return what samples of one task say of its job, or why they say nothing."""
    slot_ms, job = claims.instance.slot_ms, claims.running.job(name)
    silence_s = max(gone_s, _GONE_PERIODS * job.period * slot_ms / 1000)
    end_s = float(samples.times_s[-1])
    silent = samples.rates_mbps[samples.times_s >= end_s - silence_s] == 0  # NaN is not
    if samples.times_s[0] <= end_s - silence_s and silent.all():
        return Observation(gone=True)
    found = profile(samples)
    if found.reason is not None:
        return found.reason
    due_ms = claims.next_due_ms(name, 1000 * end_s)
    return from_profile(found, job, slot_ms=slot_ms, due_ms=due_ms)


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
    choose: Choose = least_contention,
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
    settings, choose
        How to decide, and by what.
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
            monitor = Monitor(settings, memory, choose=choose)
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
    claims = bare_claims(state)
    return None if claims is None else with_cushions(claims)


def bare_claims(state: ClusterState) -> Claims | None:
    """Return the same without cushions, which take time to compute."""
    jobs = [job for job in state.claims if state.flows(job)]
    if not jobs:
        return None
    instance = instance_of(state, jobs)
    stretch = {job: state.claims[job].stretch for job in jobs}
    gated = {job: state.claims[job].gated for job in jobs}
    hyperperiod = state.cluster.hyperperiod
    return Claims(instance, stretch=stretch, hyperperiod=hyperperiod, gated=gated)


def with_cushions(claims: Claims) -> Claims:
    """Return claims with the slots by which each job may be off, early or late, as others may.

    Between any two bursts there is the cushion of their link; each of the two may use half of it.
    Where something is late already, there is none.
    """
    instance = claims.instance
    limits = {
        link.name: 0 if link.late else link.cushion
        for link in evaluate(instance, claims.offsets, claims.stretch).links
    }
    cushions = {}
    for job in instance.jobs:
        known = [limit for link in job.links if (limit := limits[link]) is not None]
        cushions[job.name] = min(known, default=job.period) // 2
    return replace(claims, cushions=cushions)


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
    return Claim(
        gang=gang,
        nodes=before.nodes,
        offset=after.offsets[job.name],
        stretch=stretch,
        gated=after.is_gated(job.name),
    )
