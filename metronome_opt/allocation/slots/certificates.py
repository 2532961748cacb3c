"""Proofs of refutations, as files state them and `metronome verify` replays them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from metronome_opt.allocation.slots.feasibility import PairConflicts
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    at_periods,
    find_gap_conflict,
    overloads,
    shorten_periods,
)
from metronome_opt.allocation.slots.greedy import PartialSchedule
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Refutation
from metronome_opt.verify.refutations import MAX_STEPS, NODE_STEPS, is_left_out

_MAX_STATED = 10_000  # refutations of one file


def prove(
    instance: Instance, fit: FeasibilityResult, *, drop: bool, cushion_slots: int
) -> tuple[tuple[Refutation, ...], int | None]:
    """Return the refutations of a result with their proofs, and a bound of the dropped weight.

    A bound comes with all refutations from which it follows: jobs and pairs that do not fit, and
    links that cannot carry all their jobs. There is no bound if its proof is too long.

    Parameters
    ----------
    fit
        What `check_feasibility` found for the instance.
    drop, cushion_slots
        As it was given them.
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
        instance, cushion_slots = self._problem.instance, self._problem.cushion_slots
        if full := find_gap_conflict(at_periods(instance, periods, cushion_slots)):
            link, names = full
            return Refutation(periods={name: periods[name] for name in names}, link=link)
        most = self._steps // 2  # a tree that is too long leaves steps to the others
        tree, left = _search_tree(self._problem, periods, most)
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
        for link, loads in overloads(self._problem.instance, periods, self._problem.cushion_slots):
            yield Refutation(periods={name: periods[name] for name in loads}, link=link.name)


def _search_tree(
    problem: FeasibilityProblem, periods: Mapping[str, int], steps: int = MAX_STEPS
) -> tuple[tuple[int, ...] | None, int]:
    """Return a search tree which shows that jobs do not fit, and how many steps are left.

    The search is depth first, and places the job with the fewest slots left next. The tree is None
    if jobs fit, or if it takes more steps to replay it.
    """
    part = shorten_periods(at_periods(problem.instance, periods, problem.cushion_slots))
    lengths = {link: part.hyperperiods[link] for job in part.jobs for link in job.links}
    bursts = [len(job.phases) for job in problem.instance.jobs if job.name in periods]
    costs = [
        NODE_STEPS + n * sum(lengths[link] for link in job.links)
        for n, job in zip(bursts, part.jobs, strict=True)
    ]
    steps -= len(costs) ** 2 + sum(lengths.values())
    steps -= sum(n * job.period for n, job in zip(bursts, part.jobs, strict=True))
    if steps < 0:
        return None, steps
    placed = PartialSchedule(part, max_slots=MAX_STEPS)
    is_free = all(job.fixed_offset is None for job in part.jobs)
    tree: list[int] = []
    # The jobs that are placed, at the last of the slots that are left to them.
    path: list[tuple[int, list[int]]] = []
    while path or not tree:
        left = set(range(len(costs))) - {index for index, _ in path}
        choices = dict[int, list[int]]()
        for other in sorted(left):  # the slots at which a job overloads no link
            cost = placed.costs(part.jobs[other].name, part.jobs[other].period)
            choices[other] = [] if cost is None else np.flatnonzero(cost == 0).tolist()
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
                placed.remove(part.jobs[above].name)
                slots.pop()
        if path:
            index, slots = path[-1]
            placed.put(part.jobs[index].name, part.jobs[index].period, slots[-1])
    return tuple(tree), steps
