"""New slots for running jobs, if simulated iterations become shorter by them.

Of each connected component of jobs these are simulated: to leave everything as it is; the corrected
claims where they are; a plan of minimum slowdown, rotated so that jobs wait little for it; and no
job gated. A later one is taken over an earlier only if iterations become noticeably shorter, with
the cost of waiting once counted in. No job may become slower than both now and without any slots.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.presolve.components import components
from metronome_opt.records import FrozenDict
from metronome_opt.slowdown.claims import Claims
from metronome_opt.slowdown.minimise import Terms, long_periods, minimise
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Player, plays
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import evaluate

_CLOSE = 0.005  # jobs that are so close to being alone are left in peace
_HARM = 0.01  # of an iteration: by so much a job may become slower, since plays differ by chance
_FIRST_SEED = 300  # of plays; those of the search for plans have others
_SECONDS = 20.0  # for a plan of least slowdown, at most
_MOST_NAMED = 3
_PRICE = Fraction(1, 50)  # moving every job costs 2 to 4 % of an iteration: it pays within 50
_MAX_ROTATIONS = 64  # of a plan, tried for each job that it may leave in its place
_MIN_GAIN = Fraction(1, 100)  # of an iteration, with moves paid


class NewSlots(NamedTuple):
    """Slots that running jobs get.

    Attributes
    ----------
    offsets
        Of the jobs that move.
    postponed
        Jobs and links that are left as they are claimed for now, whatever was measured of them.
    later
        Jobs that would move if they had not been moved not long ago.
    why
        In words, what moves bring, or why no job moves.
    periods, gated
        Of jobs that get other periods than the corrected ones, and of those that begin or cease to
        keep slots.
    """

    offsets: Mapping[str, int]
    postponed: Collection[str]
    later: Collection[str]
    why: str
    periods: Mapping[str, int] = FrozenDict()
    gated: Mapping[str, bool] = FrozenDict()


def least_slowdown(
    claims: Claims,
    right: Claims,
    suspects: Collection[str],
    resting: Collection[str],
) -> NewSlots:
    """Choose new slots for the jobs that hang together with suspects; see the module.

    Parameters
    ----------
    claims
        The schedule in force.
    right
        The same with what was measured in place of what was claimed.
    suspects
        Jobs and links that are decided about.
    resting
        Jobs that were moved not long ago, and stay where they are.
    """
    offsets: dict[str, int] = {}
    periods: dict[str, int] = {}
    gated: dict[str, bool] = {}
    postponed: set[str] = set()
    later: set[str] = set()
    why = []
    for part in components(right.running):
        names = {job.name for job in part.jobs}
        everything = names | {link.name for link in part.links}
        if everything.isdisjoint(suspects):
            continue
        group = _Group(claims, right, part)
        if group.fits_as_claimed:
            continue  # how much idle time there really is shows when they run
        way, better_later = group.choose(resting)
        if group.is_slow:
            why.append(group.told(way))
        if better_later:
            why.append("jobs that would have to move were moved not long ago")
            later |= names
        if way is group.stay:
            postponed |= everything
            continue
        for name in names:
            gated[name] = name in way.periods
            if name in way.periods:
                periods[name] = way.periods[name]
                if way.offsets[name] != right.offsets[name] % way.periods[name]:
                    offsets[name] = way.offsets[name]
    return NewSlots(offsets, postponed, later, "; ".join(why), periods, gated)


@dataclass(frozen=True)
class _Group:
    """Jobs that hang together, and what they may do."""

    claims: Claims
    right: Claims
    part: Instance  # with the periods of `right`

    @cached_property
    def _instance(self) -> Instance:
        """The jobs as they would run alone."""
        jobs = (self.right.instance.job(job.name) for job in self.part.jobs)
        anywhere = {"current_offset": None, "max_stretch": 0}
        return self.part.replace(jobs=tuple(job.model_copy(update=anywhere) for job in jobs))

    @cached_property
    def _player(self) -> Player:
        periods = long_periods(self._instance)
        return Player(self._instance, plays(_FIRST_SEED, 4), periods=periods)

    @cached_property
    def _played(self) -> dict[object, Floats]:
        return {}

    def _slowdowns(self, plan: Plan) -> Floats:
        key = frozenset(plan.offsets.items()), frozenset(plan.periods.items())
        if key not in self._played:
            self._played[key] = self._player.slowdowns(plan)
        return self._played[key]

    # ------------------------------------------------------------------ what they may do

    @cached_property
    def stay(self) -> Plan:
        """Plan without changes: jobs keep the periods that they claim."""
        kept = [job.name for job in self.part.jobs if self.claims.is_gated(job.name)]
        periods = {name: self.claims.period(name) for name in kept}
        offsets = {name: self.right.offsets[name] % periods[name] for name in kept}
        return Plan({**self._instance.unshifted, **offsets}, periods)

    @cached_property
    def _put_right(self) -> Plan:
        return self._in_slots(self.right.offsets)

    @cached_property
    def _free(self) -> Plan:
        return Plan(self._instance.unshifted)

    def _in_slots(self, offsets: Mapping[str, int]) -> Plan:
        """Return the plan with these offsets for those that keep slots, as put right."""
        kept = [job.name for job in self.part.jobs if self.right.is_gated(job.name)]
        return Plan(
            {**self._instance.unshifted, **{name: offsets[name] for name in kept}},
            {name: self.right.period(name) for name in kept},
        )

    def _others(self) -> Iterator[Plan]:
        """Yield other plans: one of minimum slowdown, and none."""
        terms = Terms(hyperperiod=self.right.hyperperiod)
        found_plan = minimise(self._instance, terms, Budget(_SECONDS)).plan
        if found_plan.periods:
            yield self._near(found_plan)
        yield self._free

    def _near(self, plan: Plan) -> Plan:
        """Return a plan rotated such that waiting for it costs least."""
        kept = list(plan.periods)
        ways = rotated(
            list(plan.periods.values()),
            [self.right.offsets[name] % plan.periods[name] for name in kept],
            [plan.offsets[name] for name in kept],
        )
        plans = (
            Plan({**plan.offsets, **dict(zip(kept, way, strict=True))}, plan.periods)
            for way in ways
        )
        return min(plans, key=self._moves)

    # ------------------------------------------------------------------ what it is worth

    def choose(self, resting: Collection[str]) -> tuple[Plan, bool]:
        """Return the best plan, and whether a better one would move jobs that are resting."""
        chosen, better_later = self._put_right, False
        if not self._is_harmless(chosen) or self._cost(chosen) - self._cost(self.stay) >= _MIN_GAIN:
            chosen = self.stay
        if not self._fits and self._cost(chosen) > self._cost(self._free) - _MIN_GAIN:
            # Who is gated all the same may starve: to be late is to wait for the next slot.
            chosen, better_later = self._or_later(chosen, self._free, resting)
        if self._value(chosen) > 1 + _CLOSE:
            for way in self._others():
                if self._cost(chosen) - self._cost(way) < _MIN_GAIN or not self._is_harmless(way):
                    continue
                chosen, better_later = self._or_later(chosen, way, resting)
        return chosen, better_later

    def _or_later(self, chosen: Plan, better: Plan, resting: Collection[str]) -> tuple[Plan, bool]:
        """Return the better plan, unless it moves jobs that are resting."""
        return (better, False) if self._moved(better).isdisjoint(resting) else (chosen, True)

    @property
    def fits_as_claimed(self) -> bool:
        """True if all fit, no slots are further apart than needed, and jobs run as claimed."""
        whole = self.right.hyperperiod
        for job in self._instance.jobs:
            before, period = self.claims.instance.job(job.name), self.claims.period(job.name)
            shorter = range(job.period, period)
            if (
                not self.claims.is_gated(job.name)
                or (job.period, job.phases) != (before.period, before.phases)
                or any(whole % length == 0 for length in shorter)
            ):
                return False
        return self._fits

    @cached_property
    def _fits(self) -> bool:
        """True if the jobs that keep slots fit, with corrected claims."""
        kept = [job for job in self.part.jobs if self.right.is_gated(job.name)]
        if not kept:
            return True
        offsets = {job.name: job.current_offset or 0 for job in kept}
        return not any(
            link.late for link in evaluate(self.part.replace(jobs=tuple(kept)), offsets).links
        )

    @property
    def is_slow(self) -> bool:
        """True if present iterations are noticeably longer than alone."""
        return self._value(self.stay) > 1 + _CLOSE

    def _value(self, plan: Plan) -> float:
        return self._player.value(self._slowdowns(plan))

    def _cost(self, plan: Plan) -> Fraction:
        """Return the weighted mean slowdown, and what it costs to wait once."""
        return Fraction(self._value(plan)) + self._moves(plan)

    def _moves(self, plan: Plan) -> Fraction:
        """Return what it costs to wait once, as a share of an iteration of all jobs."""
        total = Fraction(0)
        for job, share in zip(self._instance.jobs, self._player.weights[0].tolist(), strict=True):
            period = plan.periods.get(job.name)
            if period is None or plan is self.stay:
                continue
            waits = Fraction(
                (plan.offsets[job.name] - self.right.offsets[job.name]) % period, period
            )
            if not self.right.is_gated(job.name):
                waits = Fraction(1, 2)  # nobody knows where it is
            total += Fraction(share) * (1 + waits) * bool(waits)
        return _PRICE * total

    def _moved(self, plan: Plan) -> set[str]:
        """Return the jobs that are told other slots than those put right."""
        return {
            name
            for name in self._put_right.offsets
            if plan.periods.get(name) != self._put_right.periods.get(name)
            or (name in plan.periods and plan.offsets[name] != self._put_right.offsets[name])
        }

    def _is_harmless(self, plan: Plan) -> bool:
        """Return whether no job becomes slower than both as it is now and with no job gated."""
        due = np.maximum(self._slowdowns(self.stay), self._slowdowns(self._free))
        return bool((self._slowdowns(plan) - due <= _HARM).all())

    def told(self, plan: Plan) -> str:
        """Return in words what the jobs lose as things are, and with a plan."""
        names = [job.name for job in self._instance.jobs]
        who = ", ".join(names[:_MOST_NAMED])
        if len(names) > _MOST_NAMED:
            who += f" and {len(names) - _MOST_NAMED} more"
        now, then = (100 * (self._value(each) - 1) for each in (self.stay, plan))
        lost = f"iterations of {who} take {now:.1f} % longer than alone"
        if plan is self.stay or plan is self._put_right:
            return f"{lost}, and no other slots gain enough"
        if not plan.periods:
            return f"{lost}, {then:.1f} % without slots"
        return f"{lost}, {then:.1f} % in the new slots"


def rotated(
    periods: Sequence[int], current: Sequence[int], offsets: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield offsets rotated all together, such that one job or another is where it is now."""
    whole = math.lcm(*periods)
    shifts: dict[int, None] = {}
    for job, period in enumerate(periods):
        first = (current[job] - offsets[job]) % period
        shifts |= dict.fromkeys(range(first, min(whole, _MAX_ROTATIONS * period), period))
    for shift in shifts:
        yield tuple(
            (offset + shift) % period for offset, period in zip(offsets, periods, strict=True)
        )
