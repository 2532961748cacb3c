"""Problems (b), (c) and what lies between: the cheapest choices at which jobs fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.compatible.choices import Choices, costs_of, least_cost
from metronome_opt.compatible.decide import Decider, Decision, Refutation
from metronome_opt.compatible.master import Master, Proposer
from metronome_opt.compatible.pace import Kept
from metronome_opt.compatible.pairs import Pairs
from metronome_opt.instance import Instance
from metronome_opt.solvers.deadline import Deadline


@dataclass(frozen=True)
class Chosen:
    """What was chosen, and what is proved of it.

    Attributes
    ----------
    kept
        The jobs that keep slots; None if no choices were found at which they fit.
    cost
        Of the choices, None without any.
    bound
        Proved lower bound of the cost; None if it is proved that nothing fits.
    refutations
        Why nothing cheaper fits: each says that its jobs do not fit.
    """

    kept: Kept | None
    cost: Fraction | None
    bound: Fraction | None
    refutations: tuple[Refutation, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether nothing is cheaper, or nothing fits at all."""
        return self.bound is None or self.cost == self.bound


Offer = Callable[[Kept, Fraction], None]
"""Told of choices at which jobs fit, and of their cost, whenever cheaper ones are found."""


Propose = Callable[[Instance, Choices, Pairs, Deadline], Proposer]
"""Makes a master."""


def choose(
    decider: Decider,
    choices: Choices,
    clock: Deadline,
    *,
    propose: Propose = Master,
    seed: int = 0,
    workers: int = 1,
    start: Chosen | None = None,
    offer: Offer | None = None,
) -> Chosen:
    """Find the cheapest choices at which jobs fit: the master proposes, the decider refutes.

    Parameters
    ----------
    choices
        Of all jobs, no two of a job with the same period.
    propose
        Makes the master.
    start
        Choices that are known, to be returned if nothing better is found.
    offer
        Told of what is better than that.
    """
    best = start or Chosen(None, None, least_cost(choices))
    if best.proved or clock.over:
        return best
    master = propose(decider.instance, choices, decider.pairs, clock)
    costs = costs_of(choices)
    refutations: list[Refutation] = []
    bound = best.bound or Fraction(0)
    while not clock.over:
        proposed, bound_now = master.solve(clock, seed, workers)
        if bound_now is None:  # nothing is allowed, and only what does not fit was forbidden
            return Chosen(best.kept, best.cost, best.cost, tuple(refutations))
        bound = max(bound, bound_now)
        if proposed is None or (best.cost is not None and bound >= best.cost):
            break
        periods = {name: period for name, period in proposed.items() if period is not None}
        found = decider.decide(periods, clock)
        if found.refutation is not None:
            core = decider.core(found.refutation, clock)
            refutations.append(core)
            master.forbid(core)
        if found == Decision():
            break
        if found.offsets is not None:  # as cheap as the master can prove
            cost = sum((costs[name][p] for name, p in proposed.items()), Fraction(0))
            if best.cost is None or cost < best.cost:
                best = Chosen(Kept(periods, found.offsets), cost, bound)
                if offer is not None:
                    offer(Kept(periods, found.offsets), cost)
            break
    bound = bound if best.cost is None else min(bound, best.cost)
    return Chosen(best.kept, best.cost, bound, tuple(refutations))
