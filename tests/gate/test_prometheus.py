"""A real Prometheus scrapes a gate, and the profile of what it has is that of the loop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from metronome_opt.gate import Claim, Gate
from metronome_opt.profiles.profile import profile
from metronome_opt.profiles.prometheus import Prometheus
from tests.gate.clock import MS
from tests.prometheus.server import needs_prometheus, prometheus

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
    with prometheus(tmp_path, scrape=scrape, interval_ms=INTERVAL_MS) as url:
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
