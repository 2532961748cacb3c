"""Traces of Kineto: steps and kernels in all spellings, by the clock of the GPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.measure import profile_file
from tests.kubernetes.profiles.trace_files import (
    MARKED,
    PHASES,
    REDUCED,
    Event,
    ahead,
    assert_found,
    kernel,
    kineto,
    pack,
    profiled,
    run,
    step,
)

SHARED = Path(__file__).parents[4] / "shared" / "data" / "kineto"

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
