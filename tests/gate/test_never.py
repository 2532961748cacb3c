"""A gate never waits longer than a period, never raises, and lets its loop end."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.gate import STALL, Claim, Gate
from tests.gate.clock import MS, Clock, claim, run, said


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    """Draw a claim, which may be broken."""
    period = draw(st.integers(-1, 300))
    starts = draw(st.lists(st.integers(-1, 300), max_size=3, unique=True))
    ordered = tuple(sorted(starts)) if draw(st.booleans()) else tuple(starts)
    return Claim(draw(st.integers(-1, 300)), period, ordered, draw(st.integers(-1, 400)))


STEP = st.one_of(
    st.tuples(st.just("compute"), st.integers(0, 1000)),
    st.tuples(st.just("set"), st.integers(-(10**7), 10**7)),
    st.tuples(st.just("set_claim"), claims()),
)


@given(claims(), st.lists(STEP, max_size=40))
def test_no_burst_waits_longer_than_a_period(first: Claim, steps: list[tuple[str, Any]]) -> None:
    clock = Clock()
    gate = clock.gate(first)
    for what, how in steps:
        if what == "set_claim":
            gate.set_claim(how)
        elif what == "set":
            clock.set_by += how
        else:
            clock.now += how
        periods = [0 if gate.claim is None else gate.claim.period_ns]
        if gate._tracker is not None:  # the one before still counts within an iteration
            periods.append(gate._tracker.claim.period_ns)
        with gate.burst() as burst:
            clock.now += 7
        assert 0 <= burst.waited_ns <= max(periods)
        if gate.claim is None:
            assert burst.waited_ns == 0


@given(
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(25, 99),
    st.integers(-(10**6), 10**6),
    st.booleans(),
)
def test_delay_per_iteration_is_a_share_of_the_period(
    before: int, after: int, busy: int, jump: int, lost: bool
) -> None:
    clock = Clock()
    gate = clock.gate(claim(before, 100))
    last = run(clock, gate, 5, 0, *[busy - 5] * 3)[-1]
    if lost:
        gate.set_claim(claim(0, 0))
        last = run(clock, gate, 5, *[busy - 5] * 3)[-1]
    gate.set_claim(claim(after, 100))
    bursts = run(clock, gate, 5, *[busy - 5] * 6)
    for burst in bursts:
        assert burst.began - last.began <= 100 * MS * (1 + STALL)
        last = burst
    assert (last.began_at - after * MS) % (100 * MS) == 0
    # Of a clock that was set one burst goes at once; after it no burst is later than in steps.
    clock.set_by += jump * MS
    for number, burst in enumerate(run(clock, gate, 5, *[busy - 5] * 8), start=1):
        assert burst.began - last.began <= 100 * MS * (1 + STALL) * number
    if busy >= 50:
        assert (burst.began_at - after * MS) % (100 * MS) == 0


@pytest.mark.parametrize(
    ("sink", "place", "end"),
    [
        ("record", "/dev/full", "No space left on device; bursts are not recorded any more"),
        ("record", "/", "Is a directory; bursts are not recorded"),
        ("record", "r\0", "embedded null byte; bursts are not recorded"),
        ("metrics", "127.0.0.1:x", "must be HOST:PORT; no metrics are given"),
        ("metrics", "x\0:1", "must not contain null character; no metrics are given"),
    ],
)
def test_unusable_sink_is_one_warning(
    sink: str, place: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100), **{sink: place})
    run(clock, gate, 10, *[2000] * 5)
    gate.close()
    (line,) = said(caplog)
    assert line.startswith(f"{place}: ")
    assert line.endswith(end)


class Unwilling:
    def __int__(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize("name", ["claim", "file", "job", "task", "record", "metrics"])
def test_no_argument_raises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: list[Any] = [
        True,
        -1,
        2**99,
        10**5000,
        1.5,
        b"x",
        "a\udcff",
        "\0",
        "",
        [],
        {},
        object(),
        Clock,
    ]
    for value in wrong:
        clock = Clock()
        gate = Gate(wall=clock.wall, steady=clock.steady, sleep=clock.sleep, **{name: value})
        run(clock, gate, 10, 0, 0)
        gate.metrics().encode()
        gate.close()
        assert clock.now == 20 * MS


def test_gate_works_where_no_thread_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    path = tmp_path / "claims"
    text = '{"offset_ms": %d, "period_ms": 100}' + " " * 2**19
    path.write_text(text % 50)
    clock = Clock()
    gate = clock.gate(file=path, metrics="127.0.0.1:0")
    (first,) = run(clock, gate, 10, 0)
    path.write_text(text % 70)
    (*_, last) = run(clock, gate, 10, *[90] * 5)
    assert (first.began_at % (100 * MS), last.began_at % (100 * MS)) == (50 * MS, 70 * MS)
    assert gate.address is None
    assert said(caplog) == ["127.0.0.1:0: can't start new thread; no metrics are given"]


def test_scrapes_show_a_name_that_is_no_utf8(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100), job="a\udcff", metrics="127.0.0.1:0")
    run(clock, gate, 10, 0)
    assert gate.address is not None
    url = "http://{}:{}/metrics".format(*gate.address)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert 'job="a\\\\udcff"' in answer.read().decode()
    gate.close()
    assert said(caplog) == []


@pytest.mark.parametrize("size", ["many", -5, float("nan"), float("inf"), Unwilling(), [1]])
def test_invalid_size_is_not_counted(size: object, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100), metrics="127.0.0.1:0")
    with gate.burst(7) as first:
        clock.passes(10)
    with gate.burst() as burst:
        burst.sent_bytes = size  # type: ignore[assignment]
        clock.passes(10)
        assert "metronome_gate_sent_bytes_total" in gate.metrics()
    gate.close()
    assert (first.sent_bytes, burst.sent_bytes) == (7, None)
    (line,) = said(caplog)
    assert line.endswith("must be a number, at least 0; it is not counted")


@pytest.mark.parametrize(
    ("wrong", "start"),
    [
        (None, ""),
        ("claim", ""),
        (Claim(0, 5, 3), ""),
        (Claim(0, 0), "period_ns: 0: must be positive"),
        (Claim(0.5, 5), "offset_ns: 0.5: must be a whole number"),
        (Claim(0, 10**90), "period_ns: an integer of 299 bits: longer than an hour"),
    ],
)
def test_invalid_claim_is_one_warning(
    wrong: Any, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    gate = clock.gate(claim(50, 100))
    gate.set_claim(wrong)
    run(clock, gate, 10, 0, 0)
    assert clock.now == 20 * MS
    (line,) = said(caplog)
    assert line.startswith(start)
    assert line.endswith("; bursts do not wait")


def test_broken_gate_lets_bursts_through(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    def broken(seconds: float) -> None:
        raise OverflowError(f"{seconds} s")

    gate = Gate(claim(50, 100), wall=clock.wall, steady=clock.steady, sleep=broken)
    run(clock, gate, 10, 0, 0, 0)
    assert clock.now == 30 * MS
    assert said(caplog) == ["OverflowError: 0.05 s; bursts do not wait any more, report this"]


def test_process_ends_while_gate_serves(tmp_path: Path) -> None:
    code = (
        "from metronome_opt.gate import Claim, Gate\n"
        f"gate = Gate(Claim(0, 10**6), metrics='127.0.0.1:0', record={str(tmp_path / 'r')!r})\n"
        "for _ in range(3):\n"
        "    with gate.burst(): pass\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    assert len((tmp_path / "r").read_text().splitlines()) == 3
