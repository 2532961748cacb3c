"""Traffic from traces of jobs: what each format says, and what damaged files are refused with."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles import source
from metronome_opt.kubernetes.profiles.measure import profile_file
from metronome_opt.kubernetes.profiles.profile import Profile

SHARED = Path(__file__).parents[4] / "shared" / "data" / "kineto"

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


# ------------------------------------------------------------------ Kineto


def written(**fields: Callable[[Event], Any]) -> list[Event]:
    """Return marked steps and collectives with fields written otherwise."""
    return [{**event, **{key: fields[key](event) for key in fields}} for event in MARKED]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", kineto(MARKED)),
        ("a.json.gz", gzip.compress(kineto(MARKED).encode())),
        ("a.pt.trace", json.dumps(MARKED)),
        ("bom.json", "\ufeff" + kineto(MARKED)),
        ("text.json", kineto(written(ts=lambda event: f"{event['ts']:.3f}"))),
        ("rccl.json", kineto(written(name=lambda e: e["name"].replace("ncclDevK", "rcclK")))),
        ("old.json", kineto(written(cat=lambda event: event["cat"].title()))),
        ("streams.json", kineto(written(tid=lambda event: int(event["ts"]) % 3))),
        ("order.json", kineto(MARKED[::-1])),
    ],
)
def test_kineto_in_all_its_spellings(tmp_path: Path, name: str, text: str | bytes) -> None:
    assert_found(profiled(tmp_path / name, text), 5)


def test_steps_that_are_not_marked_are_found(tmp_path: Path) -> None:
    assert_found(profiled(tmp_path / "a.json", kineto(run(12))), 10)


def test_older_traces_tell_bytes_by_the_call_around_a_launch(tmp_path: Path) -> None:
    events = [step(number) for number in range(6)]
    for index, event in enumerate(run()):
        at = event["ts"] - 500
        call = {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "tid": 9}
        shape = {"Input Dims": [[event["args"]["In msg nelems"]]], "Input type": ["float"]}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 9}
        events += [
            {**call, "ts": at, "dur": 9, "args": shape},
            {**launch, "ts": at + 4, "dur": 2, "args": {"correlation": index}},
            {**event, "args": {"correlation": index}},
        ]
    assert_found(profiled(tmp_path / "a.json", kineto(events)), 5)


def test_without_bytes_the_rate_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(kineto(written(args=lambda _: {})))
    assert main(["profile", str(path)]) == 0
    assert capsys.readouterr().out.count("at an unknown rate: the trace tells no bytes") == 2
    assert main(["profile", str(path), "--rate-mbps", "25000", "--json"]) == 0
    traffic = json.loads(capsys.readouterr().out)["traffic"]
    times = ("start_ms", "length_ms")
    known = [{key: phase[key] for key in times} for phase in PHASES]
    assert traffic["phases"] == [{**phase, "rate_mbps": 25000} for phase in known]
    path.write_text(kineto(MARKED))
    assert main(["profile", str(path), "--rate-mbps", "25000"]) == 2
    assert f"{path}: states the volumes sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ((0,), "too short: 1 step of 90.0 ms, not 2"),
        ((0, 100, 182, 348, 440), "not periodic: 4 steps of 82.0 to 166.0 ms"),
    ],
)
def test_steps_may_be_too_few_or_unlike(
    tmp_path: Path, times: tuple[int, ...], reason: str
) -> None:
    events: list[Event] = []
    for at in times:
        events += [kernel(at + 20, 5, 1), {**step(0), "ts": 1e12 + 1000 * at, "dur": 90_000}]
    found = profiled(tmp_path / "a.json", kineto(events))
    assert found.traffic is None
    assert str(found.reason).startswith(reason)


def test_a_pause_is_left_out(tmp_path: Path) -> None:
    late = [{**event, "ts": event["ts"] + 4e5 * (event["ts"] >= 1e12 + 9e5)} for event in run(50)]
    assert_found(profiled(tmp_path / "a.json", kineto(late)), 47)


def test_a_collective_of_several_ranks_begins_with_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first rank waits 3 ms in each collective of 7 ms for the second.
    ranks = [
        [event for number in range(5) for event in (step(number), kernel(100 * number + at, n, 1))]
        for at, n in ((20, 10), (23, 7))
    ]
    path = tmp_path / "ranks.tgz"
    pack(path, {f"job/rank{index}.json": kineto(events) for index, events in enumerate(ranks)})
    assert main(["profile", str(path)]) == 0
    assert "skew of ranks 3.00 ms at most" in capsys.readouterr().out
    found = profile_file(path)
    assert found.skew_ms == pytest.approx(3)
    # 6 MB are sent in 7 ms.
    phase = {"start_ms": 0.0, "length_ms": 7.0, "rate_mbps": 6857, **REDUCED, "bytes": 4_000_000}
    assert found.traffic == {"period_ms": 100.0, "phases": [phase]}


def test_kernels_of_another_library_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(kineto(written(name=lambda e: e["name"].replace("nccl", "oneccl_"))))
    assert main(["profile", str(path)]) == 2
    said = "none of 25 events that may be kernels is called '[nrs]ccl'; use --kernels PATTERN"
    assert said in capsys.readouterr().err
    assert main(["profile", str(path), "--kernels", "^oneccl_|hcom_"]) == 0
    assert_found(profile_file(path, kernels="^oneccl_|hcom_"), 5)
    assert main(["profile", str(path), "--kernels", "oneccl_["]) == 2
    assert "--kernels: 'oneccl_[': no regular expression (unter" in capsys.readouterr().err
    path = tmp_path / "a.csv"
    path.write_text("time,rate\n1,2\n")
    assert main(["profile", str(path), "--kernels", "hcom_"]) == 2


# ------------------------------------------------------------------ two clocks


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


@pytest.mark.parametrize("own", ["marks", "launches", "neither"])
@pytest.mark.parametrize("cpu_ms", [5, 16, 18.5, 19])
def test_the_clock_of_the_gpu_counts(tmp_path: Path, own: str, cpu_ms: float) -> None:
    found = profiled(tmp_path / "a.json", kineto(ahead(cpu_ms, 12, own=own)))
    assert found.traffic is not None
    (phase,) = found.traffic["phases"]
    assert (found.traffic["period_ms"], phase["start_ms"], phase["length_ms"]) == (19, 0, 10)
    said = f"clocks disagree: the CPU marks steps every {cpu_ms:.2f} ms, the GPU repeats every 19"
    assert [note[: len(said)] for note in found.notes] == [said] * (cpu_ms < 19)


def test_few_cycles_have_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight ranks of three steps, as on MI300: the CPU marks 16.4 ms, the GPU repeats 19 ms."""
    path = tmp_path / "ranks.tar"
    pack(path, {f"rank{rank}.json": kineto(ahead(16.4, 3, own="launches")) for rank in range(8)})
    assert main(["profile", str(path)]) == 0
    out, error = capsys.readouterr()
    assert "period 19.00 ms, 2 cycles of 19.0 to 19.0 ms: too few cycles for errors\n" in out
    assert "±" not in out
    assert "the CPU marks steps every 16.40 ms" in error
    found = profile_file(path)
    assert (found.period_error_ms, found.burst_error_ms, found.rate_error) == (None, None, None)


def test_two_steps_of_two_clocks_are_too_few(tmp_path: Path) -> None:
    found = profiled(tmp_path / "a.json", kineto(ahead(16, 2)))
    assert str(found.reason).startswith("too short: clocks disagree: the CPU marks steps every 16")


# ------------------------------------------------------------------ other events


def ended(events: Iterable[Event]) -> list[Event]:
    """Return events as pairs of a beginning and an end."""
    pairs: list[Event] = []
    for event in events:
        where: Event = {key: event[key] for key in ("pid", "tid") if key in event}
        begin = {key: value for key, value in event.items() if key != "dur"}
        pairs += [{**begin, "ph": "B"}, {"ph": "E", "ts": event["ts"] + event["dur"], **where}]
    return sorted(pairs, key=lambda event: (event["ts"], event["ph"] == "B"))


def test_events_may_be_a_beginning_and_an_end(tmp_path: Path) -> None:
    assert_found(profiled(tmp_path / "a.json", kineto(ended(MARKED))), 5)
    cut = profiled(tmp_path / "b.json", kineto(ended(run(12))[:-1]))
    assert cut.notes == ("left out: events without an end: 1",)
    assert_found(cut, 10)


def xla(*processes: str) -> str:
    """Return collectives of 10 ms every 250 ms without a category, of processes."""
    events: list[Event] = []
    for pid, name in enumerate(processes):
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
        event = {"ph": "X", "pid": pid, "dur": 10_000.0, "name": "ncclDevKernel_AllReduce_Sum_f32"}
        events += [{**event, "tid": 13, "ts": 250_000.0 * index} for index in range(6)]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def test_events_of_xla_are_those_of_gpus(tmp_path: Path) -> None:
    text = xla("/device:GPU:0", "/job:localhost/device:GPU:1", "/host:CPU")
    found = profiled(tmp_path / "trace.json", text)
    phase = {"start_ms": 0.0, "length_ms": 10.0, "rate_mbps": None}
    assert found.traffic == {"period_ms": 250.0, "phases": [phase]}
    assert found.skew_ms == 0
    with pytest.raises(InputError, match="6 events so called are of processes of the host"):
        profiled(tmp_path / "host.json", xla("/host:CPU"))


def recorded(**fields: Any) -> str:
    """Return what a flight recorder of eight ranks dumps: 100 MB in 10 ms, every 250 ms."""
    entries = []
    for index in range(8):
        at = 1_700_000_000_001_000_000 + 250_000_000 * index
        times = {"time_discovered_started_ns": at, "time_discovered_completed_ns": at + 10_000_000}
        entry = {"record_id": index, "pg_id": 0, "process_group": ["0", "default_pg"], **times}
        tensor = {"input_sizes": [[25_000_000]], "input_dtypes": ["Float"]}
        entries.append({**entry, "profiling_name": "nccl:all_reduce", **tensor, **fields})
    ranks = {"name": "0", "desc": "default_pg", "ranks": "[0,1,2,3,4,5,6,7]"}
    return json.dumps({"version": "2.10", "entries": entries, "pg_config": {"0": ranks}})


@pytest.mark.parametrize("length_ms", [None, 0, 8.0])
def test_a_flight_recorder(tmp_path: Path, length_ms: float | None) -> None:
    found = profiled(tmp_path / "nccl_trace_rank_0", recorded(duration_ms=length_ms))
    length = length_ms or 10.0
    # In a ring of eight a rank sends 7/4 of 800 Mbit.
    phase = {"start_ms": 0.0, "length_ms": length, "rate_mbps": round(1_400_000 / length)}
    kind = {"collective": "all-reduce", "bytes": 100_000_000}
    assert found.traffic == {"period_ms": 250.0, "phases": [{**phase, **kind}]}
    assert found.notes == (
        "times of a flight recorder are those of its watchdog, which looks late",
    )


@pytest.mark.parametrize("never", [0, None])
def test_a_flight_recorder_without_times_is_refused(tmp_path: Path, never: int | None) -> None:
    text = recorded(time_discovered_completed_ns=never)
    with pytest.raises(InputError, match="without times: 8, of 800 MB; set TORCH_NCCL_ENABLE_TIM"):
        profiled(tmp_path / "a.json", text)


# ------------------------------------------------------------------ tar files


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


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_members_that_are_no_traces_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    good = kineto(MARKED)
    pack(
        path,
        {
            "job": link("job", "", tarfile.DIRTYPE),
            "._rank0.json": b"\x00\x05\x16\x07Mac OS X",
            "rank0.json": good,
            "README.md": "of a run",
            "cut.json.gz": gzip.compress(good.encode())[:-90],
            "gemm.json": kineto([]),
            "again.json": link("again.json", "rank0.json", tarfile.SYMTYPE),
        },
    )
    found = profile_file(path)
    assert_found(found, 5)
    starts = ("._rank0.json: begins", "README.md: begins", "cut.json.gz: cut", "gemm.json: holds")
    assert len(found.notes) == 5
    for note, start in zip(found.notes, [*starts, "again.json: a link or a"], strict=True):
        assert note.startswith(f"left out: {start}")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_of_a_tar_file_are_not_followed(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tgz"
    pack(path, {"a": link("a", "b", kind), "b": link("b", "a", kind)})
    with pytest.raises(InputError, match=r"a\.tgz: a tar file without traces: a: a link or a dev"):
        profile_file(path)


@pytest.mark.parametrize(
    ("unit", "limit"), [("bytes", 3 * 10**5), ("entries", 900), ("events of collectives", 200)]
)
def test_limits_hold_for_all_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, limit: int
) -> None:
    """Each of forty members is within them."""
    monkeypatch.setitem(source.LIMITS, unit, limit)
    packed = gzip.compress(kineto(MARKED).encode())
    path = tmp_path / "a.tar"
    pack(path, {"rank0.json.gz": packed})
    assert_found(profile_file(path), 5)
    pack(path, {f"rank{rank}.json.gz": packed for rank in range(40)})
    with pytest.raises(InputError, match=f"unpacks to more than {limit:,} {unit}; trace fewer"):
        profile_file(path)


# ------------------------------------------------------------------ Inspectors


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


@pytest.mark.parametrize(
    ("once", "kind", "size", "rate"),
    [
        (False, "all-reduce", 4_000_000, 4800),  # 6 MB are sent in 10 ms
        (True, "all-reduce", 4_000_000, 4800),
        (False, "all-gather", 16_000_000, 9600),  # the parts of all ranks: 12 MB
    ],
)
def test_lines_of_an_inspector_with_times_of_events(
    tmp_path: Path, once: bool, kind: str, size: int, rate: int
) -> None:
    name = {"all-reduce": "AllReduce", "all-gather": "AllGather"}[kind]
    lines = inspected(verbose=True, once=once).replace("AllReduce", name)
    found = profiled(tmp_path / "a.jsonl", lines)
    phase = {"start_ms": 0.0, "length_ms": 10.0, "rate_mbps": rate, "collective": kind}
    assert found.traffic == {"period_ms": 100.0, "phases": [{**phase, "bytes": size}]}
    assert found.message_bytes == size


def test_lines_of_an_inspector_are_placed_before_their_dump(tmp_path: Path) -> None:
    lines = inspected(verbose=False)
    found = profiled(tmp_path / "a.log", lines + lines.splitlines()[-1][:90])
    assert found.traffic is not None
    assert found.traffic["period_ms"] == pytest.approx(100, abs=0.1)
    assert found.traffic["phases"][0]["length_ms"] == 10


# ------------------------------------------------------------------ Chakra


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


def test_chakra_with_times(tmp_path: Path) -> None:
    assert_found(profiled(tmp_path / "trace.json", chakra()), 10)


@pytest.mark.parametrize("count", [3, 25_000])  # the second has 5 MB
def test_chakra_of_a_feeder_has_no_times(tmp_path: Path, count: int) -> None:
    node = {"Name": "ncclKernel_AllReduce_RING_LL_Sum_float(...)", "NodeType": 7, "runtime": 10000}
    node |= {"ctrlDeps": [], "comm_type": 0, "comm_size": 100_000_000, "is_cpu_op": False}
    nodes = [{"Id": index, **node} for index in range(count)]
    path = tmp_path / "et.json"
    path.write_text(json.dumps({"workload_graph": nodes, "ngpus": 8}))
    said = f"collectives without times: {count:,}, of {100 * count:,} MB; give the Kineto trace"
    with pytest.raises(InputError, match=said):
        profile_file(path)


def test_chakra_as_protobuf_prints_it(tmp_path: Path) -> None:
    """Enumerations by name, numbers of 64 bits as text, a document after the other."""
    texts = ['{"version": "0.0.4"}']
    for index in range(8):
        values = {"comm_size": {"int64Val": "4000000"}, "comm_type": {"int64Val": "0"}}
        values["pg_size"] = {"int32Val": 4}  # type: ignore[dict-item]
        times = {"startTimeMicros": str(100_000 * index), "durationMicros": "10000"}
        attr = [{"name": name, **value} for name, value in values.items()]
        node = {"id": str(index), "name": "nccl", "type": "COMM_COLL_NODE", **times, "attr": attr}
        texts.append(json.dumps(node, indent=1))
    found = profiled(tmp_path / "et.json", "\n".join(texts))
    phase = {"start_ms": 0.0, "length_ms": 10.0, "rate_mbps": 4800, **REDUCED, "bytes": 4_000_000}
    assert found.traffic == {"period_ms": 100.0, "phases": [phase]}


def test_chakra_without_times_is_refused(tmp_path: Path) -> None:
    attrs = {"collective_name": "allreduce", "dtype": "Half", "in_msg_nelems": 5 * 10**6}
    pairs = [{"name": key, "value": value} for key, value in attrs.items()]
    nodes = [
        {"id": 2, "name": "record_param_comms", "attrs": pairs},
        {"id": 3, "name": "nccl:all_reduce", "ctrl_deps": 2, "attrs": []},
    ]
    path = tmp_path / "et.json"
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": nodes}))
    with pytest.raises(InputError, match="collectives without times: 1, of 10 MB; give the"):
        profile_file(path)


# ------------------------------------------------------------------ damaged files

GOOD = kineto(MARKED)
FAST = [event for n in range(5) for event in (step(n), kernel(100 * n + 9, 0.001, 1e9))]
LINES = inspected(verbose=False)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.json", None, "cannot be read"),
        ("empty.json", b"", "begins with '': not JSON"),
        ("plain.json.gz", GOOD, "is no gzip file, it begins with b'{\\n'"),
        ("cut.json.gz", gzip.compress(GOOD.encode())[:-100], "cut off or damaged gzip after"),
        ("bad.json.gz", b"\x1f\x8b\x08" + bytes(40), "cut off or damaged gzip after 0 bytes"),
        ("cut.json", GOOD[:3000], "cut off, too long"),
        ("list.json", "[1, 2]", "line 1, entry 0: must be a mapping, got 1"),
        ("deep.json", '{"traceEvents": [' + "[" * 99_999, "line 1, entry 0: cut off, too long"),
        ("gemm.json", kineto([]), "holds no collectives"),
        ("text.json", "seconds,rate\n1,2\n", "begins with 'seconds,rate\\n1,2\\n'"),
        ("negative.json", kineto([kernel(1, -2, 1)]), "entry 5: dur: -2000: must be a number from"),
        ("nan.json", kineto([kernel(1, 2, 1, ts="soon")]), "ts: 'soon': must be a number"),
        ("few.json", kineto([kernel(1, 2, -1)]), "inmsgnelems: -1000000: must be a number"),
        ("alone.json", GOOD.replace('"Group size": 4', '"Group size": 1'), "of one rank alone"),
        ("field.jsonl", LINES.replace("coll_exec", "exec"), "line 2, entry 1: coll_exec_time_us"),
        ("orphan.log", '{"coll_perf": {}}\n', "entry 0: coll_perf: must be a mapping, with a head"),
        ("line.log", LINES.replace("}\n", "\n", 1), "line 1, entry 0: cut off, too long"),
        ("protobuf.et", bytes(range(1, 200)), "not JSON; give a trace of Kineto, XLA"),
        ("a.pickle", b"\x80\x04\x95" + bytes(90), "is a pickle; have a flight recorder dump JSON"),
        ("a.sqlite", b"SQLite format 3\0" + bytes(90), "is an SQLite database; give a trace of"),
        ("a.json.xz", b"\xfd7zXZ\0" + bytes(90), "is packed by xz; unpack it"),
        ("other.json", '{"model": "bert", "layers": [1, 2]}', "; it has 'model', 'layers'; give a"),
        ("slow.csv", "t,v\n0,1e308\n", "line 2: '0,1e308': must be a later time"),
        ("wide.csv", "t,v\n1," + "9" * 200_000, "no CSV file (field larger than field limit"),
        ("dims.json", kineto([shaped([[9] * 65])]), "holds no collectives"),
        ("fast.json", kineto(FAST), "phases[0].rate_mbps: 48000000000"),
        ("cut.tar", b"x" * 257 + b"ustar" + bytes(300), "damaged tar file"),
    ],
)  # fmt: skip
def test_damaged_files_end_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str | bytes | None,
    said: str,
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    assert main(["profile", str(path)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith(f"metronome: error: {path}: ")
    assert said in error
    assert [each.name for each in tmp_path.iterdir()] == [name] * (text is not None)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_what_may_never_end_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match="is not an ordinary file; name a file, or - and"):
        profile_file(path)


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(source.LIMITS, "bytes", 10**6)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 10**8, 1))
    with pytest.raises(InputError, match="unpacks to more than 1,000,000 bytes; trace fewer"):
        profile_file(path)


# ------------------------------------------------------------------ public traces


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared/data/kineto beside the checkout")
def test_public_traces() -> None:
    """ResNet-50 has five bursts, another CPU runs ahead, and the ranks of DLRM are skewed."""
    found = profile_file(SHARED / "nccl_data.json.gz")
    assert found.traffic is not None
    assert found.traffic["period_ms"] == pytest.approx(221, abs=2)
    assert len(found.traffic["phases"]) == 5
    assert found.message_bytes == pytest.approx(102.4e6, abs=0.05e6)
    found = profile_file(SHARED / "test.json.gz")
    # Steps of 82 to 167 ms by marks of the CPU take the GPU 115 to 123 ms.
    assert found.traffic is not None
    assert found.traffic["period_ms"] == pytest.approx(117.6, abs=0.1)
    assert found.notes == ()
    found = profile_file(SHARED / "dlrm_kineto.tar.gz")
    assert str(found.reason).startswith("too short: 1 step of 12.5 to 19.9 ms")
    assert found.skew_ms == pytest.approx(7.62, abs=0.01)
    with pytest.raises(InputError, match="collectives without times: 21, of 307 MB"):
        profile_file(SHARED / "resnet_2gpu_chakra_et.json.gz")


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared/data/kineto beside the checkout")
def test_one_burst_of_many_small_collectives() -> None:
    found = profile_file(SHARED / "df_index_resolver.json.gz")
    assert found.traffic is not None
    assert found.cycle_ms is not None
    assert [round(end) for end in found.cycle_ms] == [334, 358]
    (phase,) = found.traffic["phases"]
    assert 121 <= phase["length_ms"] <= 131
    assert phase["rate_mbps"] is None
