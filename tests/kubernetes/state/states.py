"""A small cluster whose jobs are gated, and what their gates count."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from metronome_opt.kubernetes.state.observations import GateCounter, Read
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.cluster_input import ClusterSpec
from tests.kubernetes.state import small

RATE = 900
"""Of a burst, in Mbit/s; two of them do not fit a link of 1,000."""


def spec(nodes: int = 2, mbps: int = 1000, hyperperiod: int = 400, gpus: int = 4) -> ClusterSpec:
    """Return nodes n0, n1, ... with an interface each; 400 slots of 5 ms are 2 s."""
    return small.cluster([nodes], gpus=gpus, interface=mbps, uplink=None, hyperperiod=hyperperiod)


def reservation(
    name: str,
    offset: int,
    *,
    nodes: str = "n0 n1",
    length: int = 60,
    stretch: int = 0,
    period: int = 200,
    weight: int = 1,
) -> Reservation:
    """Return the placement of a job that bursts at the beginning of each period, by default 1 s."""
    fields = {"gpus": 1, "period": period, "weight": weight, "max_stretch": stretch}
    held = small.running(name, nodes, (0, length, RATE), offset=offset, **fields)
    return held.model_copy(update={"stretch": stretch})


def state_of(*placed: Reservation) -> ClusterState:
    """Return the cluster with some jobs on their nodes."""
    return small.state_of(spec(), *placed)


def totals(
    *, computing_ms: float, burst_ms: float, waited_ms: float = 0.0, iterations: int = 60
) -> dict[str, float]:
    """Return what a gate counts in so many iterations of one burst at `RATE`."""
    sent = burst_ms * RATE * 125  # bytes
    return {
        "iterations": iterations,
        "iteration_seconds": iterations * (computing_ms + burst_ms + waited_ms) / 1000,
        "bursts": iterations,
        "burst_seconds": iterations * burst_ms / 1000,
        "waited_seconds": iterations * waited_ms / 1000,
        "late_seconds": 0.0,
        "sent_bytes": iterations * sent,
        "fastest_bytes": iterations // 16 * sent,
        "fastest_seconds": iterations // 16 * burst_ms / 1000,
    }


def counters(
    jobs: Mapping[str, Mapping[str, float]], begin_s: float, for_s: float
) -> list[GateCounter]:
    """Return counters that grow evenly to their totals, scraped once a second."""
    times = begin_s + np.arange(for_s + 1)
    return [
        GateCounter(job, name, times, value * (times - begin_s) / for_s)
        for job, counted in jobs.items()
        for name, value in counted.items()
    ]


def reading(jobs: Mapping[str, Mapping[str, float]]) -> Read:
    """Return a source of counters in which a minute of each job ends when it is read."""
    return lambda _, end_s: counters(jobs, end_s - 60, 60)
