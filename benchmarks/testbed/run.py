"""One case on the network: start the ranks, wait for them, and take down what happened."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from benchmarks.testbed import clock
from benchmarks.testbed.cases import CUSHION_MS, BedJob, Case
from benchmarks.testbed.modes import Mode, begins_at
from benchmarks.testbed.network import Network
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError, MetronomeError
from metronome_opt.files.records import FrozenMap, Record

_ROOT = Path(__file__).parent.parent.parent
_TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")
_PROGRAMS = {
    "ring": [sys.executable, "-S", "-m", "benchmarks.testbed.worker"],
    "ddp": [_TORCH_PYTHON, "-m", "benchmarks.testbed.training"],
}
_READY_S = 30.0
_SPARE_S = 25.0  # beyond the time that a run is to take
_LEAD_S = 0.3  # from the order to start to the start
_BUSY_P95_MS, _BUSY_MAX_MS, _STEAL = 1.0, 10.0, 0.01

Times = Annotated[tuple[float, ...], Field(strict=False)]
Burst = Annotated[tuple[float, float, float], Field(strict=False)]


class JobRun(Record):
    """Record of a job; times in ms since the start of the run.

    Parameters
    ----------
    begins_ms
        Beginnings of its iterations, and the end of the last one.
    bursts_ms
        When each burst was ready, began and ended.
    losses
        Of each iteration on the first rank, of a job that really trains.
    ended
        Why it ended before its time; None if it did not.
    """

    begins_ms: Times
    bursts_ms: Annotated[tuple[Burst, ...], Field(strict=False)]
    losses: Times | None = None
    ended: str | None = None


class BedRun(Record):
    """One case, run once.

    Parameters
    ----------
    offsets
        Of the jobs that keep windows, in ms.
    periods
        Of the same jobs, in ms; None where the mode says what they are.
    jitter, seconds, uplink_mbps, queue_ms
        As in the case; of older records the last three are None.
    stopped_ms
        For how long the clocks stood still; None if nobody watched the processor.
    busy
        Whether something else on this machine disturbed the run.
    late_p95_ms, late_max_ms
        How late sleeping ranks woke up.
    idle, steal
        Shares of the processors' time.
    real_time
        Whether ranks ran before all else on the machine.
    jobs
        By name.
    """

    case: str
    mode: Mode
    repeat: int
    congestion: str
    offsets: FrozenMap[str, int] | None
    kernel: str
    busy: bool
    late_p95_ms: float
    late_max_ms: float
    idle: float
    steal: float
    real_time: bool
    jobs: FrozenMap[str, JobRun]
    periods: FrozenMap[str, int] | None = None
    jitter: float | None = None
    seconds: int | None = None
    uplink_mbps: int | None = None
    queue_ms: int | None = None
    stopped_ms: float | None = None

    @property
    def complete(self) -> bool:
        """True if every job ran to its end."""
        return all(job.ended is None and len(job.begins_ms) > 1 for job in self.jobs.values())


class BedError(MetronomeError):
    """A run of the test bed that came to nothing."""


def run_case(case: Case, mode: Mode, repeat: int, planned: Plan | None) -> BedRun:
    """Run a case once.

    Raises
    ------
    BedError
        If a rank does not start, or none gives a result. A job that loses a rank has `ended`.
    """
    with Network(case.layout) as network:
        ranks: dict[tuple[str, int], subprocess.Popen[str]] = {}
        try:
            for job, tasks in _tasks(case, repeat, planned, network).items():
                for rank, (place, task) in enumerate(tasks):
                    ranks[job, rank] = _start(network, place, case.program, task)
            for name, process in ranks.items():
                _expect_ready(name, process)
            before, stopped_before = _processor_times(), clock.stopped_ns()
            _begin(ranks)
            until = time.monotonic() + _LEAD_S + case.seconds + _SPARE_S
            seen = {name: _finish(process, until) for name, process in ranks.items()}
            idle, steal = _shares(before, _processor_times())
            stopped_ms = (clock.stopped_ns() - stopped_before) / 1e6
        finally:
            for process in ranks.values():
                process.kill()
                process.communicate()
    results = [each for each in seen.values() if "begins_ms" in each]
    if not results:
        raise BedError(f"job a, rank 0: {seen['a', 0]['ended']}")
    watched = clock.VARIABLE in os.environ
    late_p95 = max(each["late_p95_ms"] for each in results)
    late_max = max(each["late_max_ms"] for each in results)
    return BedRun(
        case=case.name,
        mode=mode,
        repeat=repeat,
        congestion=case.congestion,
        offsets=None if planned is None else planned.offsets,
        periods=None if planned is None else planned.periods,
        jitter=case.jitter,
        seconds=case.seconds,
        uplink_mbps=case.uplink_mbps,
        queue_ms=case.queue_ms,
        stopped_ms=round(stopped_ms, 1) if watched else None,
        kernel=platform.release(),
        busy=late_p95 > _BUSY_P95_MS or late_max > _BUSY_MAX_MS or (steal > _STEAL and not watched),
        late_p95_ms=late_p95,
        late_max_ms=late_max,
        idle=round(idle, 3),
        steal=round(steal, 3),
        real_time=all(each["real_time"] for each in results),
        jobs={job: _job_run(job, seen) for job in case.job_names},
    )


@contextmanager
def one_processor(number: int) -> Iterator[None]:
    """Keep to one processor, with clocks that stand still while something stops it.

    Raises
    ------
    InputError
        If there is no such processor.
    """
    if number not in os.sched_getaffinity(0):
        raise InputError(f"--processor: {number}: this machine lends no processor of this number")
    os.sched_setaffinity(0, {number})
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(8))
        file.flush()
        os.environ[clock.VARIABLE] = file.name
        program = [sys.executable, "-S", "-m", "benchmarks.testbed.clock", file.name]
        with subprocess.Popen(program, cwd=_ROOT) as watcher:
            try:
                yield
            finally:
                watcher.kill()


def _job_run(name: str, seen: Mapping[tuple[str, int], dict[str, Any]]) -> JobRun:
    """Return what the first rank of a job says, or the first that is left, and who was lost."""
    mine = {rank: each for (job, rank), each in seen.items() if job == name}
    first = next((each for each in mine.values() if "begins_ms" in each), {})
    lost = [
        f"rank {rank}: {each['ended']}" for rank, each in mine.items() if "begins_ms" not in each
    ]
    return JobRun(
        begins_ms=first.get("begins_ms", ()),
        bursts_ms=first.get("bursts_ms", ()),
        losses=first.get("losses"),
        ended=lost[0] if lost else first["ended"],
    )


def _tasks(
    case: Case, repeat: int, planned: Plan | None, network: Network
) -> dict[str, list[tuple[tuple[int, int], dict[str, Any]]]]:
    """Return for each job the node of each rank, and what the rank is to do."""
    begins, slots = begins_at(case, repeat), planned or Plan({})
    taken = [0] * len(case.layout.nodes)
    tasks = {}
    for name, job in zip(case.job_names, case.jobs, strict=True):
        places = []
        for rack in case.racks(job):
            places.append((rack, taken[rack]))
            taken[rack] += 1
        claim = None
        if name in slots.offsets:
            claim = {
                "offset_ms": slots.offsets[name],
                "period_ms": slots.periods[name],
                "starts_ms": [start for start, _ in job.bursts],
                "cushion_ms": CUSHION_MS,
            }
        task = {
            "addresses": [network.address(*place) for place in places],
            "congestion": "cubic" if case.congestion == "ecn" else case.congestion,
            "begin_ms": begins[name],
            "end_ms": job.end or 1000 * case.seconds,
            "iterations": job.iterations,
            "jitter": case.jitter or 0.0,
            "seed": case.seed(name, repeat),
            "claim": claim,
            **_work(case, job),
        }
        tasks[name] = [(place, {**task, "rank": rank}) for rank, place in enumerate(places)]
    return tasks


def _work(case: Case, job: BedJob) -> dict[str, Any]:
    """Return what a rank computes and sends in an iteration."""
    bursts, reached = [], 0
    for start, length in job.bursts:
        size = round(length * case.rate_mbps * 1000 / 8)
        bursts.append((start - reached, size))
        reached = start + length
    return {"bursts": bursts, "rest_ms": job.period - reached}


def _start(network: Network, place: tuple[int, int], program: str, task: dict[str, Any]) -> Any:
    rank: Any = network.popen(
        *place,
        _PROGRAMS[program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "GLOO_SOCKET_IFNAME": "eth0"},
    )
    rank.stdin.write(json.dumps(task) + "\n")
    rank.stdin.flush()
    return rank


def _expect_ready(name: tuple[str, int], rank: Any) -> None:
    readable, _, _ = select.select([rank.stdout], [], [], _READY_S)
    if not readable or rank.stdout.readline() != "ready\n":
        raise BedError(f"job {name[0]}, rank {name[1]}: did not start: {_last_words(rank)}")


def _begin(ranks: Mapping[Any, Any]) -> None:
    """Let all ranks start at one moment, from which offsets count."""
    start = clock.wall_ns() + int(_LEAD_S * 1e9)
    for rank in ranks.values():
        rank.stdin.write(f"{start}\n")
        rank.stdin.flush()


def _finish(rank: Any, until: float) -> dict[str, Any]:
    """Return what a rank says at its end; of one that gives no result only why it `ended`."""
    left = max(0.0, until - time.monotonic())
    readable, _, _ = select.select([rank.stdout], [], [], left)
    if not readable:
        rank.kill()
        return {"ended": "did not end in time"}
    line = rank.stdout.readline()
    if not line.endswith("\n"):
        return {"ended": f"gave no result: {_last_words(rank)}"}
    found: dict[str, Any] = json.loads(line)
    return found


def _last_words(rank: Any) -> str:
    rank.kill()
    words = rank.communicate()[1].strip().splitlines()
    return words[-1] if words else f"it said nothing (status {rank.returncode})"


def _processor_times() -> list[int]:
    return [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def _shares(before: list[int], after: list[int]) -> tuple[float, float]:
    """Return which shares of the processors' time were idle and stolen."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    total = max(1, sum(spent))
    return (spent[3] + spent[4]) / total, spent[7] / total
