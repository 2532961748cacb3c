"""Evaluation of plans by simulation: means of slowdowns, losses of jobs, and the best of several.

Plans are compared with common random numbers at the jitter that is stated, by as many replications
as it takes to decide. A job's loss is its relative slowdown against the base plan, with no job
gated; no plan is chosen unless the upper confidence limit of every job's loss is within a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator, Values
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.solvers.budget import Budget

MAX_LOSS = Fraction(1, 50)
"""Default of the share by which a job may be slower than with no job gated."""

MIN_GAIN = 2e-3
"""Smaller gains of a mean are noise."""

REPLICATIONS = 8
"""Replications between two decisions."""

_MAX_LOOKS = 24  # decisions
_STATED = 4  # decisions whose replications are enough to state a mean
_CONFIDENCE = 0.98  # of each limit, by Student's distribution
_PENALTY = 10.0  # for each unit of slowdown beyond the limit, in local search
_MAX_KNOWN = 256  # plans; a search tries thousands, and asks again only for the last ones


def is_better(new: Values, old: Values, gain: float = 0.0) -> bool:
    """Return whether the first means that differ noticeably, or the last by a gain, are less."""
    for one, other in zip(new[:-1], old, strict=False):
        if abs(one - other) > MIN_GAIN:
            return one < other
    return new[-1] < old[-1] - gain


def lowest(new: Values, old: Values) -> Values:
    """Return new means, of which only the last may exceed an old one by chance: losses add up."""
    pairs = zip(new[:-1], old, strict=False)
    return (*(min(a, b) if abs(a - b) <= MIN_GAIN else a for a, b in pairs), new[-1])


class PlanEvaluator:
    """Means of slowdowns of plans, and the choice between plans.

    Parameters
    ----------
    simulator_of
        Returns a `PlanSimulator`, given seeds, which are counted from `first_seed`.
    max_loss
        The share by which a job may be slower than under the base; None for any.
    base
        The plan that losses are relative to; no job gated if None.
    change_costs
        Returns what a change to a plan adds to the slowdown of each job, shape (jobs,).
    budget
        When it ends, no plan is chosen that is not yet known to be better. It may be replaced.
    """

    def __init__(
        self,
        simulator_of: Callable[..., PlanSimulator],
        first_seed: int,
        *,
        max_loss: Fraction | None = MAX_LOSS,
        base: Plan | None = None,
        change_costs: Callable[[Plan], Floats] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self._simulators = cache(
            lambda look: simulator_of(
                range(first_seed + look * REPLICATIONS, first_seed + (look + 1) * REPLICATIONS)
            )
        )
        self.simulator: PlanSimulator = self._simulators(0)  # of the first replications
        self.instance = self.simulator.instance
        self.events = 0.0  # of all simulations so far, approximately
        self._max_loss = math.inf if max_loss is None else float(max_loss)
        self._change_costs = change_costs
        self._base_plan = base or Plan(self.instance.unshifted)
        self._base: list[Floats] = []
        self._simulated: dict[object, list[Floats]] = {}
        self.base: Floats = self.slowdowns(self._base_plan)
        # the slowdown of each job beyond which its loss is too large, shape (jobs,)
        self.limits: Floats = self.base * (1 + self._max_loss)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job in the first replications, shape (jobs,)."""
        return np.asarray(self._replicate(plan, 1).mean(axis=0))

    def estimate(self, plan: Plan) -> Floats:
        """Return the slowdown of each job in all replications, to state it, shape (jobs,).

        It is NaN of a job that ended no iteration in one of them.
        """
        self._replicate(plan, 1 if self.budget.stopped else _STATED)
        return np.asarray(np.concatenate(self._kept(plan)).mean(axis=0))

    def means(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns in the first replications."""
        return self.simulator.values(self.slowdowns(plan))

    def values(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns, the first with a penalty for losses."""
        first, *others = self.means(plan)
        loss = float((self.slowdowns(plan) / self.base).max()) - 1 - self._max_loss
        return (first + _PENALTY * max(0.0, loss), *others)

    def is_least(self, values: Values) -> bool:
        """Return whether no plan can be noticeably better: no job is slower than its period."""
        least = self.simulator.least
        return all(one <= other + MIN_GAIN for one, other in zip(values, least, strict=True))

    def best(
        self, incumbent: Plan, others: Sequence[Plan], gain: float | Fraction = MIN_GAIN
    ) -> Plan:
        """Return the best of some plans: the incumbent unless another is surely better.

        After every few replications the plans are dropped by which a job surely loses too much, or
        that surely gain nothing over the best plan within the limit of loss.

        Parameters
        ----------
        gain
            The least difference of a mean to that of the incumbent.

        References
        ----------
        O. Maron, A. W. Moore, "The racing algorithm: model selection for lazy learners",
        Artificial Intelligence Review 11, 1997.
        """
        alive, leader = list(others), incumbent
        for look in range(1, _MAX_LOOKS + 1):
            kept, good = [], []
            for plan in alive:
                if self.budget.stopped:
                    return leader
                is_ahead = self._is_better(plan, incumbent, look, float(gain))
                is_within_loss = is_ahead is not False and self._is_within_loss(plan, look)
                if is_within_loss is not False and is_ahead is not False:
                    kept.append(plan)
                    if is_within_loss and is_ahead:
                        good.append(plan)
            alive, leader = kept, incumbent
            if good:
                leader = good[0]
                for plan in good[1:]:  # the first of equal ones
                    if is_better(self._means(plan, look), self._means(leader, look)):
                        leader = plan
                rivals = (plan for plan in kept if plan is not leader)
                rest = [
                    r for r in rivals if self._is_better(r, leader, look, MIN_GAIN) is not False
                ]
                alive = [leader, *rest]
            if len(alive) == len(good[:1]):
                break
        return leader

    def is_within_loss(self, plan: Plan) -> bool:
        """Return whether no job surely loses too much, by as many replications as it takes."""
        for look in range(1, _MAX_LOOKS + 1):
            if self.budget.stopped:
                break
            known = self._is_within_loss(plan, look)
            if known is not None:
                return known
        return False

    def _means(self, plan: Plan, looks: int) -> Values:
        return self.simulator.values(self._replicate(plan, looks).mean(axis=0))

    def _is_within_loss(self, plan: Plan, looks: int) -> bool | None:
        """Return whether no job loses more than the limit; None if that is not sure."""
        if plan == self._base_plan or math.isinf(self._max_loss):
            return True
        limits = (1 + self._max_loss) * self._replicate(self._base_plan, looks)
        low, high = _limits(self._replicate(plan, looks) - limits)
        return True if (high <= 0).all() else False if (low > 0).any() else None

    def _is_better(self, plan: Plan, other: Plan, looks: int, gain: float) -> bool | None:
        """Return whether a plan is better by more than a gain; None if that is not sure."""
        differences = self._replicate(plan, looks) - self._replicate(other, looks)
        low, high = _limits(differences @ self.simulator.weights.T)
        for least, most in zip(low[:-1], high, strict=False):
            if most < -MIN_GAIN or least > MIN_GAIN:
                return bool(most < -MIN_GAIN)
            if least < -MIN_GAIN or most > MIN_GAIN:
                return None
        return True if high[-1] < -gain else False if low[-1] > -gain else None

    def _replicate(self, plan: Plan, looks: int) -> Floats:
        """Return the slowdowns of a plan up to a look, shape (replications, jobs)."""
        kept = self._kept(plan)
        while len(kept) < looks:
            simulator = self._simulators(len(kept))
            self.events += simulator.events
            slowdowns = simulator.replicate(plan)
            if self._change_costs is not None:
                slowdowns = slowdowns + self._change_costs(plan)
            kept.append(slowdowns)
        return self.simulator.bounded(np.concatenate(kept[:looks]))

    def _kept(self, plan: Plan) -> list[Floats]:
        """Return the replications of a plan so far; those of the base plan are always kept."""
        if plan == self._base_plan:
            return self._base
        names = (job.name for job in self.instance.jobs)
        key = tuple((plan.offsets[n], plan.periods.get(n), plan.classes.get(n)) for n in names)
        if key not in self._simulated:
            if len(self._simulated) >= _MAX_KNOWN:
                self._simulated.clear()
            self._simulated[key] = []
        return self._simulated[key]


def _limits(samples: Floats) -> tuple[Floats, Floats]:
    """Return the confidence limits of means, given samples of shape (samples, means)."""
    from scipy.special import stdtrit  # few plans come so far

    count = len(samples)
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / math.sqrt(count)
    reach = stdtrit(count - 1, _CONFIDENCE) * error
    return mean - reach, mean + reach
