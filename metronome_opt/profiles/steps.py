"""The mean cycle: samples folded by the time since their cycle began, and the steps that fit them.

Steps are rates that change, seen through spans and blurred by jitter; as few as explain the cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtr

from metronome_opt.profiles.samples import Floats, Ints, Samples

_LEAST_BINS, _MOST_BINS = 16, 240
_PARTS = 8
_SAMPLES_PER_BIN = 4
_LONGER = 0.15  # of a period: how much longer than usual a cycle may be to count to its end
_LONG = 1.5  # usual spans; what was averaged for longer says little
_SEEN = 0.3  # of what a whole cycle says about its beginning, for it to count
_IN_STEP = 0.8  # mean of unit vectors that turn once a span
_ROUNDS = 4
_LEAST_BLUR = 0.05  # in spans; edges that are sharper look alike
_BEYOND = 0.25  # of the height of the mean cycle: how far beyond it a rate may be
_ENOUGH = 1e-5
_EVALUATIONS = 30
_MOST_EDGES = 14
_TRIFLE = 0.004  # of the variance of the mean cycle: steps that explain less are left out
_NOISE = 16.0  # times the error of the fit per degree of freedom: what noise hardly explains
_CELLS = 120


@dataclass(frozen=True)
class Folded:
    """Spans and the cycles they belong to."""

    begins_s: Floats  # of each cycle, seconds since the epoch
    cycle: Ints  # of each span
    middles_s: Floats  # of each span, seconds since the epoch
    rates: Floats  # of each span, its mean in Mbit/s
    span_s: float  # their usual length
    period_s: float  # mean length of a cycle

    @property
    def since_s(self) -> Floats:
        """Time from the beginning of its cycle to the middle of each span, shape (spans,)."""
        return self.middles_s - self.begins_s[self.cycle]

    @property
    def in_step(self) -> bool:
        """Whether samples fall on the same moments of all cycles, so that cycles tell no more."""
        turns = np.exp(2j * np.pi * self.since_s / self.span_s)
        return bool(abs(turns.mean()) > _IN_STEP)

    def bins(self) -> Bins:
        """Return mean rates by time since the beginning."""
        since, end = self.since_s, (1 + _LONGER) * self.period_s
        count = int(np.clip(len(since) // _SAMPLES_PER_BIN, _LEAST_BINS, _MOST_BINS))
        place = np.clip((since / end * count).astype(np.int64), 0, count - 1)
        filled, place, spans_in = np.unique(place, return_inverse=True, return_counts=True)
        counts = spans_in.astype(np.float64)
        return Bins(
            np.bincount(place, since) / counts,
            np.bincount(place, self.rates) / counts,
            counts,
            self.span_s,
            self._parts(place, len(filled)),
        )

    def _parts(self, place: Ints, bins: int) -> Floats:
        """Return the means over parts of the cycles, neighbours together."""
        parts = min(_PARTS, len(self.begins_s))
        cell = self.cycle * parts // len(self.begins_s) * bins + place
        total = np.bincount(cell, self.rates, parts * bins)
        counts = np.bincount(cell, minlength=parts * bins)
        means = np.divide(total, counts, out=np.full(parts * bins, np.nan), where=counts > 0)
        return np.asarray(means.reshape(parts, bins))


@dataclass(frozen=True)
class Bins:
    """The mean cycle, by the time since it begins."""

    middles_s: Floats  # of each bin
    rates: Floats  # of each bin, its mean in Mbit/s
    counts: Floats  # spans in each bin
    span_s: float  # length of a span
    parts: Floats  # rates over parts of the cycles, shape (parts, bins), NaN where there is none

    @property
    def variance(self) -> float:
        """Of the mean cycle, (Mbit/s)^2."""
        return float(np.cov(self.rates, aweights=self.counts, ddof=0))


def fold(samples: Samples, begins_s: Floats, period_s: float) -> Folded:
    """Assign each span to the cycle in which its middle lies; leave out what lies in none."""
    begin, end, rates = samples.measured()
    usual = float(np.median(end - begin))
    middles = (begin + end) / 2
    cycle = np.searchsorted(begins_s, middles, side="right") - 1
    inside = (cycle >= 0) & (end - begin <= _LONG * usual)
    since = middles - begins_s[np.maximum(cycle, 0)]
    inside &= since < (1 + _LONGER) * period_s
    inside &= (cycle < len(begins_s) - 1) | (since < (1 - _LONGER) * period_s)
    return Folded(begins_s, cycle[inside], middles[inside], rates[inside], usual, period_s)


def align(folded: Folded) -> tuple[Floats, Floats]:
    """Shift each cycle so that its samples fit the mean cycle best, by Gauss-Newton.

    The mean cycle becomes sharper with the shifts, so it is taken anew each time.

    Returned with the beginnings, in seconds since the epoch, are their standard deviations from the
    noise of the samples; NaN for a cycle of which too little was measured.
    """
    begins, cycles, reach = folded.begins_s, len(folded.begins_s), folded.span_s
    for _ in range(_ROUNDS):
        folded = replace(folded, begins_s=begins)
        mean, slope = _mean_and_slope(folded)
        off = folded.rates - mean
        told = np.bincount(folded.cycle, slope**2, cycles)
        usable = told > _SEEN * np.median(told)
        shift = -np.bincount(folded.cycle, off * slope, cycles) / np.where(usable, told, np.inf)
        begins = begins + np.clip(shift, -reach, reach)
    noise = np.sqrt(np.mean(off**2))
    errors = np.where(usable, noise / np.sqrt(np.where(usable, told, 1.0)), np.nan)
    return begins, np.asarray(errors)


def _mean_and_slope(folded: Folded) -> tuple[Floats, Floats]:
    """Return the mean cycle and its derivative where each span is."""
    bins, half, since = folded.bins(), folded.span_s / 2, folded.since_s
    mean, ahead, behind = (
        np.interp(since + shift, bins.middles_s, bins.rates) for shift in (0.0, half, -half)
    )
    return mean, (ahead - behind) / (2 * half)


@dataclass(frozen=True)
class Steps:
    """The mean cycle, by the time since a cycle begins, amid silence."""

    edges_s: Floats  # when the rate changes, on average, in order
    blurs_s: Floats  # standard deviations of these moments from cycle to cycle
    rates: Floats  # Mbit/s before, between and after the edges; the last is the first


@dataclass(frozen=True)
class Fit:
    """Steps that were fitted to the mean cycle."""

    steps: Steps
    off: float  # mean square of what they leave, (Mbit/s)^2
    silent: NDArray[np.bool_]  # which of their rates are silence, maybe none
    level: Ints  # numbers of their rates: those that are the same by definition have one
    jacobian: Floats  # of what they leave by edges and levels, shape (bins, edges + levels)


def choose_steps(bins: Bins, quiet: float, most_blur_s: float) -> Fit | None:
    """Fit as few steps as explain the mean cycle; None if it has none.

    The mean cycle begins and ends amid silence, which are all rates below a share of the highest,
    `quiet`: one and the same rate. Edges may be blurred by jitter, up to `most_blur_s`.
    """
    pieces = _partition(bins)
    if len(pieces.edges_s) < 2:
        return None
    sharp = _fewest(bins, pieces, 0.0)
    steps = _fewest(bins, sharp, most_blur_s)
    silent = steps.rates <= quiet * steps.rates.max()
    edges = ~(silent[1:] & silent[:-1])
    if not edges.any():
        return None
    rates = np.concatenate(([True], edges))
    start = Steps(steps.edges_s[edges], steps.blurs_s[edges], steps.rates[rates])
    return _fit(bins, start, most_blur_s, silent[rates])


def _fewest(bins: Bins, guess: Steps, most_blur_s: float) -> Steps:
    """Leave out, one by one, the edges that explain no more than a trifle, or than noise would."""
    best, trifle = _fit(bins, guess, most_blur_s), _TRIFLE * bins.variance
    while len(best.steps.edges_s) > 2:
        edges = len(best.steps.edges_s)
        candidates = [_without(best.steps, edge) for edge in range(edges)]
        off = [float(np.average(_off(bins, each) ** 2, weights=bins.counts)) for each in candidates]
        fewer = _fit(bins, candidates[int(np.argmin(off))], most_blur_s)
        free = max(1, len(bins.rates) - 3 * edges)
        if fewer.off > best.off + max(trifle, _NOISE * best.off / free):
            break
        best = fewer
    return best.steps


def _without(steps: Steps, edge: int) -> Steps:
    """Leave out an edge and the shorter of the rates beside it, in favour of both neighbours."""
    lengths = np.diff(np.concatenate(([-np.inf], steps.edges_s, [np.inf])))
    after = lengths[edge + 1] < lengths[edge]
    other = edge + 1 if after else edge - 1  # the edge on the other side of that rate
    edges = steps.edges_s.copy()
    edges[other] = (edges[other] + edges[edge]) / 2
    return Steps(
        np.delete(edges, edge),
        np.delete(steps.blurs_s, edge),
        np.delete(steps.rates, edge + 1 if after else edge),
    )


def _off(bins: Bins, steps: Steps) -> Floats:
    """Return by how much the steps, as spans would show them, are off the mean cycle."""
    shares, _, _ = _shares_after(bins.middles_s, bins.span_s, steps.edges_s, steps.blurs_s)
    return np.asarray(steps.rates[0] + shares @ np.diff(steps.rates) - bins.rates)


# ------------------------------------------------------------------ the first guess


def _partition(bins: Bins) -> Steps:
    """Cut the mean cycle into pieces of constant rate: optimal partitioning with a price a piece.

    B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
    Processing Letters 12, 2005. Spans blur the edges, so there are more pieces than steps.
    """
    starts = np.arange(0, len(bins.rates), -(-len(bins.rates) // _CELLS))
    weight = np.add.reduceat(bins.counts, starts)
    sent = np.add.reduceat(bins.counts * bins.rates, starts)
    place = np.add.reduceat(bins.counts * bins.middles_s, starts) / weight
    price = _TRIFLE / 2 * bins.variance * float(bins.counts.sum())
    cuts = _best_cuts(weight, sent, price)
    most = min(_MOST_EDGES, len(bins.rates) // 2)  # no more unknowns than bins
    while len(cuts) - 2 > most:
        price *= 1.5
        cuts = _best_cuts(weight, sent, price)
    rates = np.add.reduceat(sent, cuts[:-1]) / np.add.reduceat(weight, cuts[:-1])
    inner = np.array(cuts[1:-1], dtype=np.int64)
    blurs = np.full(len(inner), 2 * _LEAST_BLUR * bins.span_s)
    return Steps((place[inner - 1] + place[inner]) / 2, blurs, rates)


def _best_cuts(weight: Floats, sent: Floats, price: float) -> list[int]:
    cells = len(weight)
    weights, first, second = (
        np.concatenate(([0.0], np.cumsum(each))) for each in (weight, sent, sent**2 / weight)
    )
    cost, before = np.zeros(cells + 1), np.zeros(cells + 1, dtype=np.int64)
    for end in range(1, cells + 1):
        inside = first[end] - first[:end]
        spread = second[end] - second[:end] - inside**2 / (weights[end] - weights[:end])
        total = cost[:end] + spread + price
        before[end] = np.argmin(total)
        cost[end] = total[before[end]]
    cuts = [cells]
    while cuts[-1]:
        cuts.append(int(before[cuts[-1]]))
    return cuts[::-1]


# ------------------------------------------------------------------ least squares


def _fit(
    bins: Bins, guess: Steps, most_blur_s: float, silent: NDArray[np.bool_] | None = None
) -> Fit:
    """Move edges and rates, from a guess, until they fit the mean cycle.

    The unknowns are edges, levels (the rates that may differ: the last is the first, and silence is
    the same everywhere) and blurs, which are those of the guess if `most_blur_s` is nothing.
    """
    edges = len(guess.edges_s)
    silent = np.zeros(edges + 1, dtype=np.bool_) if silent is None else silent
    number = np.where(silent, 0, 1 + np.arange(edges + 1) % edges)
    level = np.unique(number, return_inverse=True)[1].astype(np.int64)
    levels = int(level.max()) + 1
    belongs = np.zeros((edges + 1, levels))
    belongs[np.arange(edges + 1), level] = 1.0
    changes = np.diff(belongs, axis=0)  # of levels, at each edge
    scale = np.sqrt(bins.counts / bins.counts.sum())

    def split(unknowns: Floats) -> tuple[Floats, Floats, Floats]:
        moved, rates, blurs = np.split(unknowns, [edges, edges + levels])
        return moved, rates, blurs if most_blur_s else guess.blurs_s

    def off(unknowns: Floats) -> Floats:
        moved, rates, blurs = split(unknowns)
        shares, _, _ = _shares_after(bins.middles_s, bins.span_s, moved, blurs)
        return np.asarray(scale * (rates[level[0]] + shares @ (changes @ rates) - bins.rates))

    def jacobian(unknowns: Floats) -> Floats:
        moved, rates, blurs = split(unknowns)
        shares, by_edge, by_blur = _shares_after(bins.middles_s, bins.span_s, moved, blurs)
        by_level, change = shares @ changes, changes @ rates
        by_level[:, level[0]] += 1.0
        columns = np.hstack((by_edge * change, by_level, by_blur * change))
        return np.asarray(scale[:, None] * columns[:, : len(unknowns)])

    height = float(np.ptp(bins.rates)) or 1.0
    sharpest = _LEAST_BLUR * bins.span_s
    # Without bounds on rates, two of them, opposite and huge, may stand for one edge.
    least = (0.0, float(bins.rates.min()) - _BEYOND * height, sharpest)
    most = (
        float(bins.middles_s[-1]),
        float(bins.rates.max()) + _BEYOND * height,
        max(most_blur_s, 2 * sharpest),
    )
    counts = (edges, levels, edges if most_blur_s else 0)
    bounds = (np.repeat(least, counts), np.repeat(most, counts))
    means = [guess.rates[level == each].mean() for each in range(levels)]
    start = np.concatenate((guess.edges_s, means, guess.blurs_s))[: sum(counts)]
    found = least_squares(
        off,
        np.clip(start, *bounds),
        jacobian,
        bounds,
        x_scale=np.repeat((bins.span_s, height, bins.span_s), counts),
        ftol=_ENOUGH,
        xtol=_ENOUGH,
        max_nfev=_EVALUATIONS,
    )
    moved, rates, blurs = split(found.x)
    order = np.argsort(moved)
    steps = Steps(moved[order], blurs[order], rates[level])
    columns = np.concatenate((order, edges + np.arange(levels)))
    return Fit(steps, float(2 * found.cost), silent, level, np.asarray(found.jac)[:, columns])


def moves(bins: Bins, fit: Fit) -> tuple[Floats, Floats]:
    """Return how the fits to parts of the cycles differ from that to all of them, to first order.

    How far they are apart tells the error of the whole. It takes in that jitter moves neighbouring
    bins together, which residuals of the bins do not show.

    Edges are in seconds, shape (parts, edges), and rates in Mbit/s, shape (parts, edges + 1).
    """
    scale = np.sqrt(bins.counts / bins.counts.sum())
    found = []
    for part in bins.parts:
        known = np.isfinite(part)
        off = scale[known] * (part - bins.rates)[known]
        found.append(np.linalg.lstsq(fit.jacobian[known], off, rcond=None)[0])
    edges, levels = np.split(np.array(found), [len(fit.steps.edges_s)], axis=1)
    return edges, levels[:, fit.level]


def _shares_after(
    middles_s: Floats, span_s: float, edges_s: Floats, blurs_s: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return how much of each span lies after each edge on average, shape (spans, edges).

    An edge that is normally distributed with deviation b lies before x with probability
    ``Phi(x / b)``, whose integral is ``x Phi(x / b) + b phi(x / b)``.

    The second and third array are its derivatives by the edges and by the blurs.
    """
    since = middles_s[:, None] - edges_s
    begin, end = (since - span_s / 2) / blurs_s, (since + span_s / 2) / blurs_s
    (below, density), (below_end, density_end) = (
        (ndtr(each), np.exp(-(each**2) / 2) / np.sqrt(2 * np.pi)) for each in (begin, end)
    )
    integral, integral_end = begin * below + density, end * below_end + density_end
    return (
        np.asarray(blurs_s * (integral_end - integral) / span_s),
        -(below_end - below) / span_s,
        (density_end - density) / span_s,
    )
