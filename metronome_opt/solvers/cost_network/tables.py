"""Construction of the cost network of a block: cost tables of links, bounds where none fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.cost_network.model import (
    Cells,
    Cost,
    CostNetwork,
    LinkCosts,
    spread,
)
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    Ints,
    TooLargeError,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import put_job, put_use, score_job, score_two, score_use
from metronome_opt.solvers.presolve.blocks import restrict
from metronome_opt.solvers.presolve.orbits import orbits
from metronome_opt.solvers.proof import link_bound
from metronome_opt.solvers.run import SolverRun

SMALL = 2**16
"""Cells of a table that is made in no time."""
_LARGEST = 2**62


def build(
    search: SolverRun,
    *,
    scale: Fraction | None = None,
    limit: int | None = None,
    rotations_are_equal: bool = True,
    has_tables: bool = True,
    link_costs: LinkCosts | None = None,
    job_costs: Sequence[Sequence[int]] = (),
) -> CostNetwork:
    """Return the network of a block with an incumbent: small tables, and bounds of other links.

    Of schedules that are rotations of one another one is kept. Without fixed jobs, one that is on
    many links is given offset 0.

    Parameters
    ----------
    scale
        The value of a unit; that of `scale_of` by default.
    limit
        The largest number of units that is asked for; less than the incumbent's by default.
    rotations_are_equal
        Whether schedules that are rotations of one another are equal; if not, all are kept.
    has_tables
        Whether anything is found out of the links; if not, they cost 0 at least.
    link_costs
        What a link costs, its contention at least; its contention by default.
    job_costs
        What each job costs by itself at each of its offsets, in units.

    Raises
    ------
    TooLargeError
        If costs do not fit 64-bit integers.
    """
    instance = search.instance
    scale = scale or scale_of(search.compiled)
    domains = domains_of(instance, rotations_are_equal=rotations_are_equal)
    costs = []
    for index, link in enumerate(search.compiled.links):
        scope = tuple(job for job in link.jobs if len(domains[job]) > 1)
        costs.append(Cost(index, 0, scope, None))
    if limit is None:
        limit = int((search.incumbent or Fraction(0)) / scale) - 1
    limit = min(limit, int(max_contention(search.compiled) / scale) + sum(map(max, job_costs)))
    # No table has more than the limit and one; a sum has as many terms as there are costs.
    largest = (limit + 2) * (len(costs) + len(job_costs) + 2)
    if largest >= _LARGEST:
        raise TooLargeError(
            f"the objective of {instance.name} may reach {quote(largest)} units, which does not "
            "fit 64-bit integers; use greedy or local, or coarser numbers"
        )
    dtype = np.int32 if largest < 2**31 else np.int64
    singles = [_single(job, domains[job], mine, limit, dtype) for job, mine in enumerate(job_costs)]
    network = CostNetwork(
        search.compiled, scale, domains, (*costs, *singles), limit, dtype, link_costs
    )
    for position, cost in enumerate(costs):
        if search.stopped or not has_tables:
            break
        if network.cells(cost) <= SMALL:
            network = tabulate(search, network, position)
        else:
            name = search.compiled.links[position].name
            low = link_bound(search, name)
            network = network.having(position, replace(cost, low=math.ceil(low / scale)))
    return network


def _single(
    job: int, domain: Ints, units: Sequence[int], limit: int, dtype: type[np.signedinteger[Any]]
) -> Cost:
    """Return what a job costs by itself; what is above the limit is equal."""
    mine = [units[offset] for offset in domain]
    low = min(mine)
    excess = np.array([min(cost - low, limit + 1) for cost in mine], dtype=dtype)
    scope = (job,) if len(domain) > 1 else ()
    return Cost(None, low, scope, excess if scope else excess.reshape(()))


def domains_of(instance: Instance, *, rotations_are_equal: bool = True) -> tuple[Ints, ...]:
    """Return the offsets that each job may have, ascending; see `build`."""
    jobs = instance.jobs
    sizes = {job.name: job.period for job in jobs}
    if rotations_are_equal:
        # First the job that, placed at 0, takes the largest factor off tables.
        order = sorted(
            range(len(jobs)), key=lambda j: -len(jobs[j].links) * math.log(jobs[j].period)
        )
        for orbit in orbits(instance, order):
            sizes |= orbit.domains
    return tuple(
        np.arange(sizes[job.name], dtype=np.int64)
        if job.fixed_offset is None
        else np.array([job.fixed_offset], dtype=np.int64)
        for job in jobs
    )


def scale_of(compiled: CompiledInstance) -> Fraction:
    """Return a number, as large as is easily seen, of which every contention is a multiple."""
    steps = [
        Fraction(compiled.unit * math.gcd(*link.coefficients), link.hyperperiod)
        for link in compiled.links
    ]
    return common_divisor(*(step for step in steps if step)) if any(steps) else Fraction(1)


def common_divisor(*numbers: Fraction) -> Fraction:
    """Return the largest number of which all are multiples."""
    return Fraction(
        math.gcd(*(number.numerator for number in numbers)),
        math.lcm(*(number.denominator for number in numbers)),
    )


def tabulate(search: SolverRun, network: CostNetwork, position: int) -> CostNetwork:
    """Return the network with a table of a link that has none, or as it is if it is stopped."""
    cost = network.costs[position]
    assert cost.link is not None  # noqa: S101 (what was eliminated has a table)
    domains = [network.domains[job] for job in network.compiled.links[cost.link].jobs]
    if network.link_costs is None:
        costs = contention_cells(search, network.compiled, cost.link, domains, network.scale)
    else:
        costs = network.link_costs(cost.link, domains)
    if costs is None:
        return network
    units = costs.reshape([len(network.domains[job]) for job in cost.scope])
    for (one, other), values in network.pair_costs.get(cost.link, {}).items():
        difference = network.domains[other][None, :] - network.domains[one][:, None]
        scope = [job for job in (one, other) if job in cost.scope]
        cells = values[difference % len(values)].reshape([len(network.domains[j]) for j in scope])
        units = units + spread(cells, scope, cost.scope)
    known = replace(cost, low=0).with_table(units)
    cap = max(0, network.headroom - known.low + cost.low) + 1  # what is above the headroom is equal
    excess: Cells = np.minimum(units - known.low, cap).astype(network.dtype)
    return network.having(position, replace(known, excess=excess))


def contention_cells(
    search: SolverRun,
    compiled: CompiledInstance,
    link: int,
    domains: Sequence[Ints],
    scale: Fraction,
) -> Ints | None:
    """Return what a link costs at all combinations of its users' offsets, None if stopped.

    The result has units of `scale`, a common divisor of what the link may cost, and the shape
    (offsets of each user that has several).

    Raises
    ------
    TooLargeError
        If units do not fit 64-bit integers.
    """
    shared = compiled.links[link]
    alone = compile_instance(restrict(compiled.instance, frozenset([shared.name])))
    scaled = _fill(search, alone, domains)
    if scaled is None:
        return None
    step = math.gcd(*shared.coefficients) or 1
    factor = int(Fraction(alone.unit * step, shared.hyperperiod) / scale)
    worst = int(scaled.max(initial=0)) // step * factor
    if worst >= _LARGEST:
        raise TooLargeError(
            f"link {quote(shared.name)}: its cost may reach {quote(worst)} units, which does not "
            "fit 64-bit integers; use greedy or local, or coarser numbers"
        )
    return scaled // step * (factor if worst else 0)


def _fill(search: SolverRun, compiled: CompiledInstance, domains: Sequence[Ints]) -> Ints | None:
    """Return the scaled cost of a single link likewise."""
    # numpy knows 64 axes, and a job with one offset needs none.
    several = [user for user, domain in enumerate(domains) if len(domain) > 1]
    # One pass scores a job at all its offsets: best spent on the largest domain.
    order = sorted(several, key=lambda user: len(domains[user]))
    values = np.empty([len(domains[user]) for user in several], dtype=np.int64)
    state = compiled.empty()
    costs = [np.empty(job.period, dtype=np.int64) for job in compiled.instance.jobs]
    fixed = 0
    for user, domain in enumerate(domains):
        if len(domain) == 1:
            score_job(state, user, costs[user])
            fixed += int(costs[user][domain[0]])
            put_job(state, user, domain[0], 1)
    if not order:
        values[...] = fixed
        return values

    def search_depth_first(depth: int, spent: int, part: Ints) -> None:
        user = order[depth]
        cost = costs[user]
        score_job(state, user, cost)
        here = spent + cost[domains[user]]
        if depth == len(order) - 1:
            part[:] = here
            return
        if depth == len(order) - 2:
            last = order[-1]
            added = np.empty(part.shape, dtype=np.int64)
            score_two(state, user, last, domains[user], domains[last], added)
            part[:] = here[:, None] + added
            return
        for entry, offset in enumerate(domains[user]):
            if search.stopped:
                return
            put_job(state, user, offset, 1)
            search_depth_first(depth + 1, spent + int(cost[offset]), part[entry])
            put_job(state, user, offset, -1)

    axes = [several.index(user) for user in order]
    search_depth_first(0, fixed, np.moveaxis(values, axes, range(len(order))))
    return None if search.stopped else values


def condition(network: CostNetwork) -> CostNetwork:
    """Return the network with what links without a table cost, given the jobs that are decided.

    What a job adds to a link never falls as others are placed: contention is supermodular. So a
    link costs at least what the decided jobs cost together, plus what each of the others would add
    to them, each by itself. That is a sum of functions of one offset each, as good as a table to
    prune with.
    """
    for position, cost in enumerate(network.costs):
        if cost.excess is None and network.headroom >= 0:
            network = network.having(position, _conditioned(network, cost))
    return network


def _conditioned(network: CostNetwork, cost: Cost) -> Cost:
    """Return a cost without a table, with what its jobs add to those that are decided."""
    assert cost.link is not None  # noqa: S101 (what was eliminated has a table)
    tables = network.compiled.tables
    state = network.compiled.empty()
    pairs = network.pair_costs.get(cost.link, {})
    low = sum(
        int(values.min())
        for pair, values in pairs.items()
        if all(len(network.domains[job]) > 1 for job in pair)
    )
    added: dict[int, Ints] = {}
    jobs = network.compiled.links[cost.link].jobs
    for job in sorted(jobs, key=lambda job: len(network.domains[job])):  # the decided first
        domain = network.domains[job]
        first, last = tables.jobs["first_use"][job], tables.jobs["end_use"][job]
        use = int(first + np.flatnonzero(tables.uses["link"][first:last] == cost.link)[0])
        scaled = np.empty(tables.jobs["period"][job], dtype=np.int64)
        score_use(state, job, use, scaled)
        factor = Fraction(network.compiled.unit, int(tables.jobs["scale"][job])) / network.scale
        here = scaled[domain]
        if int(here.max()) * factor.numerator >= _LARGEST:
            here = here.astype(object)  # Python's own integers
        units = here * factor.numerator // factor.denominator
        for other in added:
            if len(network.domains[other]) == 1:
                pair = (min(job, other), max(job, other))
                values = pairs.get(pair, np.zeros(1, dtype=np.int64))
                later = domain if pair[1] == job else network.domains[other]
                earlier = domain if pair[0] == job else network.domains[other]
                units = units + values[(later - earlier) % len(values)]
        minimum = int(units.min())
        low += minimum
        added[job] = units - minimum
        if len(domain) == 1:
            put_use(state, job, use, int(domain[0]), 1)
    # If less than is known, what exceeds the latter is what counts of a job.
    rise = max(0, low - cost.low)
    lacking = max(0, cost.low - low)
    cap = max(0, network.headroom - rise + 1)
    singles: list[Cells] = [
        np.clip(added[job] - lacking, 0, cap).astype(network.dtype) for job in cost.scope
    ]
    return replace(cost, low=cost.low + rise, singles=tuple(singles))


def max_contention(compiled: CompiledInstance) -> Fraction:
    """Return what no schedule's contention exceeds, in weight * Mbit/s."""
    jobs = compiled.instance.jobs
    return Fraction(
        sum(
            link.weights[-1]
            * sum(jobs[j].peak * flows for j, flows in zip(link.jobs, link.flows, strict=True))
            for link in compiled.links
        )
    )
