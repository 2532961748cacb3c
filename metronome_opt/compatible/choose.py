"""Problems (b), (c) and what lies between: the cheapest choices at which jobs fit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.compatible.choices import (
    Choice,
    Choices,
    Chosen,
    Decision,
    Kept,
    Refutation,
    Task,
    costs_of,
    least_cost,
)
from metronome_opt.compatible.decide import Decider, core
from metronome_opt.compatible.local import heaviest_first
from metronome_opt.compatible.master import CpsatMaster, MilpMaster

_Open = tuple[tuple[str, tuple[Choice, ...]], ...]


def choose(
    task: Task,
    choices: Choices,
    decider: Decider,
    start: Chosen | None = None,
    *,
    propose: type[CpsatMaster | MilpMaster] = CpsatMaster,
) -> Chosen:
    """Find the cheapest choices at which jobs fit: the master proposes, the decider refutes.

    Parameters
    ----------
    choices
        Of all jobs, no two of a job with the same period.
    start
        Choices that are known, to be returned if nothing better is found.
    propose
        Which master.
    """
    best = start or Chosen(None, None, least_cost(choices))
    if best.proved or task.budget.stopped:
        return best
    master = propose(task, choices, decider.pairs)
    costs = costs_of(choices)
    refutations: list[Refutation] = []
    bound = best.bound or Fraction(0)
    while not task.budget.stopped:
        proposed, bound_now = master.solve()
        if bound_now is None:  # nothing is allowed, and only what does not fit was forbidden
            return Chosen(best.kept, best.cost, best.cost, tuple(refutations))
        bound = max(bound, bound_now)
        if proposed is None or (best.cost is not None and bound >= best.cost):
            break
        periods = {name: period for name, period in proposed.items() if period is not None}
        found = decider.decide(periods)
        if found.refutation is not None:
            refutations.append(core(found.refutation, decider.decide))
            master.forbid(refutations[-1])
        if found == Decision():
            break
        if found.offsets is not None:  # as cheap as the master can prove
            cost = sum((costs[name][p] for name, p in proposed.items()), Fraction(0))
            if best.cost is None or cost < best.cost:
                best = Chosen(Kept(periods, found.offsets), cost, bound)
                task.offer(Kept(periods, found.offsets), cost)
            break
    bound = bound if best.cost is None else min(bound, best.cost)
    return Chosen(best.kept, best.cost, bound, tuple(refutations))


@dataclass
class _Node:
    """Choices that are taken, and those that are open.

    Attributes
    ----------
    kept
        The jobs that keep slots so far, and where they fit.
    open
        For each further job the choices that none of those strikes out.
    tried
        How many choices of the first of these were tried.
    """

    kept: Kept
    cost: Fraction
    open: _Open
    tried: int = 0

    @property
    def bound(self) -> Fraction | None:
        """The least that what is untried costs; None if nothing is."""
        (_, mine), *others = self.open
        if self.tried == len(mine):
            return None
        return self.cost + mine[self.tried].cost + sum(each[0].cost for _, each in others)


def branch(task: Task, choices: Choices, decider: Decider, start: Chosen | None = None) -> Chosen:
    """Search all choices depth first, heaviest job first, the cheapest of each first.

    A node has placed the jobs up to some depth. Its children take the next job's choices, as long
    as the cost so far and the least that the others must add is below the best known. Choices that
    do not fit beside one that is taken, two by two, are struck out at once; whether all that are
    taken fit is for the decider to say.
    """
    best = start or Chosen(None, None, least_cost(choices))
    names = heaviest_first(task.instance, choices)
    stack = [_Node(Kept(), Fraction(0), tuple((name, choices[name]) for name in names))]
    while stack:
        node = stack[-1]
        bound = node.bound
        if bound is None or (best.cost is not None and bound >= best.cost):
            stack.pop()
            continue
        child, decided = (None, False) if task.budget.stopped else _child(decider, node)
        if not decided:  # no time, here or for a back end: nothing is proved of what is left
            open_ends = [each.bound for each in stack] + [best.cost]
            return Chosen(best.kept, best.cost, min(end for end in open_ends if end is not None))
        node.tried += 1
        if child is None:
            continue
        if child.open:
            stack.append(child)
        else:
            best = Chosen(child.kept, child.cost, child.cost)
            task.offer(child.kept, child.cost)
    return Chosen(best.kept, best.cost, best.cost)


def _child(decider: Decider, node: _Node) -> tuple[_Node | None, bool]:
    """Take the next choice; return the child and whether it is decided if there is one.

    There is none if what is taken does not fit then, or leaves nothing to others.
    """
    (name, mine), *others = node.open
    choice = mine[node.tried]
    if choice.period is None:
        return _Node(node.kept, node.cost + choice.cost, tuple(others)), True
    fit, period = decider.pairs.fit_named, choice.period
    left = tuple(
        (other, tuple(c for c in each if c.period is None or fit(name, period, other, c.period)))
        for other, each in others
    )
    if not all(each for _, each in left):
        return None, True
    periods = {**node.kept.periods, name: period}
    found = decider.decide(periods)
    if found.offsets is None:
        return None, found.refutation is not None
    return _Node(Kept(periods, found.offsets), node.cost + choice.cost, left), True
