"""The model of a cycle: a rate that changes in steps, seen through spans and blurred by jitter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from metronome_opt.profiles.samples import Floats

_ROOT = np.sqrt(2 * np.pi)


@dataclass(frozen=True)
class Steps:
    """The mean cycle, by the time since a cycle begins, amid silence.

    Attributes
    ----------
    edges_s
        When the rate changes, on average, in order, shape (edges,).
    blurs_s
        Standard deviations of these moments from cycle to cycle, shape (edges,).
    rates
        Mbit/s before, between and after the edges, shape (edges + 1,); the last is the first.
    """

    edges_s: Floats
    blurs_s: Floats
    rates: Floats

    @property
    def changes(self) -> Floats:
        """By how much the rate changes at each edge, shape (edges,)."""
        return np.diff(self.rates)

    def seen(self, middles_s: Floats, span_s: float) -> Floats:
        """Return the mean rates that spans of one length around some moments should show."""
        shares = share_after(middles_s, span_s, self.edges_s, self.blurs_s)
        return np.asarray(self.rates[0] + shares @ self.changes)


def share_after(middles_s: Floats, span_s: float, edges_s: Floats, blurs_s: Floats) -> Floats:
    """Return how much of each span lies after each edge on average, shape (spans, edges).

    An edge that is normally distributed with deviation b lies before x with probability
    ``Phi(x / b)``, whose integral is ``x Phi(x / b) + b phi(x / b)``.
    """
    begin, end = _standard(middles_s, span_s, edges_s, blurs_s)
    return np.asarray(blurs_s * (_integral(end) - _integral(begin)) / span_s)


def derivatives(
    middles_s: Floats, span_s: float, edges_s: Floats, blurs_s: Floats
) -> tuple[Floats, Floats]:
    """Return the derivatives of `share_after` by the edges and by the blurs."""
    begin, end = _standard(middles_s, span_s, edges_s, blurs_s)
    return -(ndtr(end) - ndtr(begin)) / span_s, (_density(end) - _density(begin)) / span_s


def _standard(
    middles_s: Floats, span_s: float, edges_s: Floats, blurs_s: Floats
) -> tuple[Floats, Floats]:
    since = middles_s[:, None] - edges_s
    return (since - span_s / 2) / blurs_s, (since + span_s / 2) / blurs_s


def _integral(standard: Floats) -> Floats:
    return np.asarray(standard * ndtr(standard) + _density(standard))


def _density(standard: Floats) -> Floats:
    return np.asarray(np.exp(-(standard**2) / 2) / _ROOT)
