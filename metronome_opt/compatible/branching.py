"""Branch and bound over the choices, heaviest job first, without a back end.

A node has placed the jobs up to some depth. Its children take the next job's choices, the cheapest
first, as long as the cost so far and the least that the others must add is below the best known.
Choices that do not fit beside one that is taken, two by two, are struck out at once; whether all
that are taken fit is for the `Decider` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.compatible.choices import Choice, Choices, least_cost
from metronome_opt.compatible.choose import Chosen, Offer
from metronome_opt.compatible.decide import Decider
from metronome_opt.compatible.greedy import heaviest_first
from metronome_opt.compatible.pace import Kept
from metronome_opt.solvers.deadline import Deadline

Open = tuple[tuple[str, tuple[Choice, ...]], ...]


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
    open: Open
    tried: int = 0

    @property
    def bound(self) -> Fraction | None:
        """The least that what is untried costs; None if nothing is."""
        (_, mine), *others = self.open
        if self.tried == len(mine):
            return None
        return self.cost + mine[self.tried].cost + sum(each[0].cost for _, each in others)


def choose(
    decider: Decider,
    choices: Choices,
    clock: Deadline,
    *,
    start: Chosen | None = None,
    offer: Offer | None = None,
) -> Chosen:
    """Search all choices, the cheapest of each job first."""
    best = start or Chosen(None, None, least_cost(choices))
    names = heaviest_first(decider.instance, choices)
    stack = [_Node(Kept(), Fraction(0), tuple((name, choices[name]) for name in names))]
    while stack:
        node = stack[-1]
        bound = node.bound
        if bound is None or (best.cost is not None and bound >= best.cost):
            stack.pop()
            continue
        child, decided = (None, False) if clock.over else _child(decider, node, clock)
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
            if offer is not None:
                offer(child.kept, child.cost)
    return Chosen(best.kept, best.cost, best.cost)


def _child(decider: Decider, node: _Node, clock: Deadline) -> tuple[_Node | None, bool]:
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
    found = decider.decide(periods, clock)
    if found.offsets is None:
        return None, found.refutation is not None
    return _Node(Kept(periods, found.offsets), node.cost + choice.cost, left), True
