"""A job of a scenario as the simulator sees it: what it really does, and what it claims to do."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

from metronome_opt.errors import InputError
from metronome_opt.scenario.build import setting_of, workloads_of
from metronome_opt.scenario.model import Scenario, Work
from metronome_opt.scenario.rounding import Rounded, to_slots
from metronome_opt.scenario.traffic import Iteration, iteration
from metronome_opt.scenario.workload import Workload
from metronome_opt.simulate.pattern import Pattern

SLOT_MS = 1
"""The grid of the policies, fine enough for rounding to cost little.

That of the scenario, and its hyperperiod, are for instances, where all periods have to fit; here
jobs keep in step with those that they meet.
"""


class TrainingJob:
    """One job of a scenario.

    Parameters
    ----------
    index
        Its place in the scenario.
    work, workload
        What the scenario says of it, and of its model; None where it states the traffic.
    scenario
        Where it stands.
    compute_error, volume_error
        By what factors its claim is off.
    """

    def __init__(
        self,
        index: int,
        scenario: Scenario,
        workload: Workload | None,
        compute_error: Fraction,
        volume_error: Fraction,
    ) -> None:
        self.index = index
        self.work: Work = scenario.jobs[index]
        self._scenario = scenario
        self._workload = workload
        self._errors = (compute_error, volume_error)
        self._iterations: dict[int, Iteration] = {}
        self._patterns: dict[int, Pattern] = {}
        self._claims: dict[int, Rounded] = {}

    @property
    def name(self) -> str:
        """What the scenario calls it."""
        return self.work.name

    @property
    def iterations(self) -> int:
        """How many it runs."""
        if self.work.iterations is None:
            raise InputError(
                f"jobs[{self.index}].iterations: missing; a simulation needs to know when "
                f"{self.work.name} ends"
            )
        return self.work.iterations

    def iteration(self, rate: int) -> Iteration:
        """Return what it really does if each worker may send at `rate` Mbit/s.

        Raises
        ------
        InputError
            If workers or batch cannot be shared out as the model asks.
        """
        if rate not in self._iterations:
            try:
                self._iterations[rate] = self._own_iteration(rate)
            except InputError as error:
                raise InputError(f"jobs[{self.index}].{error}") from None
        return self._iterations[rate]

    def _own_iteration(self, rate: int) -> Iteration:
        if self.work.traffic is not None:
            return self.work.traffic.iteration(rate)
        if self._workload is None:
            raise InputError("traffic: missing; state it, or name a model")
        gpu = self._scenario.cluster.gpu
        return iteration(self._workload, setting_of(self.work, self._workload, gpu, rate))

    def pattern(self, rate: int) -> Pattern:
        """Return the same as the simulator takes it."""
        return Pattern.of_iteration(self.iteration(rate))

    def claimed(self, rate: int) -> Pattern:
        """Return what it claims to do."""
        if rate not in self._patterns:
            self._patterns[rate] = Pattern.of_iteration(self.claimed_iteration(rate))
        return self._patterns[rate]

    def slowness(self, rate: int) -> float:
        """Return how many times as long as ideal its iterations take at a rate, as it claims."""
        return self.claimed(rate).alone_ms / self.claimed(self._scenario.cluster.nic).alone_ms

    def claim(self, rate: int) -> Rounded:
        """Return what it claims in slots of `SLOT_MS`, without idle time at the end."""
        if rate not in self._claims:
            self._claims[rate] = to_slots(self.claimed_iteration(rate), SLOT_MS)
        return self._claims[rate]

    def slots(self, rate: int) -> int:
        """Return how many slots an iteration takes that nothing holds up, as it claims."""
        return max(self.claim(rate).busy, math.ceil(self.claimed(rate).duration / SLOT_MS))

    def correct(self, compute: Fraction, volume: Fraction) -> None:
        """Claim computing times and volumes that are so many times as large as those before."""
        self._errors = (self._errors[0] * compute, self._errors[1] * volume)
        self._patterns.clear()
        self._claims.clear()

    def claimed_iteration(self, rate: int) -> Iteration:
        """Return the iteration that it claims, exactly."""
        true, (compute, volume) = self.iteration(rate), self._errors
        return Iteration(
            true.compute * compute,
            tuple(
                replace(burst, after=burst.after * compute, volume=burst.volume * volume)
                for burst in true.bursts
            ),
            true.rest * compute,
        )

    @cached_property
    def ideal(self) -> Pattern:
        """What it does if the network is its own and nobody shares its interfaces."""
        return self.pattern(self._scenario.cluster.nic)


def training_jobs(scenario: Scenario, claim_error: float, seed: int) -> list[TrainingJob]:
    """Return the jobs of a scenario, their claims off by up to `claim_error`, uniformly."""
    workloads = workloads_of(scenario)
    jobs = []
    for index, work in enumerate(scenario.jobs):
        draw = random.Random(f"claim {seed} {index}")  # noqa: S311 (nothing is kept secret)
        compute, volume = (
            1 + Fraction(claim_error * draw.uniform(-1, 1)).limit_denominator(10**6)
            for _ in range(2)
        )
        workload = workloads.get(work.model or "")
        jobs.append(TrainingJob(index, scenario, workload, compute, volume))
    return jobs
