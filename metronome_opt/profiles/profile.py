"""The profile of a job: its period, bursts and rates as measured, or why there is no period."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Phase
from metronome_opt.profiles.samples import QUIET, Floats, Samples

if TYPE_CHECKING:
    from metronome_opt.profiles.period import Cycles
    from metronome_opt.profiles.steps import Bins, Fit, Folded

_NORMAL = 1.96  # standard errors on either side of 95 % of a normal distribution
_STUDENT = 2.36  # the same if eight parts tell the standard error
_AS_WELL = 1.1  # times the usual error
_BLUR = 1.2  # of the jitter: how much the edges of bursts may be blurred by it
_SYSTEMATIC = 0.05  # of a span: how far a length may be off though there is no noise
_LEAST_SPANS = 1.2  # in a burst or in a pause within the period: fewer do not tell its length
_LEAST_SPANS_IN_STEP = 1.8  # in a burst, if samples fall on the same moments of all cycles
_NEARLY = 0.05  # of a span: less of it in a neighbouring part does not matter
_WANTED_SPANS = 2.2
_FINER = 0.8  # of the sampling step, at most, to ask for
_MOST_UNEXPLAINED = 0.05
_MOST_BASE = 0.5  # the lowest rate over the highest
_ALIAS = 10  # times as many samples tell whether it was an alias
_TOUCHED = 0.1  # of a slot: a burst that ends less than this after a slot does not need another


@dataclass(frozen=True)
class Burst:
    """One burst within a period, on average.

    An error is half the width of an interval that holds the true mean in about 95 % of cases; 0
    where nothing is known of it.

    Raises
    ------
    InputError
        If a value is not finite, or one that cannot be negative is.
    """

    start_ms: float  # since the period began, in a `Profile` with its first burst
    length_ms: float
    rate_mbps: float  # on average over its length
    start_error_ms: float = 0.0
    length_error_ms: float = 0.0
    rate_error_mbps: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not math.isfinite(value):
                raise InputError(f"{name}: {quote(value)}: must be a finite number")
            if value < 0 and name != "start_ms":
                raise InputError(f"{name}: {quote(value)}: must be at least 0")

    @property
    def volume(self) -> float:
        """What is sent in it, Mbit/s * ms."""
        return self.length_ms * self.rate_mbps

    def longer_than_at(self, rate_mbps: float) -> float:
        """Return by how many ms it is longer than its volume takes at a rate; never negative."""
        return max(0.0, self.length_ms - self.volume / rate_mbps)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What throughput says about a job. What is None is not known."""

    period_ms: float | None = None  # mean length of a cycle
    period_error_ms: float | None = None  # half the width of an interval of about 95 %
    # Of one period, in order; the first follows the longest silence and begins at 0.
    bursts: tuple[Burst, ...] = ()
    # When the first burst of one of the last cycles began, in seconds since the epoch. Phases
    # wander, so that this cannot be told from the period and an early beginning.
    origin_s: float | None = None
    origin_error_s: float | None = None
    duty: float | None = None  # share of time in bursts
    mean_mbps: float | None  # over all that was measured
    confidence: float  # from 0 to 1: share of the variance that a repeating pattern explains
    jitter: float | None = None  # standard deviation of the lengths of cycles over the period
    missing: float  # share of the samples that are missing
    reason: str | None = None  # why there is no period, None if there is one

    def phases(self, slot_ms: int, period_slots: int | None = None) -> tuple[Phase, ...]:
        """Return the bursts in slots, as a claim would state them.

        A burst begins at the nearest slot and gets whole slots until it has ended, then the lowest
        whole rate that carries its volume in these. The period has the nearest number of slots if
        none is given.

        Raises
        ------
        InputError
            If there is no period, or the slots are too long for the bursts to fit into it.
        """
        if self.period_ms is None:
            raise InputError(f"no phases: {self.reason}")
        phases: list[Phase] = []
        for burst in self.bursts:
            nearest = math.floor(burst.start_ms / slot_ms + 0.5)
            start = max(nearest, phases[-1].end if phases else 0)
            end = math.ceil((burst.start_ms + burst.length_ms) / slot_ms - _TOUCHED)
            length = max(end - start, 1)
            rate = math.ceil(burst.volume / (length * slot_ms))
            phases.append(Phase(start=start, length=length, rate=max(rate, 1)))
        period = round(self.period_ms / slot_ms) if period_slots is None else period_slots
        if phases and phases[-1].end > period:
            raise InputError(
                f"slot_ms: {quote(slot_ms)}: the bursts take {phases[-1].end} slots, the period "
                f"has {period}; use shorter slots"
            )
        return tuple(phases)


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
        With a `reason` and without a period if nothing repeats, if two patterns do, if samples are
        too far apart to tell how, or if they are too few.
    """
    # These load SciPy, which takes longer than all that others need of this module.
    from metronome_opt.profiles.mixed import second_period
    from metronome_opt.profiles.period import NoPeriodError, find_cycles
    from metronome_opt.profiles.steps import choose_steps, moves

    begins, ends, rates = samples.measured()
    lengths = ends - begins
    mean = float(rates @ lengths / lengths.sum()) if lengths.any() else None
    try:
        cycles = find_cycles(samples, quiet)
        folded = cycles.folded
        bins = folded.bins()
        fit = choose_steps(bins, quiet, _BLUR * cycles.jitter_s)
        if fit is None:
            raise NoPeriodError("not periodic: what repeats has no bursts", cycles.explained)
        two = second_period(folded, bins, fit)
        if two is not None:
            raise NoPeriodError(
                f"more than one period: about every {1000 * two[0]:.4g} and every "
                f"{1000 * two[1]:.4g} ms, as of two jobs; measure each by itself",
                cycles.explained,
            )
        unclear = _too_coarse(folded, bins, fit)
        if unclear is not None:
            raise NoPeriodError(unclear, cycles.explained)
    except NoPeriodError as error:
        return Profile(
            mean_mbps=mean,
            confidence=error.explained,
            missing=samples.missing,
            reason=str(error),
        )
    bursts = _bursts(bins, fit, moves(bins, fit), folded.period_s)
    first_edge = float(fit.steps.edges_s[0])
    last = _last_cycle(cycles, first_edge, float(samples.times_s[-1]))
    # What noise does to a cycle, what jitter within it to its first edge, and the doubt.
    random = math.hypot(float(cycles.errors_s[last]), float(fit.steps.blurs_s[0]))
    return Profile(
        period_ms=1000 * folded.period_s,
        period_error_ms=1000 * _NORMAL * cycles.period_error_s,
        bursts=bursts,
        origin_s=float(folded.begins_s[last]) + first_edge,
        origin_error_s=math.hypot(_NORMAL * random, _edge_doubt_s(fit, folded.span_s)),
        duty=min(1.0, sum(burst.length_ms for burst in bursts) / (1000 * folded.period_s)),
        mean_mbps=mean,
        confidence=cycles.explained,
        jitter=cycles.jitter_s / folded.period_s,
        missing=samples.missing,
    )


def _last_cycle(cycles: Cycles, first_edge: float, end_s: float) -> int:
    """Return the last cycle whose first burst was seen to begin, about as well as others."""
    usual = float(np.nanmedian(cycles.errors_s))
    good = cycles.errors_s <= _AS_WELL * usual
    return int(np.flatnonzero(good & (cycles.folded.begins_s + first_edge <= end_s))[-1])


# ------------------------------------------------------------------ from steps to bursts


def _bursts(
    bins: Bins, fit: Fit, moved: tuple[Floats, Floats], period_s: float
) -> tuple[Burst, ...]:
    """Return all steps but silence, by the time since the first edge.

    How edges and rates move from part to part of the cycles tells their errors.
    """
    steps, (by_edge, by_rate) = fit.steps, moved
    edges = np.append(steps.edges_s, steps.edges_s[0] + period_s)
    by_edge = np.column_stack((by_edge, by_edge[:, 0]))
    doubt = 2 * _edge_doubt_s(fit, bins.span_s)
    blind = _SYSTEMATIC * bins.span_s
    found = []
    for index, (begin, end) in enumerate(itertools.pairwise(edges), start=1):
        if fit.silent[index]:
            continue
        rate, length = float(steps.rates[index]), float(end - begin)
        start_error = math.hypot(_error(by_edge[:, index - 1] - by_edge[:, 0]), blind)
        length_error = _error(by_edge[:, index] - by_edge[:, index - 1])
        burst = Burst(
            start_ms=1000 * float(begin - edges[0]),
            length_ms=1000 * length,
            rate_mbps=rate,
            # Others are counted from the first edge.
            start_error_ms=0.0 if index == 1 else 1000 * start_error,
            length_error_ms=1000 * math.hypot(length_error, doubt, blind),
            # What is sent in a burst is known better than either, so they are off together.
            rate_error_mbps=math.hypot(_error(by_rate[:, index]), rate * blind / length),
        )
        found.append(burst)
    return tuple(found)


def _edge_doubt_s(fit: Fit, span_s: float) -> float:
    """Return by how much an edge may be off for what is seen in silence.

    It may be traffic, or noise about nothing, which cannot go below. To the span that an edge cuts
    in two the one would have been added, and the other hardly.
    """
    rates = fit.steps.rates
    return max(0.0, float(rates[0] / rates.max())) * span_s


def _error(moved: Floats) -> float:
    """Return half the width of the interval of about 95 %, by what parts of the cycles say."""
    return _STUDENT * float(np.std(moved, ddof=1)) / math.sqrt(len(moved))


# ------------------------------------------------------------------ what samples do not show


def _too_coarse(folded: Folded, bins: Bins, fit: Fit) -> str | None:
    """Return why samples do not show the parts of a cycle, and what would; None if they do."""
    span, period_ms, steps = folded.span_s, 1000 * folded.period_s, fit.steps
    known = f"too coarse: the period is {period_ms:.4g} ms, but"
    low, high = float(steps.rates.min()), float(steps.rates.max())
    if low > _MOST_BASE * high:
        return (
            f"too coarse: rates swing every {period_ms:.4g} ms, but only between {low:.4g} and "
            f"{high:.4g} Mbit/s, as those of a period about as short as the sampling step would; "
            f"sample every {1000 * span / _ALIAS:.3g} ms"
        )
    unexplained = fit.off / bins.variance
    if unexplained > _MOST_UNEXPLAINED:
        return (
            f"{known} steps leave {unexplained:.0%} of the variance; sample every "
            f"{1000 * span / 2:.3g} ms, or for longer"
        )
    edges = np.append(steps.edges_s, steps.edges_s[0] + folded.period_s)
    lengths = np.diff(edges)
    unclear: NDArray[np.bool_] = np.zeros(len(lengths), dtype=np.bool_)
    least = np.full(len(lengths), _LEAST_SPANS)
    if folded.in_step:
        least[~fit.silent[1:]] = _LEAST_SPANS_IN_STEP  # no rate is below that of silence
        unclear = _unproven(folded, steps.rates, edges)
    unclear |= lengths < span * least
    if not unclear.any():
        return None
    shortest = float(lengths[unclear].min())
    return (
        f"{known} it seems to have a part of {1000 * shortest:.3g} ms, with samples "
        f"{1000 * span:.4g} ms apart; sample every "
        f"{1000 * min(max(shortest, span / 2) / _WANTED_SPANS, _FINER * span):.3g} ms"
    )


def _unproven(folded: Folded, rates: Floats, edges: Floats) -> NDArray[np.bool_]:
    """Return which parts have a rate that is not sure, as samples are in step with cycles.

    If no span lies in a part as a whole, its rate was never seen: shorter and higher, it would look
    the same. If its rate is between those of its neighbours, what one span shows may be a mix of
    these, and it takes two.
    """
    span = folded.span_s
    middle = span * np.angle(np.exp(2j * np.pi * folded.since_s / span).mean()) / (2 * np.pi)
    borders = (edges - middle) / span + 0.5  # in spans, the first of which begins at 0
    whole = np.floor(borders[1:] + _NEARLY) - np.ceil(borders[:-1] - _NEARLY)
    parts = rates[1:]
    between = (parts - np.roll(parts, 1)) * (np.roll(parts, -1) - parts) > 0
    return np.asarray(whole < np.where(between, 2, 1))
