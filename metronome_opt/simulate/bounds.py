"""Lower bound of slowdowns at the places where jobs run, averaged over a simulation.

From one arrival or departure to the next the same jobs run at the same places, and `slowdown_bound`
says how slow they are at least in the mean, whatever slots they have. In the long run, that is: the
bound does not know how an interval begins.
"""

from __future__ import annotations

from collections import Counter

from metronome_opt.simulate.policies.rotation import group_instance
from metronome_opt.simulate.state import SimState
from metronome_opt.slowdown.bound import slowdown_bound

_SCALE = 10_000  # of weights, which are integers


class TimeBound:
    """Mean over time and jobs of the lower bound of the slowdown of the jobs that run.

    A slowdown is over the iteration of a job with a network of its own. Periods and bursts are
    those that jobs claim, which are rounded up.
    """

    def __init__(self) -> None:
        self._known: dict[object, float] = {}
        self._jobs, self._value, self._since = 0, 1.0, 0.0
        self._sum = self._weight = 0.0

    def change(self, state: SimState, now: float) -> None:
        """Take over what runs from now on, in ms."""
        spent = self._jobs * (now - self._since)
        self._sum, self._weight = self._sum + spent * self._value, self._weight + spent
        self._jobs, self._since = len(state.running), now
        self._value = self._bound(state)

    @property
    def mean(self) -> float | None:
        """The mean until the last change; None if no job ran."""
        return self._sum / self._weight if self._weight else None

    def _bound(self, state: SimState) -> float:
        """Return the mean slowdown that the jobs that run have at least."""
        if not state.running:
            return 1.0
        instance = group_instance(state, {i: each.slots for i, each in state.running.items()})
        slower = {
            str(index): round(
                _SCALE * each.job.pattern(each.placement.rate).alone_ms / each.job.ideal.alone_ms
            )
            for index, each in state.running.items()
        }
        jobs = tuple(job.model_copy(update={"weight": slower[job.name]}) for job in instance.jobs)
        alike = Counter((job.phases, job.period, job.weight, job.links) for job in jobs)
        key = frozenset(alike.items())
        if key not in self._known:
            bound = slowdown_bound(instance.replace(jobs=jobs)).value
            self._known[key] = float(bound) * sum(slower.values()) / _SCALE / len(jobs)
        return self._known[key]
