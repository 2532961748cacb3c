"""An instance as integer arrays, for the kernels and the models built on the same layers.

Links that can carry the peaks of all their jobs at once never cost anything and are left out.
All bandwidths are divided by `unit`, their greatest common divisor, which keeps numbers small and
exact: every cost times `unit` is in weight * Mbit/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance

Ints = NDArray[np.int64]
Rows = Any  # structured arrays, whose fields a type checker cannot see
_LARGEST = 2**62
_MAX_ENTRIES = 2**27  # of 8 bytes, 1 GiB


class TooLargeError(InputError):
    """Costs of an instance may not fit 64-bit integers, or a model of it memory."""


@dataclass(frozen=True)
class SharedLink:
    """A link that can be overloaded, its weight classes and its users.

    Attributes
    ----------
    capacity, peak
        In units; `peak` is the demand if all its jobs burst at once.
    weights
        The distinct weights of its jobs, ascending: v_1 < v_2 < ...
    coefficients
        ``v_k - v_{k-1}`` with v_0 = 0: what a unit of overload costs in layer k.
    jobs, flows, classes
        Per user: index of the job, its flows on the link, the index of its weight in `weights`.
    """

    name: str
    capacity: int
    peak: int
    hyperperiod: int
    weights: tuple[int, ...]
    coefficients: tuple[int, ...]
    jobs: tuple[int, ...]
    flows: tuple[int, ...]
    classes: tuple[int, ...]


def _columns(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


_LINK = _columns("capacity", "hyperperiod", "base", "first_coefficient", "layers")
# `scale` is the least common multiple of the hyperperiods of the job's links.
_JOB = _columns("period", "ready", "scale", "first_phase", "end_phase", "first_use", "end_use")
_PHASE = _columns("start", "length", "rate")
# A use is in so many layers, from the lowest; its `scale` is scale[job] / hyperperiod[link].
_USE = _columns("link", "flows", "layers", "scale")


class Tables(NamedTuple):
    """Input of the kernels: records of links, jobs, phases and uses.

    A *use* is a pair of a job and a link. The layered demand of a link is the block of
    ``layers * hyperperiod`` entries at its `base` of one flat array: layer k holds the demand of
    the jobs whose weight is at least the k-th. Its coefficients begin at `first_coefficient`.
    """

    links: Rows
    coefficients: Ints
    jobs: Rows
    phases: Rows
    uses: Rows


class DemandState(NamedTuple):
    """Working state of the kernels: an instance, the demand of placed jobs, scratch memory."""

    tables: Tables
    demand: Ints  # layered, of all links
    work: Ints  # shape (5 T,) for the longest period T


@dataclass(frozen=True)
class CompiledInstance:
    """An instance made ready for the kernels.

    Attributes
    ----------
    unit
        Mbit/s that one unit of bandwidth stands for.
    links
        The links that can be overloaded, in the order of the instance.
    """

    instance: Instance
    unit: int
    links: tuple[SharedLink, ...]
    tables: Tables

    def empty(self) -> DemandState:
        """Return a state in which no job is placed."""
        blocks = self.tables.links["layers"] * self.tables.links["hyperperiod"]
        longest = int(self.tables.jobs["period"].max(initial=0))
        demand = np.zeros(int(blocks.sum()), dtype=np.int64)
        return DemandState(self.tables, demand, np.empty(5 * longest, dtype=np.int64))

    def sharing(self) -> list[list[int]]:
        """Return, per job, the others on links that it uses, ascending."""
        around: list[set[int]] = [set() for _ in self.instance.jobs]
        for link in self.links:
            for job in link.jobs:
                around[job].update(link.jobs)
        return [sorted(others - {job}) for job, others in enumerate(around)]

    def fraction(self, scaled: int, job: int) -> Fraction:
        """Return a cost that a kernel computed for `job` in weight * Mbit/s."""
        return Fraction(scaled * self.unit, int(self.tables.jobs["scale"][job]))


def compile_instance(instance: Instance, *, common_scale: bool = False) -> CompiledInstance:
    """Turn an instance into arrays.

    Parameters
    ----------
    common_scale
        Scale the costs of all jobs alike, to the least common multiple of all hyperperiods, so that
        they can be added up; otherwise each job's to that of its own links, which is smaller.

    Raises
    ------
    InputError
        If some cost cannot be computed in 64-bit integers, or a hyperperiod is above the limit.
    """
    instance.check_hyperperiods()
    rates = [phase.rate for job in instance.jobs for phase in job.phases]
    unit = math.gcd(*rates, *(link.capacity for link in instance.links))
    links = _shared_links(instance, unit)
    position = {link.name: index for index, link in enumerate(links)}
    common = math.lcm(*(link.hyperperiod for link in links)) if common_scale else 1
    jobs: list[tuple[int, ...]] = []
    phases: list[tuple[int, ...]] = []
    uses: list[tuple[int, ...]] = []
    for index, job in enumerate(instance.jobs):
        mine = [position[name] for name in job.links if name in position]
        scale = math.lcm(common, *(links[link].hyperperiod for link in mine))
        _check_fits(instance, unit, index, scale, [links[link] for link in mine])
        first_phase, first_use = len(phases), len(uses)
        phases += [(phase.start, phase.length, phase.rate // unit) for phase in job.phases]
        for link in mine:
            shared = links[link]
            user = shared.jobs.index(index)
            uses.append(
                (link, shared.flows[user], shared.classes[user] + 1, scale // shared.hyperperiod)
            )
        ranges = (first_phase, len(phases), first_use, len(uses))
        jobs.append((job.period, job.ready % job.period, scale, *ranges))
    sizes = [len(link.coefficients) * link.hyperperiod for link in links]
    if sum(sizes) > _MAX_ENTRIES:
        raise InputError(
            f"{instance.name}: the demand of its links over their hyperperiods takes {sum(sizes)} "
            f"numbers, more than {_MAX_ENTRIES}; coarsen the slots or use fewer weights"
        )
    bases = accumulate(sizes, initial=0)
    first_coefficients = accumulate((len(link.coefficients) for link in links), initial=0)
    rows = [
        (link.capacity, link.hyperperiod, base, first_coefficient, len(link.coefficients))
        for link, base, first_coefficient in zip(links, bases, first_coefficients, strict=False)
    ]
    tables = Tables(
        links=np.array(rows, dtype=_LINK),
        coefficients=np.array(
            [factor for link in links for factor in link.coefficients], dtype=np.int64
        ),
        jobs=np.array(jobs, dtype=_JOB),
        phases=np.array(phases, dtype=_PHASE),
        uses=np.array(uses, dtype=_USE),
    )
    return CompiledInstance(instance, unit, links, tables)


def _shared_links(instance: Instance, unit: int) -> tuple[SharedLink, ...]:
    shared = []
    for link in instance.links:
        jobs = instance.jobs_on[link.name]
        flows = tuple(instance.jobs[job].links[link.name] for job in jobs)
        peak = sum(instance.jobs[job].peak * count for job, count in zip(jobs, flows, strict=True))
        if peak <= link.capacity:
            continue
        weights = tuple(sorted({instance.jobs[job].weight for job in jobs}))
        shared.append(
            SharedLink(
                name=link.name,
                capacity=link.capacity // unit,
                peak=peak // unit,
                hyperperiod=instance.hyperperiods[link.name],
                weights=weights,
                coefficients=tuple(b - a for a, b in zip((0, *weights), weights, strict=False)),
                jobs=jobs,
                flows=flows,
                classes=tuple(weights.index(instance.jobs[job].weight) for job in jobs),
            )
        )
    return tuple(shared)


def _check_fits(
    instance: Instance, unit: int, index: int, scale: int, links: list[SharedLink]
) -> None:
    """Refuse a job whose rates or scaled costs might leave 64 bits, before any array is made."""
    job = instance.jobs[index]
    if job.peak // unit >= _LARGEST:
        raise TooLargeError(
            f"jobs[{index}] ({job.name}): a rate of {quote(job.peak)} does not fit 64-bit "
            "integers; use rates and capacities with a larger common divisor"
        )
    worst = sum(scale * max(1, link.weights[-1]) * (link.peak + link.capacity) for link in links)
    if worst >= _LARGEST:
        raise TooLargeError(
            f"jobs[{index}] ({job.name}): its cost over {scale} slots may reach "
            f"{quote(worst)}, which does not fit 64-bit integers; use rates and capacities with a "
            "larger common divisor, smaller weights or periods with a smaller common multiple"
        )
