"""What a reconfiguration costs: the contention that it leaves, and the jobs that it makes wait.

    J(offsets) = K(offsets) / traffic + price * sum of w_j (1 + wait_j / T_j) / sum of w_j

with K the contention, `traffic` its natural size (the weighted traffic of all jobs on all links),
and wait_j the slots from the current offset to the new one; the first sum is over the jobs that
move, the second one over all. Both terms are shares, so that a price means the same in small and in
large networks. Everything is exact.

Contention lasts, whereas a job waits once. A move is counted as 1 + wait_j / T_j iterations of the
job lost, contention as its share of every iteration; so a price of 1 / n, without a unit, is that
of a move whose gain is to pay for it within n iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import (
    contention,
    demand_of,
    put_job,
    score_placed,
    workspace,
)
from metronome_opt.kernels.tables import Ints, compile_instance
from metronome_opt.multiobjective.objectives import normal


class Pricing:
    """Prices of the schedules of an instance.

    Parameters
    ----------
    instance
        Every job has a current offset, and a period that stays.
    price
        Of moves: 1 over the iterations in which one has to pay; 0 for none.
    """

    def __init__(self, instance: Instance, price: Fraction) -> None:
        self.instance = instance
        self.current = tuple(job.current_offset or 0 for job in instance.jobs)
        self._traffic = normal(instance, "contention")
        self._rate = price / (sum(job.weight for job in instance.jobs) or 1)
        self._compiled = compile_instance(instance)
        self._work = workspace(self._compiled)

    def contention(self, offsets: Sequence[int]) -> Fraction:
        """Return the contention, in weight * Mbit/s."""
        return contention(self._compiled, demand_of(self._compiled, offsets))

    def share(self, offsets: Sequence[int]) -> Fraction:
        """Return the contention as a share of the weighted traffic."""
        return self.contention(offsets) / self._traffic

    def wait(self, job: int, offset: int) -> int:
        """Return how many slots a job waits to come to an offset."""
        return (offset - self.current[job]) % self.instance.jobs[job].period

    def move(self, job: int, offset: int) -> Fraction:
        """Return the price of bringing a job to an offset."""
        waits = self.wait(job, offset)
        if not waits:
            return Fraction(0)
        which = self.instance.jobs[job]
        return self._rate * which.weight * (1 + Fraction(waits, which.period))

    def moves(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of all moves."""
        return sum((self.move(job, offset) for job, offset in enumerate(offsets)), Fraction(0))

    def total(self, offsets: Sequence[int]) -> Fraction:
        """Return the price of a schedule, J."""
        return self.share(offsets) + self.moves(offsets)

    def best_of(self, job: int, offsets: Sequence[int]) -> int:
        """Return the best offset of one job while the others are where they are.

        Of several the one that is reached soonest.
        """
        return self._best(job, offsets[job], demand_of(self._compiled, offsets))[0]

    def descend(self, offsets: Sequence[int], free: Sequence[int]) -> tuple[int, ...]:
        """Bring one free job after the other to its best offset, the one that gains most first."""
        best = list(offsets)
        tables, demand = self._compiled.tables, demand_of(self._compiled, best)
        around = self._compiled.sharing()
        ways = {job: self._best(job, best[job], demand) for job in free}
        while ways:
            job = max(ways, key=lambda job: ways[job][1])
            offset, gain = ways[job]
            if gain <= 0:
                break
            put_job(tables, demand, job, best[job], -1)
            put_job(tables, demand, job, offset, 1)
            best[job] = offset
            for other in {job, *around[job]} & ways.keys():
                ways[other] = self._best(other, best[other], demand)
        return tuple(best)

    def _best(self, job: int, offset: int, demand: Ints) -> tuple[int, Fraction]:
        """Return the best offset of a job that is at one now, and what it gains there.

        The price of waiting grows with the wait, so among the offsets only those matter that cost
        less than all that are reached before.
        """
        period = self.instance.jobs[job].period
        cost = np.zeros(period, dtype=np.int64)
        score_placed(self._compiled.tables, demand, job, offset, cost, self._work)
        ahead = np.roll(cost, -self.current[job])

        def price(waits: int) -> Fraction:
            added = self._compiled.fraction(int(ahead[waits]), job)
            return added / self._traffic + self.move(job, (self.current[job] + waits) % period)

        best = min(_records(ahead), key=price)
        gain = price((offset - self.current[job]) % period) - price(best)
        return (self.current[job] + best) % period, gain


def _records(values: Ints) -> Iterator[int]:
    """Yield the places of the values that are less than all before them."""
    least = None
    for place, value in enumerate(values):
        if least is None or value < least:
            least = value
            yield place
