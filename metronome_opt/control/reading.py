"""What a cluster's Prometheus says of the jobs that have claims: one observation each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from string import Template
from typing import Any

from metronome_opt.control.claims import Claims
from metronome_opt.control.observation import Observation, from_profile
from metronome_opt.errors import InputError, show
from metronome_opt.profiles import Samples, profile
from metronome_opt.scheduling.state import ClusterState

_FIELDS = ("job", "task", "pod", "node", "interface")
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
                f"selector: {show(text)}: a $ must be followed by a name; write $$ for a $ itself"
            )
        self._named = set(self._template.get_identifiers())
        unknown = sorted(self._named - set(_FIELDS))
        if unknown:
            raise InputError(
                f"selector: ${unknown[0]} is not known; choose from $" + ", $".join(_FIELDS)
            )
        if not self._named:
            raise InputError(f"selector: {show(text)}: is the same for all jobs; name $pod, say")

    def of_task(self, state: ClusterState, job: str, task: int) -> str:
        """Return the selector of one task."""
        node = state.claims[job].nodes[task]
        interface = state.cluster.hosts[node].interface
        values = zip(_FIELDS, (job, str(task), f"{job}-{task}", node, interface), strict=True)
        return self._template.substitute({key: _quoted(text) for key, text in values})

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
    """Return the samples of one flow of the first task that has any."""
    for task in range(min(_TASKS, len(state.claims[job].nodes))):
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
