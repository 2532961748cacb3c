"""`metronome profile` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.throughput import measure
from metronome_opt.__main__ import main
from metronome_opt.profiles import Samples
from tests.profiles.cases import job, samples_of

Captured = pytest.CaptureFixture[str]


def write(path: Path, samples: Samples, heading: str = "rate") -> Path:
    rows = zip(samples.times_s, samples.rates_mbps, strict=True)
    lines = [f"{time:.6f},{rate:.3f}" for time, rate in rows]
    path.write_text("\n".join([f"time,{heading}", *lines, ""]), encoding="utf-8")
    return path


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    return write(tmp_path / "link.csv", measure(job(jitter=0.02), 0.021, snr_db=20))


def test_a_table_of_the_period_and_its_bursts(measured: Path, capsys: Captured) -> None:
    assert main(["profile", str(measured), "--slot-ms", "50"]) == 0
    told = capsys.readouterr().out
    for words in ("period", "±", "duty", "30.", "confidence", "slots of 50 ms"):
        assert words in told


def test_json(measured: Path, capsys: Captured) -> None:
    assert main(["profile", str(measured), "--json", "--slot-ms", "50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["period_ms"] == pytest.approx(1000, rel=0.01)
    assert found["duty"] == pytest.approx(0.3, abs=0.01)
    assert found["bursts"][0]["rate_mbps"] == pytest.approx(10_000, rel=0.01)
    assert found["reason"] is None
    (phase,) = found["phases"]
    assert phase["start"] == 0
    assert phase["length"] in (6, 7)


def test_what_is_not_periodic_is_told_and_ends_with_1(tmp_path: Path, capsys: Captured) -> None:
    rates = np.random.default_rng(0).uniform(1000, 2000, 300)
    path = write(tmp_path / "noise.csv", samples_of(rates))
    picture = tmp_path / "noise.svg"
    assert main(["profile", str(path), "--slot-ms", "5", "--plot", str(picture)]) == 1
    assert capsys.readouterr().out.startswith("not periodic: ")
    assert picture.exists()
    assert main(["profile", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["period_ms"] is None


def test_a_picture(measured: Path, tmp_path: Path, capsys: Captured) -> None:
    picture = tmp_path / "profile.png"
    assert main(["profile", str(measured), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().err == f"wrote {picture}\n"
