"""The objectives of a group of jobs at given periods: their values, and their cost networks.

Every objective but the cushion is counted in whole units, so that costs can be compared, added up
and held without rounding. A cushion is not a cost: that it is at least so many slots is a matter
of which combinations of offsets are allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.jobs import contention, demand_of, put_job, score_job, workspace
from metronome_opt.kernels.tables import Compiled, CostTooLargeError, Ints, compile_instance
from metronome_opt.multiobjective.objectives import can_turn
from metronome_opt.multiobjective.weighting import LAYERED, is_layered, weigh
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.solvers.network import Cost, Network
from metronome_opt.solvers.network.tables import (
    build,
    contention_cells,
    domains_of,
    most_contention,
    scale_of,
)
from metronome_opt.solvers.search import Search

Offsets = tuple[int, ...]
MIXTURE = "weighted sum"
_LARGEST = 2**61


@dataclass(frozen=True)
class Priced:
    """A weighted sum of objectives as a cost network.

    Attributes
    ----------
    search
        Of the same jobs, to ask whether to stop.
    network
        The sum, within the most that was asked for.
    per_unit
        ``sum of price * units of each objective = per_unit * units of the network``.
    """

    search: Search
    network: Network
    per_unit: Fraction


class Costs:
    """What the schedules of a group of jobs cost.

    Parameters
    ----------
    search
        Of the group; says when to stop.
    traffic
        What latency is a share of, Mbit/s.
    names
        The objectives that will be asked for. Only if rotations change none of them are rotations
        of one another taken for one.
    mixture
        Prices of objectives, whose sum goes by the name `MIXTURE`.

    Attributes
    ----------
    group
        The jobs and their links.
    steps
        ``objective = units * step``, by name.
    """

    def __init__(
        self,
        search: Search,
        traffic: Fraction,
        names: Sequence[str],
        mixture: Mapping[str, Fraction] | None = None,
    ) -> None:
        self.search = search
        self.group: Instance = search.instance
        self._turned_alike = can_turn([*(mixture or ()), *(n for n in names if n != MIXTURE)])
        self._compiled: dict[str, Compiled] = {}
        layered = dict.fromkeys((*LAYERED, *(name for name in names if is_layered(name))))
        self.steps = {"wait": Fraction(1), "moves": Fraction(1)}
        self._scales: dict[str, Fraction] = {}
        for name in layered:
            alone = weigh(self.group, {name: Fraction(1)}).instance
            self._compiled[name] = compile_instance(alone)
            self._scales[name] = scale_of(self._compiled[name])
            self.steps[name] = self._scales[name] / (traffic or 1 if name == "latency" else 1)
        self._mixture: dict[str, int] = {}
        if mixture:
            exact = {name: price * self.steps[name] for name, price in mixture.items()}
            common = math.lcm(*(price.denominator for price in exact.values()))
            self._mixture = {name: int(price * common) for name, price in exact.items()}
            self.steps[MIXTURE] = Fraction(1, common)
            if sum(self._mixture.values()) * self._largest >= _LARGEST:
                raise CostTooLargeError(f"{self.group.name}: a weighted sum does not fit 64 bits")

    @property
    def _largest(self) -> int:
        """More units than any of the objectives comes to."""
        layered = [
            int(most_contention(compiled) / self._scales[name]) + 1
            for name, compiled in self._compiled.items()
        ]
        singles = sum(job.weight * job.period for job in self.group.jobs)
        return max(*layered, singles)

    def most_beside(self, first: str, second: str, offsets: Sequence[int]) -> int | None:
        """Return the most units of latency, or contention, beside no more of the other.

        What is late costs its weight, so contention and what is late bound one another.

        Parameters
        ----------
        first, second
            Contention and latency, or latency and contention.
        offsets
            A schedule: others that have no more of `first` have no more of `second` than this.

        Returns
        -------
        int or None
            None if there is no bound, because some weight is 0.
        """
        weights = [job.weight for job in self.group.jobs]
        value = self.units(first, offsets) * self._scales[first]
        if first == "contention":
            return int(value / min(weights) / self._scales[second]) if min(weights) else None
        return int(value * max(weights) / self._scales[second])

    def per_bandwidth(self, prices: Mapping[str, int]) -> dict[str, Fraction]:
        """Return the prices of a Mbit/s of layered costs, given those of their units."""
        return {
            name: price / self._scales[name]
            for name, price in prices.items()
            if name in self._scales
        }

    def units(self, name: str, offsets: Sequence[int]) -> int:
        """Return what a schedule costs, in units."""
        if name == MIXTURE:
            return sum(price * self.units(each, offsets) for each, price in self._mixture.items())
        if name in self._compiled:
            compiled = self._compiled[name]
            return int(contention(compiled, demand_of(compiled, offsets)) / self._scales[name])
        return sum(
            _of_job(name, job, offset) for job, offset in zip(self.group.jobs, offsets, strict=True)
        )

    def value(self, name: str, offsets: Sequence[int]) -> Fraction:
        """Return an objective of a schedule, offsets in the order of the jobs."""
        return self.units(name, offsets) * self.steps[name]

    def around(self, offsets: Sequence[int], job: int) -> dict[str, Ints]:
        """Return what each objective comes to in units with one job at each of its offsets."""
        moved = self.group.jobs[job]
        found: dict[str, Ints] = {}
        for name, compiled in self._compiled.items():
            tables = compiled.tables
            demand = demand_of(compiled, offsets)
            put_job(tables, demand, job, int(offsets[job]), -1)
            without = contention(compiled, demand)
            added = np.empty(moved.period, dtype=np.int64)
            score_job(tables, demand, job, added, workspace(compiled))
            step = Fraction(compiled.unit, int(tables.scale[job])) / self._scales[name]
            found[name] = added * step.numerator // step.denominator + int(
                without / self._scales[name]
            )
        for name in ("wait", "moves"):
            others = self.units(name, offsets) - _of_job(name, moved, offsets[job])
            found[name] = np.array(
                [others + _of_job(name, moved, offset) for offset in range(moved.period)],
                dtype=np.int64,
            )
        if self._mixture:
            found[MIXTURE] = np.asarray(
                sum(price * found[name] for name, price in self._mixture.items())
            )
        return found

    def expanded(self, prices: Mapping[str, int]) -> dict[str, int]:
        """Return prices of objectives instead of one of their mixture."""
        expanded = {name: price for name, price in prices.items() if name != MIXTURE}
        for name, price in self._mixture.items():
            expanded[name] = expanded.get(name, 0) + prices.get(MIXTURE, 0) * price
        return {name: price for name, price in expanded.items() if price}

    def priced(self, prices: Mapping[str, int], most: int | None = None) -> Priced:
        """Return a weighted sum of objectives as a network.

        Parameters
        ----------
        prices
            What a unit of each objective costs, by name.
        most
            The largest sum that is asked for; no limit if left out.

        Raises
        ------
        ModelTooLargeError
            If costs do not fit 64-bit integers.
        """
        prices = self.expanded(prices)
        weighting = weigh(self.group, self.per_bandwidth(prices))
        search = self.search.below(weighting.instance)
        if max(prices.values(), default=0) * self._largest >= _LARGEST:
            raise CostTooLargeError(f"{self.group.name}: a weighted sum does not fit 64 bits")
        most = None if most is None else min(most, _LARGEST)
        limit = None if most is None else Fraction(most) / weighting.scale
        unlimited = most_contention(search.compiled)
        network = build(
            search,
            most=unlimited if limit is None else min(limit, unlimited),
            turned_alike=self._turned_alike,
        )
        per_unit = network.scale * weighting.scale
        others = {name: price for name, price in prices.items() if name not in self._compiled}
        if any(others.values()):
            network = _finer(network, per_unit.numerator)
            per_unit = Fraction(1, per_unit.denominator)
            network = self._with_singles(network, others, per_unit)
            network = replace(
                network,
                limit=min(
                    _sum_of_worst(network), _LARGEST if most is None else int(most / per_unit)
                ),
            )
        return Priced(search, network, per_unit)

    def bearing(self, slots: int) -> Network:
        """Return a network of limit 0 that allows a cushion of at least some slots.

        Each link that is not overloaded must bear all bursts longer by that much.
        """
        late = self._compiled["latency"]
        longer = compile_instance(lengthen(late.instance, slots))

        def cells(link: int, domains: Sequence[Ints]) -> Ints | None:
            now = contention_cells(self.search, late, link, domains, self._scales["latency"])
            then = contention_cells(self.search, longer, link, domains, scale_of(longer))
            if now is None or then is None:
                return None
            overloaded: Ints = ((now == 0) & (then > 0)).astype(np.int64)
            return overloaded

        domains = domains_of(self.group, turned_alike=self._turned_alike)
        costs = tuple(
            Cost(index, 0, tuple(job for job in link.jobs if len(domains[job]) > 1), None)
            for index, link in enumerate(late.links)
        )
        return Network(late, Fraction(1), domains, costs, 0, np.int32, cells)

    def _with_singles(
        self, network: Network, prices: Mapping[str, int], per_unit: Fraction
    ) -> Network:
        """Return the network with what each job costs by itself."""
        costs = list(network.costs)
        for number, (job, domain) in enumerate(zip(self.group.jobs, network.domains, strict=True)):
            table = np.array(
                [
                    sum(price * _of_job(name, job, int(offset)) for name, price in prices.items())
                    for offset in domain
                ],
                dtype=np.int64,
            ) * int(1 / per_unit)
            scope = (number,) if len(domain) > 1 else ()
            single = Cost(None, 0, scope, None)
            costs.append(single.with_table(table if scope else table.reshape(())))
        return replace(network, costs=tuple(costs))


def _of_job(name: str, job: Job, offset: int) -> int:
    """Return what an objective that is a sum over jobs counts of one job."""
    if name == "wait":
        return job.weight * ((offset - job.ready) % job.period)
    assert name == "moves", name  # noqa: S101 (there is no other)
    return job.weight if job.current_offset not in (None, offset) else 0


def _finer(network: Network, factor: int) -> Network:
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


def _sum_of_worst(network: Network) -> int:
    """Return the most that a network without a limit may cost."""
    singles = sum(
        int(cost.excess.max()) + cost.low
        for cost in network.costs
        if cost.link is None and cost.excess is not None
    )
    return network.limit + singles
