"""A gate goes over to another claim, or clock, step by step and without a stall."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from metronome_opt.gate import STALL, Claim, Gate
from tests.gate.clock import EPOCH, MS, Clock, began_ms, claim, run, said

PERIOD = 100
STEPS = math.ceil(1 / STALL) + 1


def says(path: Path, text: str) -> None:
    """Put a new file of claims in the place of the old one."""
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.replace(path)


def gives(path: Path, offset_ms: int, period_ms: int = PERIOD, **more: object) -> None:
    says(path, json.dumps({"offset_ms": offset_ms, "period_ms": period_ms, **more}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "claim.json"


def test_new_period_and_bursts_are_followed(file: Path) -> None:
    clock = Clock()
    gives(file, 0, starts_ms=[0, 50])
    gate = clock.gate(file=file)
    assert began_ms(run(clock, gate, 5, 0)) == [0]
    gives(file, 0, 80, starts_ms=[0])  # in the middle of an iteration
    assert began_ms(run(clock, gate, 5, 5)) == [50]
    # The next window would be 100; 160 is the first of the new ones, and a quarter of 80 is 20.
    assert began_ms(run(clock, gate, 5, *[50] * 5)) == [120, 220, 320, 400, 480]


def test_file_written_twice_within_a_tick_is_read_twice(file: Path) -> None:
    clock = Clock()
    gate: Gate | None = None
    for offset in (20, 40, 60):  # the same size, and within a tick of the file system's clock
        file.write_text(json.dumps({"offset_ms": offset, "period_ms": PERIOD}))
        gate = gate or clock.gate(file=file)
        run(clock, gate, 10, 0)
        assert gate.claim is not None
        assert gate.claim.offset_ns == offset * MS


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (None, "cannot be read (No such file or directory)"),
        ('{"offset_ms": 20, "per', "is not JSON (Unterminated string"),
    ],
)
def test_broken_file_lets_bursts_through_until_mended(
    file: Path, text: str | None, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    gives(file, 20)
    gate = clock.gate(file=file)
    assert began_ms(run(clock, gate, 10, 0, 60)) == [20, 120]
    if text is None:
        file.unlink()
    else:
        says(file, text)
    free = run(clock, gate, 10, *[60] * 5)
    assert began_ms(free) == [190, 260, 330, 400, 470]
    assert [burst.late_ns for burst in free] == [None] * 5
    assert gate.claim is None
    (warning,) = said(caplog)
    assert warning.startswith(f"{file}: {start}")
    assert warning.endswith("; bursts do not wait")
    gives(file, 20)
    # Ready at 540, the next window is 620: 25, 50 and 75 later, then there.
    assert began_ms(run(clock, gate, 10, *[60] * 5)) == [565, 690, 815, 920, 1020]
    assert len(said(caplog)) == 1


def test_gating_changes_between_iterations() -> None:
    clock = Clock()
    slots, none = claim(0, 100, 0, 50), Claim(0, 100 * MS, (0, 50 * MS), gated=False)
    gate = clock.gate(slots)
    assert began_ms(run(clock, gate, 5, 0)) == [0]
    gate.set_claim(none)
    (second,) = run(clock, gate, 5, 5)
    assert (second.began / MS, second.phase, second.late_ns) == (50, 1, 0)
    (first,) = run(clock, gate, 5, 5)
    assert (first.began / MS, first.phase, first.late_ns) == (60, 0, None)
    gate.set_claim(slots)
    (second,) = run(clock, gate, 5, 5)
    assert (second.began / MS, second.phase, second.late_ns) == (70, 1, None)
    # Ready at 80, the next window is 100, less than a quarter of a period later.
    assert began_ms(run(clock, gate, 5, 5, 5)) == [100, 150]


@pytest.mark.parametrize(
    ("jump_ms", "elapsed_ms"), [(1.9, 60), (-1.9, 60), (9.9, 8060), (-9, 8060)]
)
def test_clock_drift_is_followed_silently(
    jump_ms: float, elapsed_ms: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100, cushion_ms=2))
    run(clock, gate, 10, 0)
    clock.set_by += round(jump_ms * MS)
    (burst,) = run(clock, gate, 10, elapsed_ms)
    assert (clock.set_by + burst.began - EPOCH) % (100 * MS) <= 2 * MS
    assert said(caplog) == []
    clock.set_by += 3_600_030 * MS  # is set, and drifts no more
    (burst,) = run(clock, gate, 10, 80)
    assert (burst.waited_ns, burst.window_at) == (0, None)
    (line,) = said(caplog)
    assert line.startswith("the clock was set by more than the cushion; windows are taken up step")
