"""A real Prometheus scrapes gates: what it has is what the loops do, and the monitor sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from metronome_opt.profiles.prometheus import Prometheus

from metronome_opt.__main__ import main
from metronome_opt.cluster.profile import profile
from metronome_opt.gate import Claim, Gate
from tests.cli.watching import exposed
from tests.gate.clock import MS
from tests.prometheus.server import free_port, needs_prometheus, prometheus

SELECTOR = 'metronome_gate_sent_bytes_total{job="bert",task="0"}'
PERIOD_MS, BURST_MS = 397, 140  # no multiple of the interval, else steps never move on
INTERVAL_MS = 25
SENT = 12_000_000
LENGTH_S = 25


@pytest.mark.slow
@needs_prometheus
def test_the_profile_of_scrapes_has_the_loop_s_period_and_bursts(tmp_path: Path) -> None:
    gate = Gate(Claim(0, PERIOD_MS * MS), job="bert", task=0, metrics="127.0.0.1:0")
    assert gate.address is not None
    scrape = f"127.0.0.1:{gate.address[1]}"
    with prometheus(tmp_path, scrape=(scrape,), interval_ms=INTERVAL_MS) as url:
        begin_s = time.time()
        while time.time() < begin_s + LENGTH_S:
            with gate.burst(SENT):
                time.sleep(BURST_MS / 1000)
            time.sleep(0.15)  # computing
        found = Prometheus(url).raw(SELECTOR, begin_s + 1, time.time())
        gate.close()
    (samples,) = found.values()
    assert len(samples) > 0.5 * LENGTH_S * 1000 / INTERVAL_MS  # scrapes, also on a busy machine
    measured = profile(samples)
    assert measured.reason is None
    assert measured.period_ms == pytest.approx(PERIOD_MS, rel=0.005)
    (burst,) = measured.bursts
    assert burst.length_ms == pytest.approx(BURST_MS, abs=10)
    assert burst.rate_mbps == pytest.approx(SENT * 8e-3 / BURST_MS, rel=0.1)
    assert measured.origin_s is not None
    early_ms = 1000 * measured.origin_s % PERIOD_MS
    assert min(early_ms, PERIOD_MS - early_ms) <= 10


# ------------------------------------------------------- from a place to the monitor

# No node has room for two tasks of a job, so both jobs cross both links, in turns.
CLUSTER = """
format: metronome-cluster/1
name: two-nodes
slot_ms: 10
hyperperiod: 39
nodes:
- {name: n0, has: {gpus: 4}, interface: nic-0}
- {name: n1, has: {gpus: 4}, interface: nic-1}
links: [{name: nic-0, capacity: 25000}, {name: nic-1, capacity: 25000}]
"""
JOB = """
format: metronome-job/1
name: NAME
tasks: 2
each: {gpus: GPUS}
period: 39
phases: [{start: 0, length: 10, rate: 20000}]
"""
CLAIMED_MS = 390
LOOP = """
import time
from metronome_opt.gate import Gate

gate = Gate.from_environment()
while True:
    time.sleep(0.2)
    with gate.burst(sent_bytes=250_000_000):
        time.sleep(0.1)
"""
GATES = 'metronome_gate_sent_bytes_total{job="$job",task="$task"}'
WINDOW_S = 30


class Cluster:
    """Two jobs in a cluster of two nodes, and the commands that place and watch them."""

    def __init__(self, folder: Path) -> None:
        self.state, self.manifests = folder / "state", folder / "manifests"
        self.claims = self.manifests / "claims.yaml"
        self.metrics = folder / "monitor.prom"
        (folder / "cluster.yaml").write_text(CLUSTER)
        made = ["--cluster", str(folder / "cluster.yaml")]
        for name, gpus in (("bert", "3"), ("vgg", "1")):
            job = folder / f"{name}.yaml"
            job.write_text(JOB.replace("NAME", name).replace("GPUS", gpus))
            asked = [str(self.state), str(job), *made, "--claims", str(self.manifests)]
            assert main(["place", *asked]) == 0
            made = []

    def monitored(self, url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Check once, and return what it came to."""
        capsys.readouterr()
        asked = ["--state", str(self.state), "--prometheus", url, "--selector", GATES, "--once"]
        kept = ["--window", str(WINDOW_S), "--metrics", str(self.metrics), "--json"]
        assert main(["monitor", *asked, *kept]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert document["measured"] == ["bert", "vgg"]
        return document

    def measured(self, name: str) -> dict[str, float]:
        """Return what the last check measured of each job, in seconds."""
        text = exposed(self.metrics.read_text())
        return {
            job: text[f'metronome_job_{name}_seconds{{training_job="{job}"}}']
            for job in ("bert", "vgg")
        }


def drifted(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a check found of jobs that are off their slots."""
    return [finding for finding in document["findings"] if finding["kind"] == "drifted"]


@contextmanager
def looping(job: str, port: int, **told: str) -> Iterator[None]:
    """Let the first task of a job train in a process of its own."""
    environ = {name: value for name, value in os.environ.items() if "METRONOME_" not in name}
    environ |= {"METRONOME_JOB": job, "METRONOME_TASK": "0", **told}
    environ["METRONOME_METRICS"] = f"127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-c", LOOP], env=environ)
    try:
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@needs_prometheus
def test_the_monitor_sees_by_gates_who_keeps_to_a_claim_and_who_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path)
    bert, vgg = free_port(), free_port()
    scraped = tuple(f"127.0.0.1:{port}" for port in (bert, vgg))
    claims = {"METRONOME_CLAIM": str(cluster.claims)}
    (tmp_path / "server").mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(
            prometheus(tmp_path / "server", scrape=scraped, interval_ms=INTERVAL_MS)
        )
        stack.enter_context(looping("bert", bert, **claims))
        with looping("vgg", vgg, **claims):
            time.sleep(WINDOW_S + 2)
            first = cluster.monitored(url, capsys)
        assert first["decision"] == "nothing"
        assert drifted(first) == []
        for period_s in cluster.measured("period").values():
            assert period_s == pytest.approx(CLAIMED_MS / 1000, rel=0.02)
        # 0 and 190 ms are the claims, each with 90 ms between it and the other one.
        wrong = {"METRONOME_OFFSET_MS": "310", "METRONOME_PERIOD_MS": str(CLAIMED_MS)}
        with looping("vgg", vgg, **wrong):
            time.sleep(WINDOW_S + 2)
            found = cluster.monitored(url, capsys)
            again = cluster.monitored(url, capsys)
    for document in (found, again):
        (finding,) = drifted(document)
        assert finding["name"] == "vgg"
        assert finding["measured"] == pytest.approx(120, abs=25)  # ms
    assert "not believed yet: vgg: off its slot by +" in found["reason"]
    assert again["kept"]
    assert "vgg's claim put right: offset 190 -> " in again["reason"]
