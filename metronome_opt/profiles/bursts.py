"""From steps to bursts, with what is not known about them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metronome_opt.profiles.choosing import Chosen, which_rates
from metronome_opt.profiles.fitting import moves
from metronome_opt.profiles.folding import Bins, Folded
from metronome_opt.profiles.samples import Floats
from metronome_opt.profiles.steps import Steps

_STUDENT = 2.36  # standard errors on either side of 95 %, if eight parts tell the standard error
_SYSTEMATIC = 0.05  # of a span: how far a length may be off though there is no noise
_LEAST_SPANS = 1.2  # in a burst or in a pause within the period: fewer do not tell its length
_LEAST_SPANS_IN_STEP = 1.8  # in a burst, if samples fall on the same moments of all cycles
_NEARLY = 0.05  # of a span: less of it in a neighbouring part does not matter
_WANTED_SPANS = 2.2
_FINER = 0.8  # of the sampling step, at most, to ask for
_MOST_UNEXPLAINED = 0.05
_MOST_BASE = 0.5  # the lowest rate over the highest
_ALIAS = 10  # times as many samples tell whether it was an alias


@dataclass(frozen=True)
class Burst:
    """One burst within a period, on average over the cycles.

    Attributes
    ----------
    start_ms, length_ms, rate_mbps
        When it begins after the first burst of the period, how long it lasts, its mean rate.
    start_error_ms, length_error_ms, rate_error_mbps
        Half the width of an interval that holds the true mean in about 95 % of cases.
    """

    start_ms: float
    length_ms: float
    rate_mbps: float
    start_error_ms: float
    length_error_ms: float
    rate_error_mbps: float


def measure_bursts(bins: Bins, chosen: Chosen, period_s: float) -> tuple[Burst, ...]:
    """Return all steps but silence, by the time since the first edge."""
    steps = chosen.steps
    by_edge, by_rate = moves(bins, steps, which_rates(chosen.silent))
    edges = np.append(steps.edges_s, steps.edges_s[0] + period_s)
    by_edge = np.column_stack((by_edge, by_edge[:, 0]))
    doubt = 2 * edge_doubt_s(steps, bins.span_s)
    blind = _SYSTEMATIC * bins.span_s
    found = []
    for index, (begin, end) in enumerate(itertools.pairwise(edges), start=1):
        if chosen.silent[index]:
            continue
        rate, length = float(steps.rates[index]), float(end - begin)
        length_error = _error(by_edge[:, index] - by_edge[:, index - 1])
        burst = Burst(
            start_ms=1000 * float(begin - edges[0]),
            length_ms=1000 * length,
            rate_mbps=rate,
            start_error_ms=1000 * _start_error(by_edge, index, blind),
            length_error_ms=1000 * math.hypot(length_error, doubt, blind),
            # What is sent in a burst is known better than either, so they are off together.
            rate_error_mbps=math.hypot(_error(by_rate[:, index]), rate * blind / length),
        )
        found.append(burst)
    return tuple(found)


def _start_error(by_edge: Floats, index: int, blind: float) -> float:
    """Return 0 for the first edge, from which others are counted."""
    if index == 1:
        return 0.0
    return math.hypot(_error(by_edge[:, index - 1] - by_edge[:, 0]), blind)


def edge_doubt_s(steps: Steps, span_s: float) -> float:
    """Return by how much an edge may be off for what is seen in silence.

    It may be traffic, or noise about nothing, which cannot go below. To the span that an edge cuts
    in two the one would have been added, and the other hardly.
    """
    return max(0.0, float(steps.rates[0] / steps.rates.max())) * span_s


def too_coarse(folded: Folded, chosen: Chosen) -> str | None:
    """Return why samples do not show the parts of a cycle, and what would; None if they do."""
    span = folded.span_s
    known = f"too coarse: the period is {1000 * folded.period_s:.4g} ms, but"
    low, high = float(chosen.steps.rates.min()), float(chosen.steps.rates.max())
    if low > _MOST_BASE * high:
        return (
            f"too coarse: rates swing every {1000 * folded.period_s:.4g} ms, but only between "
            f"{low:.4g} and {high:.4g} Mbit/s, as those of a period about as short as the sampling "
            f"step would; sample every {1000 * span / _ALIAS:.3g} ms"
        )
    if chosen.unexplained > _MOST_UNEXPLAINED:
        return (
            f"{known} steps leave {chosen.unexplained:.0%} of the variance; sample every "
            f"{1000 * span / 2:.3g} ms, or for longer"
        )
    parts = _parts(chosen.steps, folded.period_s)
    in_step = folded.in_step & ~chosen.silent[1:]  # no rate is below that of silence
    least = span * np.where(in_step, _LEAST_SPANS_IN_STEP, _LEAST_SPANS)
    unclear = (np.ptp(parts, axis=1) < least) | _unproven(folded, chosen.steps, parts)
    if unclear.any():
        shortest = float(np.ptp(parts[unclear], axis=1).min())
        return (
            f"{known} it seems to have a part of {1000 * shortest:.3g} ms, with samples "
            f"{1000 * span:.4g} ms apart; sample every "
            f"{1000 * min(max(shortest, span / 2) / _WANTED_SPANS, _FINER * span):.3g} ms"
        )
    return None


def _parts(steps: Steps, period_s: float) -> Floats:
    """Return when bursts and pauses begin and end, that round the end of the cycle as well."""
    edges = np.append(steps.edges_s, steps.edges_s[0] + period_s)
    return np.column_stack((edges[:-1], edges[1:]))


def _unproven(folded: Folded, steps: Steps, parts: Floats) -> NDArray[np.bool_]:
    """Return which parts have a rate that is not sure, as samples are in step with cycles.

    If no span lies in a part as a whole, its rate was never seen: shorter and higher, it would look
    the same. If its rate is between those of its neighbours, what one span shows may be a mix of
    these, and it takes two.
    """
    if not folded.in_step:
        return np.zeros(len(parts), dtype=np.bool_)
    span = folded.span_s
    middle = span * np.angle(np.exp(2j * np.pi * folded.since_s / span).mean()) / (2 * np.pi)
    begins, ends = ((parts - middle) / span + 0.5).T  # in spans, the first of which begins at 0
    whole = np.floor(ends + _NEARLY) - np.ceil(begins - _NEARLY)
    rates = steps.rates[1:]
    between = (rates - np.roll(rates, 1)) * (np.roll(rates, -1) - rates) > 0
    return np.asarray(whole < np.where(between, 2, 1))


def _error(moved: Floats) -> float:
    """Return half the width of the interval of about 95 %, by what parts of the cycles say."""
    return _STUDENT * float(np.std(moved, ddof=1)) / math.sqrt(len(moved))
