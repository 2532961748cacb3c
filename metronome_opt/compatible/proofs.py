"""Proofs of refutations, as files state them and `metronome verify` replays them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from metronome_opt.compatible.decider import Pairs
from metronome_opt.compatible.problem import Fit, FitTask, at_periods, fold, load
from metronome_opt.instance import Instance
from metronome_opt.schedule import Refutation

MAX_NODES = 100_000  # of a tree
_MAX_SLOTS = 100_000  # of the common multiple of periods on a link
_MAX_STATED = 10_000  # refutations of one file


def prove(
    instance: Instance, fit: Fit, *, drop: bool, cushion_slots: int
) -> tuple[tuple[Refutation, ...], int | None]:
    """Return the refutations of an answer with their proofs, and a bound of the weight left out.

    With a bound there are those as well from which it follows: jobs and pairs that do not fit, and
    links that cannot carry all their jobs. There is no bound if they are too many to state.
    """
    task = FitTask(instance, cushion_slots)
    wanted = [dict(each.periods) for each in fit.refutations]
    links: list[Refutation] = []
    bound = fit.bound if drop and fit.bound else None
    if bound is not None:
        names = [job.name for job in instance.jobs]
        periods = {job.name: job.period for job in instance.jobs}
        pairs = Pairs(task)
        basis = [{names[index]: periods[names[index]]} for index in pairs.impossible]
        for i, j in pairs.forbidden:
            if not pairs.fit(i, j, periods[names[i]], periods[names[j]]):
                basis.append({names[index]: periods[names[index]] for index in (i, j)})
        if len(basis) <= _MAX_STATED:
            wanted += basis
            links = list(_overloads(task, periods))
        else:
            bound = None
    return (*(_proved(task, each) for each in wanted), *links), bound


def _proved(task: FitTask, periods: Mapping[str, int]) -> Refutation:
    for each in _overloads(task, periods):
        return each
    return Refutation(periods=periods, branching=branching(task, periods))


def _overloads(task: FitTask, periods: Mapping[str, int]) -> Iterator[Refutation]:
    """Yield the links to which some jobs bring more traffic than they carry."""
    for link in task.instance.links:
        users = [task.instance.jobs[index] for index in task.instance.jobs_on[link.name]]
        loads = {
            job.name: job.links[link.name] * load(job, periods[job.name], task.cushion_slots)
            for job in users
            if job.name in periods
        }
        if sum(loads.values()) > link.capacity:
            yield Refutation(periods={name: periods[name] for name in loads}, link=link.name)


def branching(  # noqa: C901
    task: FitTask, periods: Mapping[str, int], limit: int = MAX_NODES
) -> tuple[int, ...] | None:
    """Return a search tree which shows that jobs do not fit, as `schedule.Refutation` has it.

    Depth first, the job with the fewest slots left next. None if it has more nodes than the limit,
    or slots are too many to be looked at one by one.
    """
    folded = fold(at_periods(task.instance, periods, task.cushion_slots))
    jobs = {job.name: job for job in folded.jobs}
    capacity = {link.name: link.capacity for link in folded.links}
    rates = {name: _rates(folded, name) for name in periods}
    lengths = {
        link: math.lcm(*(jobs[name].period for name in jobs if link in jobs[name].links))
        for job in folded.jobs
        for link in job.links
    }
    if max(lengths.values(), default=0) > _MAX_SLOTS:
        return None
    start = {link: np.zeros(length, dtype=np.int64) for link, length in lengths.items()}
    free = all(job.fixed_offset is None for job in folded.jobs)

    def open_slots(name: str, demand: Mapping[str, NDArray[np.int64]]) -> list[int]:
        job, mine = jobs[name], rates[name]
        period = job.period
        blocked = np.zeros(period, dtype=bool)
        for link, flows in job.links.items():
            for rate in set(mine.tolist()) - {0}:
                full = demand[link] > capacity[link] - flows * rate
                at = np.flatnonzero(full.reshape(-1, period).any(axis=0))
                for slot in np.flatnonzero(mine == rate):
                    blocked[(at - slot) % period] = True
        if job.fixed_offset is not None:
            return [] if blocked[job.fixed_offset] else [job.fixed_offset]
        return [int(slot) for slot in np.flatnonzero(~blocked)]

    order = list(periods)
    tree: list[int] = []
    # What is on links, and the jobs to be placed beside it; the last is the next one.
    todo = [(start, tuple(order))]
    while todo:
        demand, left = todo.pop()
        if not left or len(tree) == limit:
            return None  # nothing is claimed that is not shown
        choices = {name: open_slots(name, demand) for name in left}
        name = min(left, key=lambda each: len(choices[each]))
        slots = choices[name]
        if free and len(left) == len(order):  # all jobs may be shifted together
            slots = [slot for slot in slots if slot == 0]
        tree.append(order.index(name))
        rest = tuple(other for other in left if other != name)
        for slot in reversed(slots):
            beside = dict(demand)
            for link, flows in jobs[name].links.items():
                turned = np.roll(rates[name], slot) * flows
                beside[link] = demand[link] + np.resize(turned, lengths[link])
            todo.append((beside, rest))
    return tuple(tree)


def _rates(folded: Instance, name: str) -> NDArray[np.int64]:
    """Return the rate of a flow of a job in each slot of its period, at offset 0."""
    job = folded.job(name)
    rates = np.zeros(job.period, dtype=np.int64)
    for phase in job.phases:
        slots = np.arange(phase.start, phase.end) % job.period
        rates[slots] = np.maximum(rates[slots], phase.rate)
    return rates
