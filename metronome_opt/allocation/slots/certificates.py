"""Proofs of refutations, as files state them and `metronome verify` replays them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from metronome_opt.allocation.slots.feasibility import PairConflicts
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    at_periods,
    find_gap_conflict,
    load,
    shorten_periods,
)
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Refutation
from metronome_opt.solvers.demand import slot_rates
from metronome_opt.verify.refutations import MAX_STEPS, NODE_STEPS, is_left_out

_MAX_STATED = 10_000  # refutations of one file


def prove(
    instance: Instance, fit: FeasibilityResult, *, drop: bool, cushion_slots: int
) -> tuple[tuple[Refutation, ...], int | None]:
    """Return the refutations of a result with their proofs, and a bound of the dropped weight.

    A bound comes with all refutations from which it follows: jobs and pairs that do not fit, and
    links that cannot carry all their jobs. There is no bound if its proof is too long.
    """
    prover = _Prover(FeasibilityProblem(instance, cushion_slots))
    stated = [
        (refutation.reason, prover.prove(refutation.periods)) for refutation in fit.refutations
    ]
    # It is not known whether jobs fit whose common multiple is too long, unless it is proved.
    found = tuple(
        proof for reason, proof in stated if proof.is_proved or reason is not Reason.HYPERPERIOD
    )
    if drop and fit.bound:
        whole = (*found, *prover.basis())
        if is_left_out(instance, whole, fit.bound, cushion_slots):
            return whole, fit.bound
    return found, None


class _Prover:
    """Proofs that jobs do not fit; replaying all of them takes no longer than a file may."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self._problem = problem
        self._steps = MAX_STEPS

    def prove(self, periods: Mapping[str, int]) -> Refutation:
        """Return the refutation of jobs that do not fit, with its proof unless that is too long."""
        for overload in self._overloads(periods):
            return overload
        full = find_gap_conflict(
            at_periods(self._problem.instance, periods, self._problem.cushion_slots)
        )
        if full is not None:
            link, names = full
            return Refutation(periods={name: periods[name] for name in names}, link=link)
        most = self._steps // 2  # a tree that is too long leaves steps to the others
        tree, left = search_tree(self._problem, periods, most)
        self._steps -= most - max(left, 0)
        return Refutation(periods=periods, branching=tree)

    def basis(self) -> tuple[Refutation, ...]:
        """Return the refutations that need no search; none if they are many."""
        jobs = self._problem.instance.jobs
        periods = {job.name: job.period for job in jobs}
        pairs = PairConflicts(self._problem)
        wrong = [
            *((index,) for index in pairs.impossible),
            *(
                (i, j)
                for i, j in pairs.forbidden
                if not pairs.fit(i, j, jobs[i].period, jobs[j].period)
            ),
        ]
        if len(wrong) > _MAX_STATED:
            return ()
        proofs = [self.prove({jobs[i].name: jobs[i].period for i in indices}) for indices in wrong]
        return (*proofs, *self._overloads(periods))

    def _overloads(self, periods: Mapping[str, int]) -> Iterator[Refutation]:
        """Yield the links to which some jobs bring more traffic than they carry."""
        instance, cushion_slots = self._problem.instance, self._problem.cushion_slots
        for link in instance.links:
            loads = {
                job.name: job.links[link.name] * load(job, periods[job.name], cushion_slots)
                for job in (instance.jobs[index] for index in instance.jobs_on[link.name])
                if job.name in periods
            }
            if sum(loads.values()) > link.capacity:
                yield Refutation(periods={name: periods[name] for name in loads}, link=link.name)


def search_tree(
    problem: FeasibilityProblem, periods: Mapping[str, int], steps: int = MAX_STEPS
) -> tuple[tuple[int, ...] | None, int]:
    """Return a search tree which shows that jobs do not fit, and how many steps are left.

    The search is depth first, and places the job with the fewest slots left next. The tree is None
    if jobs fit, or if it takes more steps to replay it.
    """
    board = _Board(shorten_periods(at_periods(problem.instance, periods, problem.cushion_slots)))
    bursts = [len(job.phases) for job in problem.instance.jobs if job.name in periods]
    costs = [NODE_STEPS + n * slots for n, slots in zip(bursts, board.slots_of_jobs, strict=True)]
    steps -= len(costs) ** 2 + sum(board.lengths.values())
    steps -= sum(n * job.period for n, job in zip(bursts, board.jobs, strict=True))
    if steps < 0:
        return None, steps
    board.clear()
    is_free = all(job.fixed_offset is None for job in board.jobs)
    tree: list[int] = []
    # The jobs that are placed, at the last of the slots that are left to them.
    path: list[tuple[int, list[int]]] = []
    while path or not tree:
        left = set(range(len(costs))) - {index for index, _ in path}
        choices = {index: board.open_slots(index) for index in sorted(left)}
        index = min(choices, key=lambda index: len(choices[index]), default=None)
        if index is None or steps < costs[index]:
            return None, steps
        steps -= costs[index]
        tree.append(index)
        slots = choices[index][::-1]
        if is_free and not path:  # all jobs may be shifted together
            slots = [slot for slot in slots if slot == 0]
        path.append((index, slots))
        while path and not path[-1][1]:
            path.pop()
            if path:
                above, slots = path[-1]
                board.place(above, slots.pop(), -1)
        if path:
            index, slots = path[-1]
            board.place(index, slots[-1])
    return tuple(tree), steps


class _Board:
    """Jobs at slots of shortened periods, and their demand on links.

    Attributes
    ----------
    lengths
        The common multiple of the periods on each link.
    """

    def __init__(self, folded: Instance) -> None:
        self.jobs = folded.jobs
        self.lengths = {link: folded.hyperperiods[link] for job in self.jobs for link in job.links}
        self._capacity = {link.name: link.capacity for link in folded.links}
        self._demand: dict[str, NDArray[np.int64]] = {}

    @property
    def slots_of_jobs(self) -> list[int]:
        """How many slots there are on the links of each job."""
        return [sum(self.lengths[link] for link in job.links) for job in self.jobs]

    def clear(self) -> None:
        """Begin without any job."""
        self._demand = {link: np.zeros(n, dtype=np.int64) for link, n in self.lengths.items()}

    def open_slots(self, index: int) -> list[int]:
        """Return the slots at which a job overloads no link."""
        job = self.jobs[index]
        blocked = np.zeros(job.period, dtype=bool)
        for link, flows in job.links.items():
            for phase in job.phases:
                full = self._demand[link] > self._capacity[link] - flows * phase.rate
                at = np.flatnonzero(full.reshape(-1, job.period).any(axis=0))
                if not len(at):
                    continue
                # From each slot the next one that is full: does the burst end before it?
                following = np.concatenate([at, at + job.period, at + 2 * job.period])
                begin = np.arange(job.period) + phase.start
                blocked |= following[np.searchsorted(following, begin)] < begin + phase.length
        if job.fixed_offset is not None:
            return [] if blocked[job.fixed_offset] else [job.fixed_offset]
        return [int(slot) for slot in np.flatnonzero(~blocked)]

    def place(self, index: int, slot: int, sign: int = 1) -> None:
        """Place a job at a slot, or with a sign of -1 take it from there."""
        job = self.jobs[index]
        rates = sign * slot_rates(job.phases, job.period, slot)
        for link, flows in job.links.items():
            self._demand[link] += np.resize(flows * rates, self.lengths[link])
