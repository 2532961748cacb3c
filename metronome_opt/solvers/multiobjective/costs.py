"""Costs of the schedules of a group of jobs, also as networks.

Every objective but the cushion is counted in whole units, so that costs can be compared, added up
and held without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, JobObjective, LayeredObjective, find_objective
from metronome_opt.solvers.cost_network.model import Cost, CostNetwork
from metronome_opt.solvers.cost_network.tables import (
    build,
    contention_cells,
    domains_of,
    max_contention,
    scale_of,
)
from metronome_opt.solvers.kernels.compiled_instance import (
    CostTooLargeError,
    Ints,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import contention, put_job, score_job, state_of
from metronome_opt.solvers.multiobjective.weighting import can_rotate, weigh
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.solvers.registry import LAYERED
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate

Offsets = tuple[int, ...]
_LARGEST = 2**61


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
        each = [objective.max_cost(job) for job in group.jobs]
        self.max_units = sum(each)
        """An upper bound in units."""
        if self.max_units >= _LARGEST:
            at = each.index(max(each))
            raise CostTooLargeError(
                f"jobs[{at}] ({group.jobs[at].name}): its {objective.name} may reach "
                f"{quote(each[at])}, that of its group {quote(self.max_units)}, which does not fit "
                "64-bit integers; use smaller weights"
            )

    def units(self, offsets: Sequence[int]) -> int:
        return sum(map(self._objective.cost, self._jobs, map(int, offsets)))

    def at(self, job: int, offsets: Sequence[int] | Ints) -> Ints:
        """Return the units of one job at some offsets."""
        units = [self._objective.cost(self._jobs[job], int(offset)) for offset in offsets]
        return np.array(units, dtype=np.int64)

    def around(self, offsets: Sequence[int], job: int) -> Ints:
        """Return the units with one job at each of its offsets."""
        mine = self.at(job, range(self._jobs[job].period))
        return mine + (self.units(offsets) - int(mine[offsets[job]]))


class Costs:
    """The costs of the schedules of a group of jobs.

    Parameters
    ----------
    search
        Of the group; says when to stop.
    traffic
        All traffic, of which latency is a share, Mbit/s.
    names
        The objectives that will be asked for. Only if rotations change none of them are rotations
        of one another taken for one.

    Attributes
    ----------
    group
        The jobs and their links.
    steps
        ``objective = units * step``, by name.
    """

    def __init__(self, search: SolverRun, traffic: Fraction, names: Sequence[str]) -> None:
        self.search = search
        self.group: Instance = search.instance
        self._rotated_alike = can_rotate(names)
        self._layered: dict[str, _LayeredCost] = {}
        self._singles: dict[str, _JobCost] = {}
        for name in dict.fromkeys((*LAYERED, *names)):
            objective = find_objective(name)
            if isinstance(objective, LayeredObjective):
                self._layered[name] = _LayeredCost(self.group, objective, traffic)
            elif isinstance(objective, JobObjective):
                self._singles[name] = _JobCost(self.group, objective)
        self._counted: dict[str, _LayeredCost | _JobCost] = {**self._layered, **self._singles}
        self.steps = {name: counted.step for name, counted in self._counted.items()}

    def prices_of_units(self, prices: Mapping[str, Fraction]) -> dict[str, int]:
        """Return whole prices of the units of objectives, in the ratio that their own have.

        Raises
        ------
        CostTooLargeError
            If a sum at these prices may not fit 64-bit integers.
        """
        exact = {name: price * self.steps[name] for name, price in prices.items()}
        common = math.lcm(*(price.denominator for price in exact.values()))
        whole = {name: int(price * common) for name, price in exact.items()}
        self._check_fits(sum(whole.values()))
        return whole

    def _check_fits(self, price: int) -> None:
        """Refuse a price of a unit, or a sum of prices, by which costs may leave 64 bits."""
        largest = max(counted.max_units for counted in self._counted.values())
        if price * largest >= _LARGEST:
            raise CostTooLargeError(
                f"{self.group.name}: a sum of {', '.join(self._counted)} may reach "
                f"{quote(price * largest)} units, which does not fit 64-bit integers; use rates "
                "and capacities with a larger common divisor, or smaller or simpler weights"
            )

    def per_bandwidth(self, prices: Mapping[str, int]) -> dict[str, Fraction]:
        """Return the prices of a Mbit/s of layered objectives, given those of their units."""
        return {
            name: price / self._layered[name].scale
            for name, price in prices.items()
            if name in self._layered
        }

    def units(self, name: str, offsets: Sequence[int]) -> int:
        """Return what a schedule costs, in units."""
        return self._counted[name].units(offsets)

    def total(self, prices: Mapping[str, int], offsets: Sequence[int]) -> int:
        """Return a sum of objectives of a schedule, given the price of a unit of each."""
        return sum(price * self.units(name, offsets) for name, price in prices.items())

    def value(self, name: str, offsets: Offsets) -> Fraction | None:
        """Return an objective of a schedule; None for a cushion that nothing limits."""
        if name == CUSHION:
            return evaluate(self.group, self.named(offsets)).objectives[CUSHION]
        return self.units(name, offsets) * self.steps[name]

    def named(self, offsets: Offsets) -> dict[str, int]:
        """Return offsets by the names of the jobs."""
        return dict(zip((job.name for job in self.group.jobs), offsets, strict=True))

    def around(self, offsets: Sequence[int], job: int) -> dict[str, Ints]:
        """Return each objective in units, with one job at each of its offsets."""
        return {name: counted.around(offsets, job) for name, counted in self._counted.items()}

    def priced(self, prices: Mapping[str, int], limit: int | None = None) -> CostNetwork:
        """Return a weighted sum of objectives as a network.

        Parameters
        ----------
        prices
            The price of a unit of each objective, by name.
        limit
            The largest sum that is asked for; none if left out.

        Raises
        ------
        ModelTooLargeError, CostTooLargeError
            If costs do not fit 64-bit integers.
        """
        weighted, scale = weigh(self.group, self.per_bandwidth(prices))
        search = self.search.below(weighted)
        self._check_fits(max(prices.values(), default=0))
        limit = None if limit is None else min(limit, _LARGEST)
        unlimited = max_contention(search.compiled)
        network = build(
            search,
            limit=unlimited if limit is None else min(Fraction(limit) / scale, unlimited),
            rotations_alike=self._rotated_alike,
        )
        # The sum is so many times what the network counts in its units.
        per_unit = network.scale * scale
        singles = {name: price for name, price in prices.items() if name in self._singles}
        if singles:
            network = _finer(network, per_unit.numerator)
            network = self._with_singles(network, singles, per_unit.denominator)
            worst = network.limit + sum(
                int(cost.excess.max()) + cost.low
                for cost in network.costs
                if cost.link is None and cost.excess is not None
            )
            largest = _LARGEST if limit is None else limit * per_unit.denominator
            network = replace(network, limit=min(worst, largest))
        return network

    def bearing(self, slots: int) -> CostNetwork:
        """Return a network of limit 0 that allows a cushion of at least some slots.

        Each link that is not overloaded must bear all bursts longer by that much.
        """
        late = self._layered["latency"].compiled
        longer = compile_instance(extend_bursts(late.instance, slots))

        def cells(link: int, domains: Sequence[Ints]) -> Ints | None:
            scale = Fraction(late.unit, late.links[link].hyperperiod)  # of the link alone
            now = contention_cells(self.search, late, link, domains, scale)
            then = contention_cells(self.search, longer, link, domains, scale)
            if now is None or then is None:
                return None
            overloaded: Ints = ((now == 0) & (then > 0)).astype(np.int64)
            return overloaded

        domains = domains_of(self.group, rotations_alike=self._rotated_alike)
        costs = tuple(
            Cost(index, 0, tuple(job for job in link.jobs if len(domains[job]) > 1), None)
            for index, link in enumerate(late.links)
        )
        return CostNetwork(late, Fraction(1), domains, costs, 0, np.int32, cells)

    def _with_singles(
        self, network: CostNetwork, prices: Mapping[str, int], factor: int
    ) -> CostNetwork:
        """Return the network with what each job costs by itself, times a factor."""
        self._check_fits(sum(prices.values()) * factor)
        costs = list(network.costs)
        for number, domain in enumerate(network.domains):
            table = np.zeros(len(domain), dtype=np.int64)
            for name, price in prices.items():
                table += price * factor * self._singles[name].at(number, domain)
            scope = (number,) if len(domain) > 1 else ()
            single = Cost(None, 0, scope, None)
            costs.append(single.with_table(table if scope else table.reshape(())))
        return replace(network, costs=tuple(costs))


def _finer(network: CostNetwork, factor: int) -> CostNetwork:
    """Return a network in units that are smaller by a whole factor."""
    costs = tuple(
        replace(
            cost,
            low=cost.low * factor,
            excess=None if cost.excess is None else cost.excess.astype(np.int64) * factor,
        )
        for cost in network.costs
    )
    return replace(
        network,
        costs=costs,
        scale=network.scale / factor,
        limit=network.limit * factor,
        dtype=np.int64,
    )
