"""Traces as each tool writes them, of known periods and bursts."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.kubernetes.profiles.measure import profile_file
from metronome_opt.kubernetes.profiles.profile import Profile

# Of a step of 100 ms, in ms: beginning and length of collectives, and their million floats. The
# first two are one burst, and the last one, of 10 kB, is too short to be one.
STEP = ((20.0, 4.0, 1.0), (24.5, 5.5, 1.0), (60.0, 5.0, 1.0), (66.5, 0.05, 0.0025))
# In a ring of four a rank sends 3/2 of a message of 4 MB: 12 MB in 10 ms, 6.015 MB in 5 ms.
# The short one is of the same kind, and counts with the one before.
REDUCED = {"collective": "all-reduce"}
PHASES: list[dict[str, Any]] = [
    {"start_ms": 0.0, "length_ms": 10.0, "rate_mbps": 9600, **REDUCED, "bytes": 8_000_000},
    {"start_ms": 40.0, "length_ms": 5.0, "rate_mbps": 9624, **REDUCED, "bytes": 4_010_000},
]
MESSAGES = 12.01e6

Event = dict[str, Any]


def kernel(at_ms: float, length_ms: float, millions: float, **others: Any) -> Event:
    """Return an all-reduce of so many million floats among four, as Kineto writes it."""
    count = round(1e6 * millions)
    args = {"Collective name": "allreduce", "In msg nelems": count, "Out msg nelems": count}
    event = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"}
    times = {"pid": 0, "tid": 20, "ts": 1e12 + 1000 * at_ms, "dur": 1000 * length_ms}
    return {**event, **times, "args": {**args, "dtype": "Float", "Group size": 4}, **others}


def shaped(dims: list[Any]) -> Event:
    """Return a call of a collective on tensors of these dimensions."""
    event = {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "tid": 9}
    return {**event, "ts": 1e12, "dur": 9, "args": {"Input Dims": dims, "Input type": ["float"]}}


def step(number: int) -> Event:
    """Return the mark of a step."""
    event = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}"}
    return {**event, "tid": 1, "ts": 1e12 + 100_000 * number, "dur": 99_990}


def run(count: int = 6) -> list[Event]:
    """Return the collectives of so many steps."""
    steps = range(count)
    return [kernel(100 * step + at, length, size) for step in steps for at, length, size in STEP]


def kineto(events: Iterable[Event]) -> str:
    """Return events among others, as Kineto writes them."""
    others: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "python"}},
        {"ph": "s", "id": 7, "name": "ac2g", "cat": "ac2g", "ts": 1e12},
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1e12, "dur": 9e6},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "nccl:all_reduce", "ts": 1, "dur": 9},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 9},
    ]
    head = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4}}
    return json.dumps({**head, "traceEvents": [*others, *events], "traceName": "x"}, indent=1)


MARKED = [*(step(number) for number in range(6)), *run()]


def ahead(cpu_ms: float, count: int = 6, *, own: str = "marks") -> list[Event]:
    """Return collectives of 10 ms every 19 ms, and marks of a CPU that runs ahead."""
    events: list[Event] = []
    for number in range(count):
        begin = 1e12 + 1000 * cpu_ms * number
        events.append({**step(number), "ts": begin, "dur": 1000 * cpu_ms - 10})
        args = {**kernel(0, 0, 2.5)["args"], "correlation": number}
        events.append(kernel(19 * number + 2, 10, 2.5, args=args))
        if own == "marks":
            mark = {**step(number), "cat": "gpu_user_annotation", "tid": 7, "dur": 4000}
            events += [{**mark, "ts": 1e12 + 19_000 * number + at} for at in (500, 9500)]
        if own == "launches":
            launch = {"ph": "X", "cat": "hip_runtime", "name": "hipLaunchKernel", "tid": 1}
            events.append({**launch, "ts": begin + 9, "args": {"correlation": number}})
    return events


def ended(events: Iterable[Event]) -> list[Event]:
    """Return events as pairs of a beginning and an end."""
    pairs: list[Event] = []
    for event in events:
        where: Event = {key: event[key] for key in ("pid", "tid") if key in event}
        begin = {key: value for key, value in event.items() if key != "dur"}
        pairs += [{**begin, "ph": "B"}, {"ph": "E", "ts": event["ts"] + event["dur"], **where}]
    return sorted(pairs, key=lambda event: (event["ts"], event["ph"] == "B"))


def xla(*processes: str, steps_ms: float | None = None) -> str:
    """Return collectives of 10 ms every 250 ms without a category, of processes, and steps."""
    events: list[Event] = []
    for pid, name in enumerate(processes):
        meta = {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        thread = {**meta, "tid": 1, "name": "thread_name", "args": {"name": "Steps"}}
        event = {"ph": "X", "pid": pid, "dur": 10_000.0, "name": "ncclDevKernel_AllReduce_Sum_f32"}
        events += [meta, *({**event, "tid": 13, "ts": 250_000.0 * index} for index in range(6))]
        if steps_ms:
            mark = {"ph": "X", "pid": pid, "tid": 1, "dur": 900 * steps_ms}
            count = round(1500 / steps_ms)
            marks = [(str(index), 1000 * steps_ms * index) for index in range(count)]
            events += [thread, *({**mark, "name": name, "ts": ts} for name, ts in marks)]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def recorded(first: int = 0, late_ms: float = 0.0, **fields: Any) -> str:
    """Return what a flight recorder of eight ranks dumps: 100 MB in 10 ms, every 250 ms."""
    entries = []
    for index in range(first, first + 8):
        at = 1_700_000_000_001_000_000 + 250_000_000 * index + round(1e6 * late_ms)
        times = {"time_discovered_started_ns": at, "time_discovered_completed_ns": at + 10_000_000}
        entry = {"record_id": index, "pg_id": 0, "process_group": ["0", "default_pg"], **times}
        tensor = {"input_sizes": [[25_000_000]], "input_dtypes": ["Float"]}
        named = {"profiling_name": "nccl:all_reduce", "collective_seq_id": index}
        entries.append({**entry, **named, **tensor, **fields})
    ranks = {"name": "0", "desc": "default_pg", "ranks": "[0,1,2,3,4,5,6,7]"}
    return json.dumps({"version": "2.10", "entries": entries, "pg_config": {"0": ranks}})


def inspected(*, verbose: bool, once: bool = False) -> str:
    """Return lines of an Inspector: an all-reduce of 4 MB for 10 ms, every 100 ms."""
    lines = []
    for number in range(12):
        begin = 1_700_000_000_000_000 + 100_000 * number
        header = {"id": "0x1", "rank": 0, "n_ranks": 4, "nnodes": 2}
        dumped = begin + 10_000 + 150 * (number % 2)
        metadata = {"hostname": "a", "pid": 7, "dump_timestamp_us": dumped}
        context = {"header": header, "metadata": metadata}
        performed: dict[str, Any] = {
            "coll": "AllReduce",
            "coll_sn": number,
            "coll_msg_size_bytes": 4_000_000,
            "coll_exec_time_us": 10_000,
        }
        if verbose:
            kernels = [{"channel_id": 0, "kernel_start_ts": begin, "kernel_stop_ts": begin + 9}]
            performed["event_trace_ts"] = {"coll_start_ts": 5, "kernel_events": kernels}
        lines.append({**context, "dump_stats": {"coll_records": 1}})
        lines.append({"coll_perf": performed} if once else {**context, "coll_perf": performed})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def chakra() -> str:
    """Return the collectives of twelve steps, with the calls that launch them."""
    nodes: list[Event] = []
    for number in range(12):
        for at, length, millions in STEP:
            size = round(4e6 * millions)
            values = {"comm_type": 0, "comm_size": size, "pg_size": 4, "share": 0.5}
            attrs = [{"name": name, "value": value} for name, value in values.items()]
            when = {"ts": round(1000 * (1e6 + 100 * number + at)), "dur": round(1000 * length)}
            nodes.append({"id": 1, "name": "record_param_comms", "type": 4, **when})
            nodes.append({"id": 2, "name": "ncclKernel", "type": 7, "attrs": attrs, **when})
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes})


def pack(path: Path, members: dict[str, str | bytes | tarfile.TarInfo]) -> None:
    """Write a tar file of texts, bytes and links."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as files:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                files.addfile(content)
                continue
            raw = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            files.addfile(member, io.BytesIO(raw))


def profiled(path: Path, text: str | bytes) -> Profile:
    """Write a trace and return its profile."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return profile_file(path)


def assert_found(found: Profile, cycles: int) -> None:
    assert found.reason is None
    assert found.traffic == {"period_ms": 100.0, "phases": PHASES}
    assert found.message_bytes == pytest.approx(MESSAGES)
    assert found.cycles == cycles
    assert found.jitter == pytest.approx(0, abs=1e-6)
