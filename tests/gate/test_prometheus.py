"""A real Prometheus scrapes gates, and the monitor sees what their loops do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.cluster.prometheus import Prometheus
from metronome_opt.cluster.store import Store
from metronome_opt.gate import Claim, Gate
from tests.gate.clock import MS
from tests.prometheus.server import free_port, needs_prometheus, prometheus

INTERVAL_MS = 1000


@pytest.mark.slow
@needs_prometheus
def test_counters_come_back_as_they_were_counted(tmp_path: Path) -> None:
    gate = Gate(Claim(0, 100 * MS), job="bert", task=0, metrics="127.0.0.1:0")
    assert gate.address is not None
    with prometheus(
        tmp_path, scrape=(f"127.0.0.1:{gate.address[1]}",), interval_ms=INTERVAL_MS
    ) as url:
        server = Prometheus(f"{url}/", timeout_s=20)
        begin_s = time.time()
        assert server.read(begin_s - 1000, begin_s - 500) == []
        for _ in range(60):
            with gate.burst(1000):
                time.sleep(0.02)
            time.sleep(0.08)
        time.sleep(3 * INTERVAL_MS / 1000)
        counters = {each.name: each for each in server.read(begin_s - 60, time.time())}
        gate.close()
    assert {each.job for each in counters.values()} == {"bert"}
    assert counters["bursts"].values[-1] == 60
    assert counters["sent_bytes"].values[-1] == 60_000
    seconds = counters["burst_seconds"]
    assert 1.2 <= seconds.values[-1] < 3
    assert seconds.increase(0) == pytest.approx(seconds.values[-1] - seconds.values[0])


# ------------------------------------------------------------------ from a place to the monitor

# No node has room for two tasks of a job, so both jobs cross both links, in turns.
CLUSTER = """
format: metronome-cluster/1
name: two-nodes
slot_ms: 10
hyperperiod: 78
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
period: 38
max_stretch: 1
phases: [{start: 28, length: 10, rate: 20000}]
"""
LOOP = """
import sys, time
from metronome_opt.gate import Gate

gate = Gate.from_environment()
while True:
    time.sleep(float(sys.argv[1]))
    with gate.burst(sent_bytes=250_000_000):
        time.sleep(0.1)
"""


@contextmanager
def looping(job: str, computing_s: float, port: int, claims: Path) -> Iterator[None]:
    """Let the first task of a job train in a process of its own."""
    environ = {name: value for name, value in os.environ.items() if "METRONOME_" not in name}
    environ |= {"METRONOME_JOB": job, "METRONOME_TASK": "0", "METRONOME_CLAIM": str(claims)}
    environ["METRONOME_METRICS"] = f"127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-c", LOOP, str(computing_s)], env=environ)
    try:
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@needs_prometheus
def test_the_monitor_gives_a_job_that_computes_longer_the_period_that_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, manifests = tmp_path / "state", tmp_path / "manifests"
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    made = ["--cluster", str(tmp_path / "cluster.yaml")]
    for name, gpus in (("bert", "3"), ("vgg", "1")):
        job = tmp_path / f"{name}.yaml"
        job.write_text(JOB.replace("NAME", name).replace("GPUS", gpus))
        assert main(["place", str(state), str(job), *made, "--claims", str(manifests)]) == 0
        made = []
    ports = free_port(), free_port()
    scraped = tuple(f"127.0.0.1:{port}" for port in ports)
    claims = manifests / "claims.yaml"
    (tmp_path / "server").mkdir()
    with (
        prometheus(tmp_path / "server", scrape=scraped, interval_ms=INTERVAL_MS) as url,
        looping("bert", 0.28, ports[0], claims),
        looping("vgg", 0.6, ports[1], claims),  # claimed are 0.28 s as well
    ):
        time.sleep(20)
        capsys.readouterr()
        asked = ["monitor", str(state), "--prometheus", url, "--once", "--json"]
        assert main([*asked, "--claims", str(manifests)]) == 0
        document = json.loads(capsys.readouterr().out)
    assert document["unmeasured"] == {}
    assert "vgg: period without waiting in ms 7" in document["reason"]
    assert "bert: period" not in document["reason"].partition("; vgg:")[0]
    with Store(state) as store:
        vgg = store.state.claims["vgg"]
        assert 70 <= vgg.gang.period <= 73
        assert not vgg.gated or vgg.period == 78
        assert store.state.claims["bert"].gang.period == 38
