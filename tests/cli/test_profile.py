"""`metronome profile` prints the traffic of a job, or the reason of its absence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from tests.kubernetes.profiles.test_profile import recorded

Captured = pytest.CaptureFixture[str]

# Every two seconds 0.5 s at 1,000 Mbit/s, sampled every 0.1 s, for a minute.
RATES = "time,rate\n" + "".join(
    f"{step / 10:.1f},{1000 if 1 <= step % 20 <= 5 else 0}\n" for step in range(600)
)


def test_samples_have_a_period_and_bursts_that_a_job_file_takes(
    tmp_path: Path, capsys: Captured
) -> None:
    path, job = tmp_path / "eth0.csv", tmp_path / "job.json"
    path.write_text(RATES)
    assert main(["profile", str(path)]) == 0
    period, burst = capsys.readouterr().out.splitlines()
    assert period.startswith("period 2,000.00 ± ")
    assert burst.startswith("burst from 0.00 ± ")
    assert main(["profile", str(path), "--json"]) == 0
    traffic = json.loads(capsys.readouterr().out)["traffic"]
    phase = {"start_ms": 0.0, "length_ms": 500.0, "rate_mbps": 1000}
    assert traffic == {"period_ms": 2000.0, "phases": [phase]}
    document = {"format": "metronome-job/1", "name": "eth0", "workers": 2, "traffic": traffic}
    job.write_text(json.dumps(document))
    assert main(["validate", str(job)]) == 0


def test_without_a_period_the_reason_is_printed(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "quiet.csv"
    path.write_text("time,rate\n" + "".join(f"{second},0\n" for second in range(100)))
    assert main(["profile", str(path)]) == 1
    assert capsys.readouterr().out == "not periodic: the rate is constant\n"


def test_a_record_of_a_gate_is_recognised_by_its_name(tmp_path: Path, capsys: Captured) -> None:
    path, job = recorded(tmp_path), tmp_path / "job.json"
    assert main(["profile", str(path)]) == 0
    assert "jitter 4.3 % of computing times" in capsys.readouterr().out.splitlines()
    assert main(["profile", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["traffic"]["period_ms"] == pytest.approx(172, abs=0.2)
    stated = {field: said[field] for field in ("traffic", "jitter")}
    job.write_text(json.dumps({"format": "metronome-job/1", "name": "a", "workers": 2, **stated}))
    assert main(["validate", str(job)]) == 0
    path.write_text(path.read_text().replace('"sent_bytes": 6000000', '"sent_bytes": null'))
    assert main(["profile", str(path)]) == 2
    assert f"{path}: sent_bytes: null at 1700000000." in capsys.readouterr().err
