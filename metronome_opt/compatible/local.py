"""Large neighbourhoods: free some jobs, put them back in random order, keep what is no worse."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.choices import Choices, costs_of, least_cost
from metronome_opt.compatible.choose import Chosen, Offer
from metronome_opt.compatible.greedy import fill, heaviest_first, roomiest
from metronome_opt.compatible.placed import Placed
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.deadline import Deadline

_MOST_FREED = 8


def choose(
    instance: Instance,
    choices: Choices,
    clock: Deadline,
    *,
    cushion_slots: int = 0,
    seed: int = 0,
    rounds: int | None = None,
    share: float = 1.0,
    offer: Offer | None = None,
) -> Chosen:
    """Improve the greedy answer until the clock is over or every job has its cheapest choice.

    Parameters
    ----------
    rounds
        After how many rounds in a row without a gain to end; None for no limit.
    share
        Of the time that greedy leaves, the most that the rounds may take.
    offer
        Told of every answer that is better than all before.
    """
    search = _Search(instance, choices, clock, cushion_slots, seed)
    best = Chosen(None, None, least_cost(choices))
    least, idle = None, 0
    part = clock.share(share)
    while True:
        if least is None or search.value < least:
            least, idle = search.value, 0
            stranded, cost = least
            if not stranded:
                best = Chosen(search.placed.schedule, cost, best.bound)
                if offer is not None:
                    offer(search.placed.schedule, cost)
        if part.over or best.proved or idle == rounds:
            return best
        search.step()
        idle += 1


class _Search:
    """Jobs that are placed, those that run freely, and those that are stranded.

    Attributes
    ----------
    value
        How many are stranded, and what the choices of the others cost.
    """

    def __init__(
        self, instance: Instance, choices: Choices, clock: Deadline, cushion_slots: int, seed: int
    ) -> None:
        self._choices = choices
        self._costs = costs_of(choices)
        self._clock = clock
        self._draw = random.Random(seed)  # noqa: S311 (not for secrets)
        self._around = _neighbours(instance)
        self.placed = Placed(instance, cushion_slots)
        self._stranded = fill(self.placed, choices, heaviest_first(instance, choices), clock)
        self.value = self._evaluate()

    def step(self) -> None:
        """Free a job that has not its cheapest choice and some around it, and put them back."""
        freed = self._freed()
        old = {name: self.placed.take(name) for name in freed if name in self.placed.kept}
        stranded, before = self._stranded, self.value
        pick = self._draw.choice((roomiest, self._any_offset))
        refused = fill(self.placed, self._choices, freed, self._clock, pick)
        self._stranded = [name for name in stranded if name not in freed] + refused
        self.value = self._evaluate()
        if self.value > before:
            for name in freed:
                if name in self.placed.kept:
                    self.placed.take(name)
            for name, (period, offset) in old.items():
                self.placed.put(name, period, offset)
            self._stranded, self.value = stranded, before

    def _evaluate(self) -> tuple[int, Fraction]:
        costs = (
            mine[self._period(name)]
            for name, mine in self._costs.items()
            if name not in self._stranded
        )
        return len(self._stranded), sum(costs, Fraction(0))

    def _period(self, name: str) -> int | None:
        return self.placed.kept.get(name, (None, 0))[0]

    def _freed(self) -> list[str]:
        """Return a job that has not its cheapest choice and some that it meets, shuffled."""
        unhappy = [
            name
            for name, mine in self._choices.items()
            if name in self._stranded or self._period(name) != mine[0].period
        ]
        first = self._draw.choice(unhappy)
        around = [name for name in self._around[first] if name in self.placed.kept]
        count = self._draw.randint(min(1, len(around)), min(_MOST_FREED, len(around)))
        freed = [first, *self._draw.sample(around, count)]
        self._draw.shuffle(freed)
        return freed

    def _any_offset(self, job: Job, cost: Ints) -> int:  # noqa: ARG002
        return int(self._draw.choice(np.flatnonzero(cost == 0)))


def _neighbours(instance: Instance) -> dict[str, list[str]]:
    """Return for each job those that share a link with it."""
    return {
        job.name: sorted(
            {instance.jobs[user].name for link in job.links for user in instance.jobs_on[link]}
            - {job.name}
        )
        for job in instance.jobs
    }
