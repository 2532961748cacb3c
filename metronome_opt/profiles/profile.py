"""The profile of a job: its period, bursts and rates as measured, or why there is no period."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.profiles.bursts import Burst, edge_doubt_s, measure_bursts, too_coarse
from metronome_opt.profiles.choosing import choose_steps
from metronome_opt.profiles.cycles import QUIET
from metronome_opt.profiles.grid import spans
from metronome_opt.profiles.pattern import Cycles, Nothing, find_cycles
from metronome_opt.profiles.rounding import to_phases
from metronome_opt.profiles.samples import Samples
from metronome_opt.profiles.steps import Steps

_NORMAL = 1.96  # standard errors on either side of 95 % of a normal distribution
_AS_WELL = 1.1  # times the usual error
_BLUR = 1.2  # of the jitter: how much the edges of bursts may be blurred by it


@dataclass(frozen=True)
class Profile:
    """What throughput says about a job.

    Attributes
    ----------
    period_ms, period_error_ms
        Mean length of a cycle, and half the width of an interval of about 95 %; None if the
        throughput is not periodic.
    bursts
        Of one period, in order; the first follows the longest silence and begins at 0.
    origin_s, origin_error_s
        When the first burst of one of the last cycles began, in seconds since the epoch. Phases
        wander, so that this cannot be told from the period and an early beginning.
    duty
        Share of time in bursts.
    mean_mbps
        Mean rate over all that was measured; None if nothing was, for any time.
    confidence
        From 0 to 1: share of the variance that a repeating pattern explains; the rest is noise.
    jitter
        Standard deviation of the lengths of cycles over the period.
    missing
        Share of the samples that are missing.
    reason
        Why there is no period, None if there is one.
    """

    period_ms: float | None
    period_error_ms: float | None
    bursts: tuple[Burst, ...]
    origin_s: float | None
    origin_error_s: float | None
    duty: float | None
    mean_mbps: float | None
    confidence: float
    jitter: float | None
    missing: float
    reason: str | None

    def phases(self, slot_ms: int, period_slots: int | None = None) -> tuple[Phase, ...]:
        """Return the bursts in slots, as a claim would state them.

        A burst begins at the nearest slot and gets whole slots until it has ended, then the lowest
        whole rate that carries its volume in these.

        Parameters
        ----------
        slot_ms
            Length of a slot.
        period_slots
            Slots of the period; None for the nearest number.

        Raises
        ------
        InputError
            If there is no period, or the slots are too long for the bursts to fit into it.
        """
        if self.period_ms is None:
            raise InputError(f"no phases: {self.reason}")
        nearest = round(self.period_ms / slot_ms)
        return to_phases(self.bursts, slot_ms, nearest if period_slots is None else period_slots)


def profile(samples: Samples, *, quiet: float = QUIET) -> Profile:
    """Find the period of a job, and its bursts.

    Parameters
    ----------
    samples
        Throughput over at least four periods, at least eight samples each: means between samples,
        not rates at single moments, see `Samples`. The more periods and samples, the
        more exact. Jitter of computing times may be up to about a tenth of a period.
    quiet
        Rates below this share of the highest are silence.

    Returns
    -------
    Profile
        With a `reason` and without a period if nothing repeats, if samples are too far apart to
        tell how, or if they are too few.
    """
    mean = _mean_rate(samples)
    cycles = find_cycles(samples, quiet)
    if isinstance(cycles, Nothing):
        return _without_period(cycles, mean, samples.missing)
    folded = cycles.folded
    bins = folded.bins()
    chosen = choose_steps(bins, quiet, _BLUR * cycles.jitter_s)
    if chosen is None:
        reason = "not periodic: what repeats has no bursts"
        return _without_period(Nothing(reason, cycles.explained), mean, samples.missing)
    unclear = too_coarse(folded, chosen)
    if unclear is not None:
        return _without_period(Nothing(unclear, cycles.explained), mean, samples.missing)
    bursts = measure_bursts(bins, chosen, folded.period_s)
    first_edge = float(chosen.steps.edges_s[0])
    last = _last_cycle(cycles, first_edge, float(samples.times_s[-1]))
    return Profile(
        period_ms=1000 * folded.period_s,
        period_error_ms=1000 * _NORMAL * cycles.period_error_s,
        bursts=bursts,
        origin_s=float(folded.begins_s[last]) + first_edge,
        origin_error_s=_origin_error(cycles, last, chosen.steps),
        duty=min(1.0, sum(burst.length_ms for burst in bursts) / (1000 * folded.period_s)),
        mean_mbps=mean,
        confidence=cycles.explained,
        jitter=cycles.jitter_s / folded.period_s,
        missing=samples.missing,
        reason=None,
    )


def _mean_rate(samples: Samples) -> float | None:
    begins, ends, rates = spans(samples)
    lengths = ends - begins
    return float(rates @ lengths / lengths.sum()) if lengths.any() else None


def _without_period(nothing: Nothing, mean: float | None, missing: float) -> Profile:
    return Profile(
        period_ms=None,
        period_error_ms=None,
        bursts=(),
        origin_s=None,
        origin_error_s=None,
        duty=None,
        mean_mbps=mean,
        confidence=nothing.explained,
        jitter=None,
        missing=missing,
        reason=nothing.reason,
    )


def _origin_error(cycles: Cycles, last: int, steps: Steps) -> float:
    """Join what noise does to a cycle, what jitter within it to its first edge, and the doubt."""
    random = math.hypot(float(cycles.errors_s[last]), float(steps.blurs_s[0]))
    return math.hypot(_NORMAL * random, edge_doubt_s(steps, cycles.folded.span_s))


def _last_cycle(cycles: Cycles, first_edge: float, end_s: float) -> int:
    """Return the last cycle whose first burst was seen to begin, about as well as others."""
    usual = float(np.nanmedian(cycles.errors_s))
    good = cycles.errors_s <= _AS_WELL * usual
    return int(np.flatnonzero(good & (cycles.folded.begins_s + first_edge <= end_s))[-1])
