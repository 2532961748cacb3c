"""What links without a table cost at least, given the jobs whose offsets are decided.

What a job adds to a link never falls as others are placed: contention is supermodular. So a link
costs at least what the decided jobs cost together, plus what each of the others would add to them,
each by itself. That is a sum of functions of one offset each, as good as a table to prune with.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.jobs import put_use, score_use
from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.network.model import Cells, Cost, Network


def condition(network: Network) -> Network:
    """Return the network with what is known of its links without a table."""
    if network.link_costs is not None:
        return network  # nothing is known but of contention
    for position, cost in enumerate(network.costs):
        if cost.excess is None and network.slack >= 0:
            network = network.having(position, _conditioned(network, cost))
    return network


def _conditioned(network: Network, cost: Cost) -> Cost:
    """Return a cost without a table, with what its jobs add to those that are decided."""
    assert cost.link is not None  # noqa: S101 (what was eliminated has a table)
    state, records = network.compiled.empty(), network.compiled.tables.jobs
    low = 0
    added: dict[int, Ints] = {}
    jobs = network.compiled.links[cost.link].jobs
    for job in sorted(jobs, key=lambda job: len(network.domains[job])):  # the decided first
        domain = network.domains[job]
        use = int(
            np.flatnonzero(_links_of(network, job) == cost.link)[0] + records["first_use"][job]
        )
        scaled = np.empty(records["period"][job], dtype=np.int64)
        score_use(state, job, use, scaled)
        factor = Fraction(network.compiled.unit, int(records["scale"][job])) / network.scale
        units = scaled[domain] * factor.numerator // factor.denominator
        least = int(units.min())
        low += least
        added[job] = units - least
        if len(domain) == 1:
            put_use(state, job, use, int(domain[0]), 1)
    return _with_singles(cost, low, added, network)


def _with_singles(cost: Cost, low: int, added: dict[int, Ints], network: Network) -> Cost:
    """Return a cost of at least `low` and what its jobs add, or of more if more is known.

    If `low` is less than what is known, what exceeds the latter is what counts of a job.
    """
    rise = max(0, low - cost.low)
    lacking = max(0, cost.low - low)
    most = network.slack - rise + 1
    singles: list[Cells] = [
        np.clip(added[job] - lacking, 0, max(0, most)).astype(network.dtype) for job in cost.scope
    ]
    return replace(cost, low=cost.low + rise, singles=tuple(singles))


def _links_of(network: Network, job: int) -> Ints:
    tables = network.compiled.tables
    first, end = tables.jobs["first_use"][job], tables.jobs["end_use"][job]
    links: Ints = tables.uses["link"][first:end]
    return links
