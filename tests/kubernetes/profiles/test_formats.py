"""Traces of other tools than Kineto: what each format states."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.measure import profile_file
from tests.kubernetes.profiles.trace_files import (
    MARKED,
    REDUCED,
    assert_found,
    chakra,
    ended,
    inspected,
    kineto,
    pack,
    profiled,
    recorded,
    run,
    xla,
)

# ------------------------------------------------------------------ other events


def test_events_may_be_a_beginning_and_an_end(tmp_path: Path) -> None:
    assert_found(profiled(tmp_path / "a.json", kineto(ended(MARKED))), 5)
    cut = profiled(tmp_path / "b.json", kineto(ended(run(12))[:-1]))
    assert cut.notes == ("omitted: events without an end: 1",)
    assert_found(cut, 10)


def test_events_of_xla_are_those_of_gpus(tmp_path: Path) -> None:
    text = xla("/device:GPU:0", "/job:localhost/device:GPU:1", "/host:CPU")
    found = profiled(tmp_path / "trace.json", text)
    phase = {"start_ms": 0.0, "length_ms": 10.0, "rate_mbps": None}
    assert found.traffic == {"period_ms": 250.0, "phases": [phase]}
    assert found.skew_ms == 0
    with pytest.raises(InputError, match="6 events so called are of processes of the host"):
        profiled(tmp_path / "host.json", xla("/host:CPU"))


@pytest.mark.parametrize(
    ("steps_ms", "period_ms", "bursts", "said"),
    [
        (None, 250, 1, ()),
        (250, 250, 1, ()),
        (500, 500, 2, ()),
        (214, 250, 1, ("the GPU marks steps every 214.00 ms, its kernels repeat every 250.00 ms",)),
    ],
)
def test_steps_of_xla_are_marks_of_the_gpu(
    tmp_path: Path, steps_ms: float | None, period_ms: float, bursts: int, said: tuple[str, ...]
) -> None:
    """A burst every 250 ms is one of two in a step of 500 ms; those of a host do not count."""
    text = xla("/device:GPU:0", "/device:GPU:1", steps_ms=steps_ms)
    host = json.loads(xla("/host:CPU", steps_ms=70).replace('"pid": 0', '"pid": 9'))
    read = json.loads(text)
    read["traceEvents"] += host["traceEvents"]
    found = profiled(tmp_path / "trace.json", json.dumps(read))
    assert found.traffic is not None
    assert (found.traffic["period_ms"], len(found.traffic["phases"])) == (period_ms, bursts)
    clocks = [f"clocks disagree: {words}, which counts" for words in said]
    assert [*found.notes] == clocks


LATE = "times of a flight recorder are those of its watchdog, which looks late"


@pytest.mark.parametrize(
    ("other", "left"),
    [
        (recorded(late_ms=1), 0),
        (recorded(1, late_ms=1), 2),  # its ring of entries begins a collective later
        (recorded(1, late_ms=1, process_group=["5", "default_pg"], pg_id=7), 2),
        (recorded(1, late_ms=1, process_group=["5", "undefined"]), 2),
    ],
)
def test_flight_recorders_of_several_ranks_are_matched_by_number(
    tmp_path: Path, other: str, left: int
) -> None:
    """Groups of the same name, or role, have the same numbers; one rank begins 1 ms late."""
    own = recorded()
    if "undefined" in other:
        own = own.replace('"0", "default_pg"', '"4", "undefined"')
    pack(tmp_path / "a.tar", {"rank0": own, "rank1": other})
    found = profile_file(tmp_path / "a.tar")
    assert found.traffic is not None
    (phase,) = found.traffic["phases"]
    assert (found.traffic["period_ms"], phase["length_ms"]) == (250, 10)
    assert found.skew_ms == pytest.approx(1, abs=0.01)
    note = f"omitted: collectives that not all ranks recorded: {left}"
    assert [note in found.notes, LATE in found.notes] == [left > 0, True]


def test_flight_recorders_of_different_times_are_refused(tmp_path: Path) -> None:
    pack(tmp_path / "a.tar", {"rank0": recorded(), "rank1": recorded(20)})
    with pytest.raises(InputError, match="ranks recorded no collective in common; dump them at"):
        profile_file(tmp_path / "a.tar")


@pytest.mark.parametrize("length_ms", [None, 0, 8.0])
def test_a_flight_recorder(tmp_path: Path, length_ms: float | None) -> None:
    found = profiled(tmp_path / "nccl_trace_rank_0", recorded(duration_ms=length_ms))
    length = length_ms or 10.0
    # In a ring of eight a rank sends 7/4 of 800 Mbit.
    phase = {"start_ms": 0.0, "length_ms": length, "rate_mbps": round(1_400_000 / length)}
    kind = {"collective": "all-reduce", "bytes": 100_000_000}
    assert found.traffic == {"period_ms": 250.0, "phases": [{**phase, **kind}]}
    assert found.notes == (LATE,)


@pytest.mark.parametrize("never", [0, None])
def test_a_flight_recorder_without_times_is_refused(tmp_path: Path, never: int | None) -> None:
    text = recorded(time_discovered_completed_ns=never)
    with pytest.raises(InputError, match="without times: 8, of 800 MB; set TORCH_NCCL_ENABLE_TIM"):
        profiled(tmp_path / "a.json", text)


# ------------------------------------------------------------------ Inspectors


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
