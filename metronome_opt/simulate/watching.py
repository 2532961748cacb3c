"""What can be seen of a running job from outside, gathered from look to look."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metronome_opt.control import Burst, Observation
from metronome_opt.instance import Phase
from metronome_opt.simulate.runner import Seen

_ENOUGH = 8  # iterations, before anything is said
_FORGET = 64  # iterations, after which what was seen before counts half
_SURE = 3.0  # standard errors of a mean: many jobs are looked at often


class Watch:
    """The computing times and bursts of one job; nothing that has not happened yet.

    Parameters
    ----------
    seen
        The first look.
    """

    def __init__(self, seen: Seen) -> None:
        self._counts = seen.computed.astype(np.float64)
        self._sums, self._squares = seen.computing, seen.squares
        self._volume, self._shortest = seen.volume, seen.shortest
        self._began = seen.began

    def add(self, seen: Seen) -> None:
        """Take a further look in."""
        if self._counts.max() > _FORGET:
            self._counts, self._sums = self._counts / 2, self._sums / 2
            self._squares = self._squares / 2
        self._counts = self._counts + seen.computed
        self._sums = self._sums + seen.computing
        self._squares = self._squares + seen.squares
        self._shortest = np.minimum(self._shortest, seen.shortest)
        self._began = seen.began

    @property
    def is_known(self) -> bool:
        """Whether enough was seen to go by."""
        sent = self._volume > 0
        return bool(self._counts.max() >= _ENOUGH and np.isfinite(self._shortest[sent]).all())

    @property
    def computing_ms(self) -> float:
        """Mean computing time of an iteration."""
        return float(self._means.sum())

    @property
    def spread_ms(self) -> float:
        """Standard deviation of the computing time of an iteration."""
        return float(np.sqrt(self._variances.sum()))

    @property
    def volume(self) -> float:
        """What a flow sends in an iteration, Mbit/s * ms."""
        return float(self._volume.sum())

    def began_ms(self) -> float | None:
        """Return when the first burst of an iteration began last; None if none was seen."""
        first = float(self._began[self._volume > 0][0])
        return first if math.isfinite(first) else None

    def bursts(self, phases: Sequence[Phase], slot_ms: int) -> tuple[Burst, ...]:
        """Return the bursts of an iteration that nobody holds up.

        A burst is as fast as it was seen at its fastest, or as claimed if it always met others.
        """
        ordered = sorted(phases, key=lambda phase: phase.start)
        variances = self._variances / np.maximum(self._counts, 1)
        begin, doubt, found = 0.0, 0.0, []
        sending = iter(ordered)
        for mean, variance, volume, shortest in zip(
            self._means, variances, self._volume, self._shortest, strict=True
        ):
            begin, doubt = begin + float(mean), doubt + float(variance)
            if volume > 0:
                phase = next(sending, ordered[-1])
                length = min(float(shortest), float(volume) / phase.rate)
                found.append(
                    Burst(
                        begin,
                        length,
                        float(volume) / length,
                        start_error_ms=_SURE * math.sqrt(doubt) + slot_ms / 2,
                    )
                )
                begin += length
        return tuple(found)

    def observation(
        self, phases: Sequence[Phase], slot_ms: int, *, period_ms: float, keeps_slot: bool
    ) -> Observation:
        """Return what was seen of a job that claims some bursts.

        Parameters
        ----------
        phases, slot_ms
            As claimed.
        period_ms
            From one iteration to the next as claimed.
        keeps_slot
            Whether it waits for a slot: then a shorter iteration does not show, and it is known
            when it was to begin.
        """
        bursts = self.bursts(phases, slot_ms)
        alone = self.computing_ms + sum(burst.length_ms for burst in bursts)
        began = self.began_ms() if keeps_slot else None
        first = min(phase.start for phase in phases) * slot_ms
        return Observation(
            period_ms=max(period_ms, alone) if keeps_slot else alone,
            origin_ms=None if began is None else began - first,
            bursts=bursts,
            period_error_ms=max(burst.start_error_ms for burst in bursts),
            origin_error_ms=_SURE * self.spread_ms,
        )

    @property
    def _means(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.asarray(self._sums / np.maximum(self._counts, 1))

    @property
    def _variances(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        mean_square = self._squares / np.maximum(self._counts, 1)
        return np.asarray(np.maximum(mean_square - self._means**2, 0.0))
