"""A small cluster whose jobs are known, and what its counters would have said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from metronome_opt.profiles.samples import Samples, from_series

from metronome_opt.instance import Link, Phase
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Host, Resources
from metronome_opt.scheduling.gang import Gang, Reservation
from metronome_opt.scheduling.state import ClusterState, Mode
from tests.prometheus.history import EPOCH_S, Traffic

LENGTH_S = 120
BURST_S, RATE = 0.3, 900  # 60 slots of 5 ms; two of them do not fit 1,000 Mbit/s
SELECTOR = 'sent_bytes_total{pod="$pod"}'


def spec(nodes: int = 2) -> ClusterSpec:
    """Return nodes n0, n1, ... of 4 GPUs and 1,000 Mbit/s; 400 slots of 5 ms are 2 s."""
    names = [f"n{index}" for index in range(nodes)]
    return ClusterSpec(
        name="wired",
        slot_ms=5,
        hyperperiod=400,
        nodes=tuple(Host(name=name, has=Resources(gpus=4), interface=name) for name in names),
        links=tuple(Link(name=name, capacity=1000) for name in names),
    )


def claim(
    name: str,
    offset: int,
    *,
    nodes: str = "n0 n1",
    length: int = 60,
    rate: int = RATE,
    weight: int = 1,
    period: int = 200,
    stretch: int = 0,
) -> Reservation:
    """Return the claim of a job that bursts once a period, of a second if not said else."""
    names = tuple(nodes.split())
    gang = Gang(
        name=name,
        tasks=len(names),
        period=period,
        phases=(Phase(start=0, length=length, rate=rate),),
        weight=weight,
        max_stretch=stretch,
    )
    return Reservation(gang=gang, nodes=names, offset=offset, stretch=stretch)


def state_of(*claims: Reservation, nodes: int = 2, mode: Mode = "shared") -> ClusterState:
    """Return the cluster with some claims in force."""
    state = ClusterState(spec(nodes), mode=mode)
    for each in claims:
        state.reserve(each)
    return state


def two_apart() -> ClusterState:
    """Return a, which is important, and b, half a period later: 40 slots between any two bursts."""
    return state_of(claim("a", 0, weight=4), claim("b", 100))


def traffic(offset_s: float = 0.0, *, period_s: float = 1.0, length_s: float = BURST_S) -> Traffic:
    """Return what a job sends whose first burst begins so late after the epoch."""
    return Traffic(period_s, ((0.0, length_s, float(RATE)),), offset_s=offset_s)


SILENT = Traffic(1.0, ((0.0, BURST_S, 0.0),))


def samples(
    sent: Traffic, *, begin_s: float = 0.0, end_s: float = LENGTH_S, step_s: float = 0.05
) -> Samples:
    """Return the samples of a counter, from and to some seconds after the epoch."""
    steps = np.arange(round(begin_s / step_s), round(end_s / step_s) + 1)
    times_s = steps.astype(np.float64) * step_s
    return from_series(pd.Series(sent.sent(times_s), index=times_s + EPOCH_S), counter=True)


@dataclass
class Wire:
    """Answers as a server would that has scraped these counters, and keeps what it was asked."""

    sent: Mapping[str, Traffic]
    asked: list[tuple[str, float, float]] = field(default_factory=list)

    def read(self, query: str, start_s: float, end_s: float) -> dict[str, Samples]:
        self.asked.append((query, start_s - EPOCH_S, end_s - EPOCH_S))
        pod = query.partition('pod="')[2].partition('"')[0]
        if pod not in self.sent:
            return {}
        begin_s, until_s = max(0.0, start_s - EPOCH_S), min(LENGTH_S, end_s - EPOCH_S)
        return {pod: samples(self.sent[pod], begin_s=begin_s, end_s=until_s)}


def content(folder: Path, *, but: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, but for some."""
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in but
    }
