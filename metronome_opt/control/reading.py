"""What a cluster's Prometheus says of the jobs that have claims: one observation each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from string import Template
from typing import Any

from metronome_opt.control.claims import Claims
from metronome_opt.control.matching import from_profile
from metronome_opt.control.observation import Observation
from metronome_opt.errors import InputError, show
from metronome_opt.profiles.profile import profile
from metronome_opt.profiles.samples import Samples
from metronome_opt.scheduling.state import ClusterState

FIELDS = ("job", "task", "pod", "node", "interface")
DEFAULT_SELECTOR = 'container_network_transmit_bytes_total{pod="$pod"}'
_TASKS = 3  # of a job that are asked for, until one has samples
_GONE_PERIODS = 10  # without a byte
_WAITING_PERIODS = 2  # until a job that was told to wait has done so

Read = Callable[[str, float, float], Mapping[Any, Samples]]
"""Samples of counters of bytes, by series: a selector, and the time from and to, in seconds."""


class Selector:
    """PromQL for what one task of a job sends, with ``$job``, ``$task`` and so on in it.

    Parameters
    ----------
    text
        May name `FIELDS`. ``$pod`` is called like the claim of the task, ``JOB-TASK``. Without
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
                f"selector: {show(text)}: a $ must be followed by a name; write $$ for a $ itself"
            )
        named = set(self._template.get_identifiers())
        unknown = sorted(named - set(FIELDS))
        if unknown:
            raise InputError(
                f"selector: ${unknown[0]} is not known; choose from $" + ", $".join(FIELDS)
            )
        self._named = named
        if not named:
            raise InputError(f"selector: {show(text)}: is the same for all jobs; name $pod, say")

    def of_task(self, state: ClusterState, job: str, task: int) -> str:
        """Return the selector of one task."""
        node = state.claims[job].nodes[task]
        values = {
            "job": job,
            "task": str(task),
            "pod": f"{job}-{task}",
            "node": node,
            "interface": state.cluster.hosts[node].interface,
        }
        return self._template.substitute({key: _quoted(text) for key, text in values.items()})

    def counted(self, state: ClusterState, job: str, task: int) -> int:
        """Return how many tasks of a job are counted together with one of them, itself included.

        Raises
        ------
        InputError
            If other jobs are, so that nobody can tell what is whose.
        """
        if self._named & {"pod", "task"}:
            return 1
        nodes = state.claims[job].nodes
        if not self._named & {"node", "interface"}:
            return len(nodes)
        node = nodes[task]
        interface = state.cluster.hosts[node].interface
        others = [
            other for other in state.claims if other != job and interface in state.flows(other)
        ]
        if others and "job" not in self._named:
            raise InputError(
                f"selector: counts all that {show(node)} sends, which is used by {show(job)} and "
                f"{show(others[0])}; name $pod, or $job and $task"
            )
        return nodes.count(node)


def _quoted(text: str) -> str:
    """Return a name as it may stand in a string of PromQL, in quotes of either kind."""
    return re.sub(r"""["'\\]""", lambda found: f"\\x{ord(found[0]):02x}", text)


@dataclass(frozen=True)
class Seen:
    """What can be seen of jobs, each of which is in one of the two.

    Attributes
    ----------
    observations
        By job.
    unmeasured
        Why there is none, by job.
    """

    observations: Mapping[str, Observation]
    unmeasured: Mapping[str, str]

    def only(self, jobs: Collection[str]) -> Seen:
        """Return what can be seen of some jobs."""
        return Seen(
            {job: each for job, each in self.observations.items() if job in jobs},
            {job: why for job, why in self.unmeasured.items() if job in jobs},
        )


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
) -> Seen:
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
    seen, unmeasured = {}, {}
    for job in claims.running.jobs:
        begin_s = now_s - for_s
        if job.name in moved_s:
            waited_s = _WAITING_PERIODS * job.period * claims.instance.slot_ms / 1000
            begin_s = max(begin_s, moved_s[job.name] + waited_s)
        if begin_s >= now_s:
            unmeasured[job.name] = "waits, as it was told to"
            continue
        unmeasured[job.name] = f"no samples in {now_s - begin_s:.6g} s; check selector and window"
        tasks = range(min(_TASKS, len(state.claims[job.name].nodes)))
        for task in tasks:
            counted = selector.counted(state, job.name, task)
            found = read(selector.of_task(state, job.name, task), begin_s, now_s)
            if len(found) > 1:
                raise InputError(
                    f"selector: matches {len(found)} series for task {task} of {job.name}; "
                    "it has to match one, name the interface as well"
                )
            samples = next(iter(found.values()), None)
            if samples is not None and len(samples):
                each = replace(samples, rates_mbps=samples.rates_mbps / counted)
                found_out = _found_out(claims, job.name, each, gone_s)
                if isinstance(found_out, Observation):
                    seen[job.name] = found_out
                    del unmeasured[job.name]
                else:
                    unmeasured[job.name] = found_out
                break
    return Seen(seen, unmeasured)


def observation(claims: Claims, name: str, samples: Samples, *, gone_s: float = 0.0) -> Observation:
    """Return what samples of one task say of its job; `gone_s` as in `observe`."""
    found_out = _found_out(claims, name, samples, gone_s)
    return found_out if isinstance(found_out, Observation) else Observation()


def _found_out(claims: Claims, name: str, samples: Samples, gone_s: float) -> Observation | str:
    """Return what samples of one task say of its job, or why they say nothing."""
    slot_ms, job = claims.instance.slot_ms, claims.running.job(name)
    silence_s = max(gone_s, _GONE_PERIODS * job.period * slot_ms / 1000)
    end_s = float(samples.times_s[-1])
    silent = samples.rates_mbps[samples.times_s >= end_s - silence_s] == 0  # NaN is not
    if samples.times_s[0] <= end_s - silence_s and silent.all():
        return Observation(gone=True)
    due_ms = claims.next_due_ms(name, 1000 * end_s)
    found = profile(samples)
    if found.reason is not None:
        return found.reason
    return from_profile(found, job, slot_ms=slot_ms, due_ms=due_ms)
