"""How many steps a cycle has, and which of its rates are silence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from metronome_opt.profiles.fitting import LEAST_BLUR, Fit, Ints, fit
from metronome_opt.profiles.folding import Bins
from metronome_opt.profiles.samples import Floats
from metronome_opt.profiles.steps import Steps

_MOST_EDGES = 14
_TRIFLE = 0.004  # of the variance of the mean cycle: steps that explain less are left out
_NOISE = 16.0  # times the error of the fit per degree of freedom: what noise hardly explains
_CELLS = 120


@dataclass(frozen=True)
class Chosen:
    """Steps that were chosen.

    Attributes
    ----------
    steps
        The steps.
    silent
        Which of their rates are silence, maybe none, shape (edges + 1,).
    unexplained
        Share of the variance of the mean cycle that they leave.
    """

    steps: Steps
    silent: NDArray[np.bool_]
    unexplained: float


def which_rates(silent: NDArray[np.bool_]) -> Ints:
    """Return numbers for rates: one for those of silence, and the first for the last."""
    return np.where(silent, 0, 1 + np.arange(len(silent)) % (len(silent) - 1))


def choose_steps(bins: Bins, quiet: float, most_blur_s: float) -> Chosen | None:
    """Fit as few steps as explain the mean cycle; None if it has none.

    Parameters
    ----------
    bins
        The mean cycle; it begins and ends amid silence.
    quiet
        Share of the highest rate below which all is silence, one and the same rate.
    most_blur_s
        How much edges may be blurred by jitter.
    """
    pieces = _partition(bins)
    if len(pieces.edges_s) < 2:
        return None
    sharp = _fewest(bins, fit(bins, pieces), 0.0)
    found = _fewest(bins, fit(bins, sharp.steps, most_blur_s=most_blur_s), most_blur_s)
    return _with_silence(bins, found.steps, quiet, most_blur_s)


def _fewest(bins: Bins, best: Fit, most_blur_s: float) -> Fit:
    """Leave out, one by one, the edges that explain no more than a trifle, or than noise would."""
    trifle = _TRIFLE * _variance(bins)
    while len(best.steps.edges_s) > 2:
        candidates = (_without(best.steps, edge) for edge in range(len(best.steps.edges_s)))
        fewer = fit(bins, min(candidates, key=partial(_off, bins)), most_blur_s=most_blur_s)
        free = max(1, len(bins.rates) - 3 * len(best.steps.edges_s))
        if fewer.off > best.off + max(trifle, _NOISE * best.off / free):
            break
        best = fewer
    return best


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


def _off(bins: Bins, steps: Steps) -> float:
    off = steps.seen(bins.middles_s, bins.span_s) - bins.rates
    return float(np.average(off**2, weights=bins.counts))


def _variance(bins: Bins) -> float:
    return float(np.cov(bins.rates, aweights=bins.counts, ddof=0))


def _with_silence(bins: Bins, steps: Steps, quiet: float, most_blur_s: float) -> Chosen | None:
    """Take all rates that are nearly nothing for silence, and fit the others again."""
    silent = steps.rates <= quiet * steps.rates.max()
    edges = ~(silent[1:] & silent[:-1])
    if not edges.any():
        return None
    rates = np.concatenate(([True], edges))
    silent = silent[rates]
    start = Steps(steps.edges_s[edges], steps.blurs_s[edges], steps.rates[rates])
    found = fit(bins, start, which=which_rates(silent), most_blur_s=most_blur_s)
    return Chosen(found.steps, silent, found.off / _variance(bins))


# ------------------------------------------------------------------ the first guess


def _partition(bins: Bins) -> Steps:
    """Cut the mean cycle into pieces of constant rate: optimal partitioning with a price a piece.

    B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE Signal
    Processing Letters 12, 2005. Spans blur the edges, so there are more pieces than steps.
    """
    thin = -(-len(bins.rates) // _CELLS)
    starts = np.arange(0, len(bins.rates), thin)
    weight = np.add.reduceat(bins.counts, starts)
    sent = np.add.reduceat(bins.counts * bins.rates, starts)
    place = np.add.reduceat(bins.counts * bins.middles_s, starts) / weight
    price = _TRIFLE / 2 * _variance(bins) * float(bins.counts.sum())
    cuts = _best_cuts(weight, sent, price)
    most = min(_MOST_EDGES, len(bins.rates) // 2)  # no more unknowns than bins
    while len(cuts) - 2 > most:
        price *= 1.5
        cuts = _best_cuts(weight, sent, price)
    rates = np.add.reduceat(sent, cuts[:-1]) / np.add.reduceat(weight, cuts[:-1])
    inner = np.array(cuts[1:-1], dtype=np.int64)
    blurs = np.full(len(inner), 2 * LEAST_BLUR * bins.span_s)
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
