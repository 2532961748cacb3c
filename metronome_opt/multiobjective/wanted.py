"""What is worth finding: what is within limits and better than all that has been found."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.network.relation import Mask

Offsets = tuple[int, ...]
Values = tuple[int, ...]


class Wanted(Protocol):
    """Which costs are worth having, given what is known."""

    def limits(self, floors: Sequence[int]) -> Sequence[int] | None:
        """Return the most of each cost of a wanted schedule that has at least `floors`, or None."""

    def promising(self, costs: Ints) -> Mask:
        """Return which rows of lower bounds, one column per cost, leave room for wanted ones."""

    def offer(self, costs: Sequence[int], offsets: Sequence[int]) -> None:
        """Take a schedule."""


class Cheapest:
    """The least of the first cost, with all costs within limits.

    Parameters
    ----------
    most
        The largest of each cost.

    Attributes
    ----------
    value, offsets
        The best so far, None if there is none.
    """

    def __init__(self, most: Sequence[int]) -> None:
        self._most = list(most)
        self.value: int | None = None
        self.offsets: Offsets | None = None

    def limits(self, floors: Sequence[int]) -> Sequence[int] | None:
        """Return the limits, that of the first cost below the best."""
        reached = all(low <= most for low, most in zip(floors, self._most, strict=True))
        return list(self._most) if reached else None

    def promising(self, costs: Ints) -> Mask:
        """Return which rows are within the limits."""
        return np.asarray(np.all(costs <= np.array(self._most), axis=1))

    def offer(self, costs: Sequence[int], offsets: Sequence[int]) -> None:
        """Take a schedule if it is better."""
        if self.limits(costs) is not None:
            self.value, self.offsets = costs[0], tuple(offsets)
            self._most[0] = costs[0] - 1


class Archive:
    """Schedules of which none is as good as another in all of some costs.

    Parameters
    ----------
    most
        The largest of each of those costs that is wanted.

    Attributes
    ----------
    points
        Their costs, ascending, each with its schedule.
    """

    def __init__(self, most: Sequence[int]) -> None:
        self.most = tuple(most)
        self.points: list[tuple[Values, Offsets]] = []
        self._rows: Ints = np.zeros((0, len(self.most)), dtype=np.int64)

    def add(self, values: Values, offsets: Offsets) -> bool:
        """Keep a schedule unless another is as good; return whether it is kept."""
        if self._covers(np.array([values], dtype=np.int64))[0]:
            return False
        self.points = [
            (mine, kept)
            for mine, kept in self.points
            if not all(new <= old for new, old in zip(values, mine, strict=True))
        ]
        bisect.insort(self.points, (values, offsets))
        self._rows = np.array([mine for mine, _ in self.points], dtype=np.int64)
        return True

    def _covers(self, rows: Ints) -> Mask:
        """Return which rows a schedule is known for that is as good in every cost."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        if rows.shape[1] != 2:
            return np.asarray(np.any([(mine <= rows).all(axis=1) for mine in self._rows], axis=0))
        # Where the first cost ascends the second one falls: the last that is as good in the first
        # is the best in the second.
        last = np.searchsorted(self._rows[:, 0], rows[:, 0], side="right") - 1
        covered = (last >= 0) & (self._rows[np.maximum(last, 0), 1] <= rows[:, 1])
        return np.asarray(covered)

    def limits(self, floors: Sequence[int]) -> Sequence[int] | None:
        """Return the most of each cost that what is not covered may have above `floors`."""
        most = list(self.most)
        if self._covers(np.array([floors], dtype=np.int64))[0]:
            return None
        for values, _ in self.points:
            for criterion in range(len(most)):
                others = (i for i in range(len(most)) if i != criterion)
                if all(values[i] <= floors[i] for i in others):
                    most[criterion] = min(most[criterion], values[criterion] - 1)
        return most if all(low <= high for low, high in zip(floors, most, strict=True)) else None

    def promising(self, costs: Ints) -> Mask:
        """Return which rows are within the limits and not covered."""
        within = np.asarray(np.all(costs <= np.array(self.most), axis=1))
        return within & ~self._covers(costs)

    def offer(self, costs: Sequence[int], offsets: Sequence[int]) -> None:
        """Take a schedule."""
        if all(cost <= most for cost, most in zip(costs, self.most, strict=True)):
            self.add(tuple(costs), tuple(offsets))


class Bounded:
    """An archive of the first costs, and further costs that are sums of them or have limits.

    Parameters
    ----------
    archive
        What is found.
    prices, per_unit
        For each further cost what a unit of each of the first costs counts in it, and how much of
        that sum is one of its units.
    """

    def __init__(
        self,
        archive: Archive,
        prices: Sequence[Sequence[int]],
        per_unit: Sequence[Fraction],
    ) -> None:
        self._archive = archive
        self._criteria = len(archive.most)
        self._prices = list(prices)
        self._per_unit = list(per_unit)

    def limits(self, floors: Sequence[int]) -> Sequence[int] | None:
        """Return what the archive says, and what follows for the sums."""
        floors = floors[: self._criteria]
        most = self._archive.limits(floors)
        if most is None:
            return None
        corners = self._corners(floors, most)
        if not corners:
            return None
        return [
            *most,
            *(
                int(max(_sum(prices, corner) for corner in corners) / per_unit)
                for prices, per_unit in zip(self._prices, self._per_unit, strict=True)
            ),
        ]

    def _corners(self, floors: Sequence[int], most: Sequence[int]) -> list[Values]:
        """Return the worst that wanted schedules may be: one at least is as bad in everything."""
        if self._criteria != 2:
            return [tuple(most)]
        inner = [values for values, _ in self._archive.points]
        firsts = [*(values[0] - 1 for values in inner), most[0]]
        seconds = [most[1], *(values[1] - 1 for values in inner)]
        corners = {
            (min(first, most[0]), min(second, most[1]))
            for first, second in zip(firsts, seconds, strict=True)
        }
        return [
            corner
            for corner in corners
            if all(low <= high for low, high in zip(floors, corner, strict=True))
        ]

    def promising(self, costs: Ints) -> Mask:
        """Return which rows the archive wants and no sum forbids."""
        mask = self._archive.promising(costs[:, : self._criteria])
        corners = self._corners([0] * self._criteria, self._archive.most)
        for number, (prices, per_unit) in enumerate(zip(self._prices, self._per_unit, strict=True)):
            most = max((_sum(prices, corner) for corner in corners), default=-1)
            mask &= costs[:, self._criteria + number] <= int(most / per_unit)
        return mask

    def offer(self, costs: Sequence[int], offsets: Sequence[int]) -> None:
        """Take a schedule."""
        self._archive.offer(costs[: self._criteria], offsets)


def _sum(prices: Sequence[int], values: Sequence[int]) -> int:
    return sum(price * value for price, value in zip(prices, values, strict=True))
