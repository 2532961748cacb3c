"""What all links carry, slot by slot and by weight class, kept up to date as jobs come and go."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.kernels.tables import Ints
from metronome_opt.scheduling.claim import Claim

MOST_DEMAND = 2**30
"""Mbit/s on one link: capacities and demand are kept in 32 bits."""

MOST_ENTRIES = 2**29
"""Numbers in all layers, 2 GiB; one more layer takes as much again while it is made."""


class Demand:
    """Layers of demand over one hyperperiod, for all links.

    Parameters
    ----------
    links
        How many.
    hyperperiod
        In slots.

    Attributes
    ----------
    weights
        The distinct weights of the jobs in force, ascending.
    layers
        int32, shape (links, layers, H), one layer per weight, and one if there is none: layer k
        holds the demand of the jobs whose weight is at least the k-th.
    highest
        Shape (links,): the largest entry of the lowest layer.
    peaks
        Shape (links,): what all would send if they all burst at once.
    users
        How many jobs have each weight.
    """

    def __init__(self, links: int, hyperperiod: int) -> None:
        self.weights: list[int] = []
        self.layers: NDArray[Any] = np.zeros((links, 1, hyperperiod), dtype=np.int32)
        self.highest: Ints = np.zeros(links, dtype=np.int64)
        self.peaks: Ints = np.zeros(links, dtype=np.int64)
        self.users: Counter[int] = Counter()

    @property
    def hyperperiod(self) -> int:
        """In slots."""
        return int(self.layers.shape[2])

    def put(self, claim: Claim, flows: Mapping[int, int], sign: int) -> None:
        """Add a job to its links, or take it away with a `sign` of -1.

        Parameters
        ----------
        flows
            Tasks per link, by index.
        """
        weight = claim.gang.weight
        if sign > 0:
            self._open(weight)
        self.users[weight] += sign
        upto = bisect_right(self.weights, weight)
        pattern = pattern_of(claim)
        for link, count in flows.items():
            rows = self.layers[link, :upto].reshape(upto, -1, len(pattern))
            rows += (sign * count) * pattern
            self.highest[link] = self.layers[link, 0].max()
            self.peaks[link] += sign * count * claim.gang.peak
        if not self.users[weight]:
            self._close(weight)

    def _open(self, weight: int) -> None:
        """Make a layer for a weight that nobody has had: who is in the next one is in it too."""
        if weight in self.users:
            return
        at = bisect_left(self.weights, weight)
        if self.weights:
            above = self.layers[:, at] if at < len(self.weights) else np.int32(0)
            self.layers = np.insert(self.layers, at, above, axis=1)
        self.weights.insert(at, weight)

    def _close(self, weight: int) -> None:
        """Drop the layer of a weight that nobody has any more."""
        del self.users[weight]
        at = self.weights.index(weight)
        del self.weights[at]
        if self.weights:
            self.layers = np.delete(self.layers, at, axis=1)

    def below(self, weight: int) -> tuple[list[int], list[int]]:
        """Return the layers that a job of some weight competes with, and what overload costs there.

        A layer of -1 is empty: nobody is as important as the job.
        """
        upto = bisect_right(self.weights, weight)
        steps = self.weights[:upto]
        layers = list(range(upto))
        if not steps or steps[-1] < weight:
            steps = [*steps, weight]
            layers.append(upto if upto < len(self.weights) else -1)
        return layers, [high - low for low, high in zip([0, *steps], steps, strict=False)]

    def contention(self, capacity: Ints) -> Fraction:
        """Return the contention of all links, in weight * Mbit/s.

        Parameters
        ----------
        capacity
            Mbit/s, shape (links,).
        """
        total = 0
        for layer, (low, high) in enumerate(zip([0, *self.weights], self.weights, strict=False)):
            excess = self.layers[:, layer] - capacity[:, np.newaxis]
            total += (high - low) * int(np.maximum(excess, 0).sum())
        return Fraction(total, self.hyperperiod)


def pattern_of(claim: Claim) -> Ints:
    """Return what one flow of a job sends in each slot of its period, shape (period,), int32."""
    pattern = np.zeros(claim.period, dtype=np.int32)
    for phase in claim.gang.phases:
        pattern[phase.start : phase.end] = phase.rate
    return np.roll(pattern, claim.offset)
