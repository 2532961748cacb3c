"""Costs of the schedules of a group of jobs, and weighted sums of them.

Every objective but the cushion is counted in whole units, so that costs can be compared, added up
and held without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, JobObjective, LayeredObjective, find_objective
from metronome_opt.problem.stopping import StoppingRule
from metronome_opt.solvers.cost_network.model import CostNetwork, LinkCosts
from metronome_opt.solvers.cost_network.tables import (
    build,
    common_divisor,
    contention_cells,
    max_contention,
    scale_of,
)
from metronome_opt.solvers.kernels.compiled_instance import (
    Ints,
    TooLargeError,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import contention, put_job, score_job, state_of
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.solvers.registry import LAYERED
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate

Offsets = tuple[int, ...]
_LARGEST = 2**61


def can_rotate(names: Collection[str]) -> bool:
    """Return True if rotating jobs that share links changes none of some objectives."""
    return all(find_objective(name).rotation_invariant for name in names)


def is_layered(name: str) -> bool:
    """Return True if an objective is the contention of other weights."""
    return isinstance(find_objective(name), LayeredObjective)


def find_layered(name: str) -> LayeredObjective:
    """Return an objective that `is_layered`."""
    objective = find_objective(name)
    assert isinstance(objective, LayeredObjective)  # noqa: S101 (the callers' promise)
    return objective


def weigh(instance: Instance, coefficients: Mapping[str, Fraction]) -> tuple[Instance, Fraction]:
    """Return a sum of layered objectives as the contention of other weights.

    Coefficients are those of a Mbit/s of each objective, by name, not negative. The jobs with other
    weights are returned, and what a unit of their contention counts in the sum.
    """
    common = math.lcm(1, *(factor.denominator for factor in coefficients.values()))
    whole = {find_layered(name): int(factor * common) for name, factor in coefficients.items()}
    shared = math.gcd(*whole.values()) or 1
    jobs = []
    for job in instance.jobs:
        terms = (factor // shared * layer.weight(job.weight) for layer, factor in whole.items())
        jobs.append(job.model_copy(update={"weight": sum(terms)}))
    return instance.replace(jobs=tuple(jobs)), Fraction(shared, common)


class _LayeredCost:
    """A layered objective of a group, in units."""

    def __init__(self, group: Instance, objective: LayeredObjective, traffic: Fraction) -> None:
        alone, _ = weigh(group, {objective.name: Fraction(1)})
        self.compiled = compile_instance(alone)
        self.scale = scale_of(self.compiled)
        self.step = self.scale * objective.share(traffic)

    @property
    def max_units(self) -> int:
        """An upper bound in units."""
        return int(max_contention(self.compiled) / self.scale) + 1

    def units(self, offsets: Sequence[int]) -> int:
        return int(contention(self.compiled, state_of(self.compiled, offsets)) / self.scale)

    def around(self, offsets: Sequence[int], job: int) -> Ints:
        """Return the units with one job at each of its offsets."""
        state = state_of(self.compiled, offsets)
        put_job(state, job, int(offsets[job]), -1)
        without = contention(self.compiled, state)
        added = np.empty(self.compiled.instance.jobs[job].period, dtype=np.int64)
        score_job(state, job, added)
        step = self.compiled.fraction(1, job) / self.scale
        # Beyond 64 bits Python's own integers are slow, and exact.
        fits = max(self.max_units, step.numerator) < _LARGEST
        counts: Ints = (added // step.denominator).astype(np.int64 if fits else object)
        return counts * step.numerator + int(without / self.scale)


class _JobCost:
    """A sum over the jobs of a group, in units."""

    step = Fraction(1)

    def __init__(self, group: Instance, objective: JobObjective) -> None:
        self._jobs = group.jobs
        self._objective = objective
        costs = [objective.max_cost(job) for job in group.jobs]
        self.max_units = sum(costs)
        """An upper bound in units."""
        if self.max_units >= _LARGEST:
            at = costs.index(max(costs))
            raise TooLargeError(
                f"jobs[{at}] ({group.jobs[at].name}): its {objective.name} may reach "
                f"{quote(costs[at])}, that of its group {quote(self.max_units)}, which does not "
                "fit 64-bit integers; use smaller weights"
            )

    def units(self, offsets: Sequence[int]) -> int:
        return sum(map(self._objective.cost, self._jobs, map(int, offsets)))

    def of_job(self, job: int) -> list[int]:
        """Return the units of one job at each of its offsets."""
        record = self._jobs[job]
        return [self._objective.cost(record, offset) for offset in range(record.period)]

    def around(self, offsets: Sequence[int], job: int) -> Ints:
        """Return the units with one job at each of its offsets."""
        mine = np.array(self.of_job(job), dtype=np.int64)
        return mine + (self.units(offsets) - int(mine[offsets[job]]))


class Costs:
    """The costs of the schedules of a group of jobs; ``objective = units * step``.

    Parameters
    ----------
    search
        Run of the group; it says when to stop.
    traffic
        All traffic, of which latency is a share, Mbit/s.
    names
        The objectives that will be asked for. Only if rotations change none of them are rotations
        of one another taken for one.
    """

    def __init__(self, search: SolverRun, traffic: Fraction, names: Sequence[str]) -> None:
        self.search = search
        self.group: Instance = search.instance
        self.rotations_are_equal = can_rotate(names)
        self.layered: dict[str, _LayeredCost] = {}
        self.singles: dict[str, _JobCost] = {}
        for name in dict.fromkeys((*LAYERED, *names)):
            objective = find_objective(name)
            if isinstance(objective, LayeredObjective):
                self.layered[name] = _LayeredCost(self.group, objective, traffic)
            elif isinstance(objective, JobObjective):
                self.singles[name] = _JobCost(self.group, objective)
        self._counted: dict[str, _LayeredCost | _JobCost] = {**self.layered, **self.singles}
        self.steps = {name: counted.step for name, counted in self._counted.items()}

    def coefficients_of_units(self, coefficients: Mapping[str, Fraction]) -> dict[str, int]:
        """Return whole coefficients of the units of objectives, in the ratio that their own have.

        Raises
        ------
        TooLargeError
            If a sum at these coefficients may not fit 64-bit integers.
        """
        exact = {name: factor * self.steps[name] for name, factor in coefficients.items()}
        common = math.lcm(*(factor.denominator for factor in exact.values()))
        whole = {name: int(factor * common) for name, factor in exact.items()}
        largest = sum(whole.values()) * max(counted.max_units for counted in self._counted.values())
        if largest >= _LARGEST:
            raise TooLargeError(
                f"{self.group.name}: a sum of {', '.join(self._counted)} may reach "
                f"{quote(largest)} units, which does not fit 64-bit integers; use rates "
                "and capacities with a larger common divisor, or smaller or simpler weights"
            )
        return whole

    def per_bandwidth(self, coefficients: Mapping[str, int]) -> dict[str, Fraction]:
        """Return the coefficients of a Mbit/s of layered objectives, given those of their units."""
        return {
            name: factor / self.layered[name].scale
            for name, factor in coefficients.items()
            if name in self.layered
        }

    def units(self, name: str, offsets: Sequence[int]) -> int:
        """Return what a schedule costs, in units."""
        return self._counted[name].units(offsets)

    def total(self, coefficients: Mapping[str, int], offsets: Sequence[int]) -> int:
        """Return a sum of objectives of a schedule, given the coefficient of a unit of each."""
        return sum(factor * self.units(name, offsets) for name, factor in coefficients.items())

    def value(self, name: str, offsets: Offsets) -> Fraction | None:
        """Return an objective of a schedule; None for a cushion that nothing limits."""
        if name == CUSHION:
            return evaluate(self.group, self.offsets_by_job(offsets)).objectives[CUSHION]
        return self.units(name, offsets) * self.steps[name]

    def offsets_by_job(self, offsets: Offsets) -> dict[str, int]:
        """Return offsets by the names of the jobs."""
        return dict(zip((job.name for job in self.group.jobs), offsets, strict=True))

    def around(self, offsets: Sequence[int], job: int) -> dict[str, Ints]:
        """Return each objective in units, with one job at each of its offsets."""
        return {name: counted.around(offsets, job) for name, counted in self._counted.items()}


class SumRun(SolverRun):
    """A run that minimises a weighted sum of objectives of a group.

    The sum of the layered objectives is the contention of other weights; the other objectives are
    what each job costs by itself. The run is proved as well where no schedule is within the limit.

    Parameters
    ----------
    costs
        Costs of the group; its run says when to stop.
    coefficients
        The coefficient of a unit of each objective, by name.
    limit
        The largest sum that is asked for, 0 or more.
    callback
        As of `SolverRun`.

    Raises
    ------
    TooLargeError
        If costs do not fit 64-bit integers.
    """

    def __init__(
        self,
        costs: Costs,
        coefficients: Mapping[str, int],
        limit: int,
        callback: StoppingRule | None = None,
    ) -> None:
        weighted, unit = weigh(costs.group, costs.per_bandwidth(coefficients))
        whole = costs.search
        super().__init__(
            weighted,
            time_limit=whole.remaining,
            seed=whole.seed,
            threads=whole.threads,
            callback=callback,
            parent=whole,
        )
        self._costs = costs
        self._limit = limit / unit
        singles = {name: factor for name, factor in coefficients.items() if name in costs.singles}
        self._scale = scale_of(self.compiled)
        self._job_costs: list[list[int]] = []
        if singles:
            self._scale = common_divisor(self._scale, 1 / unit)
            steps = int(1 / unit / self._scale)  # of a unit of the sum
            for job, record in enumerate(weighted.jobs):
                total = [0] * record.period
                for name, factor in singles.items():
                    mine = costs.singles[name].of_job(job)
                    total = [t + steps * factor * u for t, u in zip(total, mine, strict=True)]
                self._job_costs.append(total)

    @property
    def proved(self) -> bool:
        """Return True if the best schedule is known, or that none is within the limit."""
        if self.incumbent is None:
            return self.bound is not None and self.bound > self._limit
        return super().proved

    def value(self, offsets: Sequence[int] | Ints) -> Fraction:
        """Return the sum, in the unit of the contention."""
        units = sum(mine[int(o)] for mine, o in zip(self._job_costs, offsets, strict=False))
        return super().value(offsets) + units * self._scale

    def network(self, cushion: int = 0) -> CostNetwork:
        """Return the sum as a network of the schedules within the limit that have a cushion.

        Raises
        ------
        TooLargeError
            If costs do not fit 64-bit integers.
        """
        limit = int(self._limit / self._scale)
        return build(
            self,
            scale=self._scale,
            limit=limit,
            rotations_are_equal=self._costs.rotations_are_equal,
            link_costs=self._with_cushion(cushion, limit + 1) if cushion else None,
            job_costs=self._job_costs,
        )

    def _with_cushion(self, slots: int, beyond: int) -> LinkCosts:
        """Return what links cost, `beyond` without a cushion of some slots.

        Each link that is not overloaded must bear all bursts longer by that much.
        """
        late = self._costs.layered["latency"].compiled
        extended = compile_instance(extend_bursts(late.instance, slots))

        def cells(link: int, domains: Sequence[Ints]) -> Ints | None:
            scale = Fraction(late.unit, late.links[link].hyperperiod)  # of the link alone
            own = contention_cells(self, self.compiled, link, domains, self._scale)
            now = contention_cells(self, late, link, domains, scale)
            then = contention_cells(self, extended, link, domains, scale)
            if own is None or now is None or then is None:
                return None
            return np.where((now == 0) & (then > 0), beyond, own)

        return cells
