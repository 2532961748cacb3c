"""``metronome profile`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from tests.cluster.test_recorded import recorded

Captured = pytest.CaptureFixture[str]

# Every two seconds 0.5 s at 1,000 Mbit/s, counted every 0.1 s, for a minute.
COUNTED = "time,bytes\n" + "".join(
    f"{step / 10:.1f},{(step // 20 * 5 + min(step % 20, 5)) * 12_500_000}\n" for step in range(600)
)


@pytest.fixture
def counter(tmp_path: Path) -> str:
    path = tmp_path / "eth0.csv"
    path.write_text(COUNTED)
    return str(path)


def test_a_counter_has_a_period_and_a_burst(counter: str, capsys: Captured) -> None:
    assert main(["profile", counter, "--counter"]) == 0
    printed = capsys.readouterr().out
    assert "2,000.00 ±" in printed
    assert "500.00 ±" in printed
    assert "1,000 ±" in printed


def test_json_is_what_a_job_file_takes(counter: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["profile", counter, "--counter", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    phase = {"start_ms": 0.0, "length_ms": 500.0, "rate_mbps": 1000}
    assert found["traffic"] == {"period_ms": 2000.0, "phases": [phase]}
    assert found["mean_mbps"] == pytest.approx(250, rel=0.01)
    job = {"format": "metronome-job/1", "name": "eth0", "workers": 2, "traffic": found["traffic"]}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["validate", str(tmp_path / "job.json")]) == 0


def test_without_a_period_the_reason_is_printed(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text("time,rate\n" + "".join(f"{second},0\n" for second in range(100)))
    assert main(["profile", str(path)]) == 1
    assert capsys.readouterr().out == "silent: nothing was sent\n"


def test_a_record_of_a_gate_is_told_by_its_name(tmp_path: Path, capsys: Captured) -> None:
    path, _ = recorded(tmp_path)
    assert main(["profile", str(path), "--json"]) == 0
    period_ms = json.loads(capsys.readouterr().out)["traffic"]["period_ms"]
    assert period_ms == pytest.approx(172, abs=0.2)
    assert main(["profile", str(path), "--counter"]) == 2
    assert "is a gate's record, which has no --counter" in capsys.readouterr().err
    path.write_text(path.read_text().replace('"sent_bytes": 6000000', '"sent_bytes": null'))
    assert main(["profile", str(path)]) == 2
    assert f"{path}: sent_bytes: null at 1700000000." in capsys.readouterr().err
