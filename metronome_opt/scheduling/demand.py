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

    Attributes
    ----------
    weights, users
        The distinct weights of the jobs in force, ascending, and how many jobs have each.
    layers
        int32, shape (links, layers, H), one layer per weight, and one if there is none: layer k
        holds the demand of the jobs whose weight is at least the k-th.
    highest, peaks
        Shape (links,): the largest entry of the lowest layer, and what all would send if they all
        burst at once.
    """

    def __init__(self, links: int, hyperperiod: int) -> None:
        self.weights: list[int] = []
        self.layers: NDArray[Any] = np.zeros((links, 1, hyperperiod), dtype=np.int32)
        self.highest: Ints = np.zeros(links, dtype=np.int64)
        self.peaks: Ints = np.zeros(links, dtype=np.int64)
        self.users: Counter[int] = Counter()

    def put(self, claim: Claim, flows: Mapping[int, int], sign: int) -> None:
        """Add a job, with its flows by index of the link, or take it away with a `sign` of -1."""
        weight = claim.gang.weight
        at = bisect_left(self.weights, weight)
        if weight not in self.users:
            # A layer for a weight that nobody has had: who is in the next one is in it too.
            if self.weights:
                above = self.layers[:, at] if at < len(self.weights) else np.int32(0)
                self.layers = np.insert(self.layers, at, above, axis=1)
            self.weights.insert(at, weight)
        self.users[weight] += sign
        upto = at + 1
        pattern = np.zeros(claim.period, dtype=np.int32)  # of one flow, slot by slot
        for phase in claim.gang.phases:
            pattern[phase.start : phase.end] = phase.rate
        pattern = np.roll(pattern, claim.offset)
        for link, count in flows.items():
            rows = self.layers[link, :upto].reshape(upto, -1, len(pattern))
            rows += (sign * count) * pattern
            self.highest[link] = self.layers[link, 0].max()
            self.peaks[link] += sign * count * claim.gang.peak
        if not self.users[weight]:
            del self.users[weight], self.weights[at]
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
        """Return the contention, in weight * Mbit/s, of links that carry `capacity` Mbit/s."""
        total = 0
        for layer, (low, high) in enumerate(zip([0, *self.weights], self.weights, strict=False)):
            excess = self.layers[:, layer] - capacity[:, np.newaxis]
            total += (high - low) * int(np.maximum(excess, 0).sum())
        return Fraction(total, self.layers.shape[2])
