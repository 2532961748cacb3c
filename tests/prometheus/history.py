"""What a Prometheus would have scraped: counters of bytes of jobs whose bursts are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EPOCH_S = 1_700_000_000.0


@dataclass(frozen=True)
class Traffic:
    """A job's bursts: (start_s, length_s, rate_mbps) in each period, the first one `offset_s` late.

    Each period is `jitter` (a standard deviation, relative) longer or shorter, in silence.
    """

    period_s: float
    bursts: tuple[tuple[float, float, float], ...]
    offset_s: float = 0.0
    jitter: float = 0.0
    seed: int = 0

    def sent(self, times_s: Floats) -> Floats:
        """Return the bytes sent by each time after the epoch, exactly."""
        count = int(times_s[-1] / self.period_s * (1 + self.jitter)) + 2
        rng = np.random.default_rng(self.seed)
        lengths = self.period_s * (1 + self.jitter * rng.standard_normal(count))
        begins = self.offset_s + np.concatenate([[0.0], np.cumsum(lengths[:-1])])
        corners, steps = [], []
        for start, length, rate in self.bursts:
            corners.append(np.stack([begins + start, begins + start + length], axis=1))
            steps.append(np.broadcast_to([0.0, rate * length * 125_000], (count, 2)))
        when = np.concatenate(corners, axis=1).ravel()
        total = np.cumsum(np.concatenate(steps, axis=1).ravel())
        return np.asarray(np.interp(times_s, when, total), dtype=np.float64)


@dataclass(frozen=True)
class Scraped:
    """How a counter was scraped: at which times after the epoch (ms), with which accidents."""

    traffic: Traffic
    step_ms: int = 100
    length_s: int = 120
    scrape_jitter_ms: int = 0
    gaps_s: tuple[tuple[float, float], ...] = ()
    resets_s: tuple[float, ...] = ()
    seed: int = 0

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the times, milliseconds since the epoch, and the bytes counted at them."""
        rng = np.random.default_rng(self.seed)
        times_ms = np.arange(0, self.length_s * 1000, self.step_ms)
        late = rng.integers(0, self.scrape_jitter_ms + 1, len(times_ms))
        times_ms = times_ms + np.minimum(late, self.step_ms - 1)
        for begin, end in self.gaps_s:
            times_ms = times_ms[(times_ms < begin * 1000) | (times_ms >= end * 1000)]
        sent = self.traffic.sent(times_ms / 1000)
        for reset in self.resets_s:
            lost = float(self.traffic.sent(np.array([reset, self.length_s]))[0])
            sent = np.where(
                times_ms < reset * 1000, sent, self.traffic.sent(times_ms / 1000) - lost
            )
        return times_ms + round(EPOCH_S * 1000), np.rint(sent).astype(np.int64)


@dataclass(frozen=True)
class History:
    """Series of one counter, by the value of their label `device`."""

    series: Mapping[str, Scraped] = field(default_factory=dict)
    metric: str = "node_network_transmit_bytes"

    def openmetrics(self) -> str:
        return "\n".join([f"# TYPE {self.metric} counter", *self._lines(), "# EOF", ""])

    def _lines(self) -> Iterable[str]:
        for device, scraped in self.series.items():
            labels = f'{{device="{device}",instance="n-1:9100"}}'
            for when, count in zip(*scraped.counts(), strict=True):
                yield f"{self.metric}_total{labels} {count} {when // 1000}.{when % 1000:03d}"
