"""Slots of running gangs chosen anew, beside the loop: gangs come and go, and change what they do.

A decision takes seconds, and what it is made of milliseconds. So a thread decides by a copy of the
claims in force, and the loop, which alone changes the state, carries out what is still true then.

Jobs that fit can be late all the same: once several of them are out of their slots, each holds up
the others, and none catches up. On real networks that lasts for minutes, and free jobs come apart
by themselves. So all that hang together are let go for some seconds; for twice as long each time
that it does not help.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import NamedTuple

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Kind
from metronome_opt.control.gates import Beliefs, observe_gates
from metronome_opt.control.monitor import Decision, Monitor, Settings
from metronome_opt.control.observation import Observation
from metronome_opt.control.watch import Read, bare_claims, carry_out, with_cushions
from metronome_opt.errors import MetronomeError
from metronome_opt.presolve.components import components
from metronome_opt.scheduling.gang import Claim
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.slowdown.rephase import least_slowdown

THREAD = "rephasing"
"""Name of the thread that decides."""

_LOOSE_S, _LONGEST_LOOSE_S = 5.0, 600.0
_SETTLE_S = 2.0  # gangs that come one after the other are decided about together
_SETTINGS = Settings(
    large=math.inf,  # the first look at a change may have seen a part of it only
    most_stretch=None,
    pause_ms=30_000.0,
)


class Rephased(NamedTuple):
    """What a decision came to.

    Attributes
    ----------
    gangs
        How many were told other slots.
    line
        Why, in words.
    fault
        Why nothing was measured; None if all is well.
    """

    gangs: int
    line: str
    fault: str | None


@dataclass(frozen=True)
class _Asked:
    """What is decided about."""

    before: Mapping[str, Claim]
    claims: Claims
    concerned: frozenset[str]
    told_s: Mapping[str, float]
    at_s: float
    measured: bool
    tried: bool


class _Answer(NamedTuple):
    """What is to be.

    Attributes
    ----------
    late
        Who is late though nothing of its own has changed.
    calm
        Whether all that keep slots were seen in time.
    fault
        Why nothing was measured; None if all is well.
    """

    decision: Decision
    late: frozenset[str]
    calm: bool
    fault: str | None


class Rephasing:
    """Decides about the slots of running gangs.

    Parameters
    ----------
    state
        With the claims in force.
    read
        Reads samples of what gates count, from Prometheus; None if nobody measures.
    check_s
        Seconds between two looks at what was measured since the one before.
    clock
        Seconds since the epoch, for tests.
    """

    def __init__(
        self,
        state: ClusterState,
        read: Read | None = None,
        *,
        check_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._read = state, read
        self._check_s = check_s
        self._clock = clock
        self._monitor = Monitor(_SETTINGS, choose=least_slowdown)
        self._beliefs = Beliefs()
        self._told_s: dict[str, float] = {}  # by gang: when it was told its slots
        self._known: dict[str, frozenset[str]] = {
            job: frozenset(state.flows(job)) for job in state.claims
        }
        self._concerned: set[str] = set(self._known)  # decided about once after a start
        self._later: set[str] = set()  # what is decided about once more, and when
        self._later_s = 0.0
        self._since_s = clock()  # when the last gang came or left
        self._due_s = clock() + check_s
        self._loose: set[str] = set()  # gangs that were let go, until when, and for how long next
        self._loose_until_s = 0.0
        self._loose_s = _LOOSE_S
        self._under_way: tuple[_Asked, Future[_Answer]] | None = None

    def step(self) -> Rephased | None:
        """Carry out what was decided, if anything was, and have the next decision made."""
        self._follow()
        now = self._clock()
        if self._under_way is not None:
            asked, future = self._under_way
            if not future.done():
                return None
            self._under_way = None
            return self._finish(asked, future.result())
        if self._loose:
            return self._gather() if now >= self._loose_until_s else None
        if self._later and now >= self._later_s:
            self._concerned |= self._later & self._known.keys()
            self._later = set()
        is_due = self._read is not None and now >= self._due_s
        if is_due or (self._concerned and now >= self._since_s + _SETTLE_S):
            self._begin(now, measure=is_due)
        return None

    def _follow(self) -> None:
        """Note which gangs have come, and on which links others have left."""
        claims, now = self._state.claims, self._clock()
        came = claims.keys() - self._known.keys()
        left = self._known.keys() - claims.keys()
        for job in left:
            self._concerned |= self._known.pop(job)
            self._told_s.pop(job, None)
            self._beliefs.forget(job)
        for job in came:
            self._known[job] = frozenset(self._state.flows(job))
            self._told_s[job] = now
        self._concerned |= came
        self._concerned -= left
        if came or left:
            self._since_s = now

    def _begin(self, now: float, *, measure: bool) -> None:
        claims = bare_claims(self._state)
        concerned, self._concerned = frozenset(self._concerned), set()
        if measure:
            self._due_s = now + self._check_s
        if claims is not None:
            before, told_s = dict(self._state.claims), dict(self._told_s)
            tried = self._loose_s > _LOOSE_S
            asked = _Asked(before, claims, concerned, told_s, now, measure, tried)
            read = self._read if measure else None
            future: Future[_Answer] = Future()
            self._under_way = asked, future
            # No pool: who ends a controller does not wait for a decision.
            todo = asked, read, future
            Thread(target=self._answer, args=todo, name=THREAD, daemon=True).start()

    def _answer(self, asked: _Asked, read: Read | None, future: Future[_Answer]) -> None:
        try:
            future.set_result(self._decide(asked, read))
        except BaseException as error:
            future.set_exception(error)

    def _decide(self, asked: _Asked, read: Read | None) -> _Answer:
        """Return what is to be, and why nothing was measured if that failed."""
        seen: Mapping[str, Observation | str] = {}
        fault = None
        if read is not None:
            try:
                seen = observe_gates(
                    asked.claims,
                    read,
                    now_s=asked.at_s,
                    for_s=self._check_s,
                    told_s=asked.told_s,
                )
            except MetronomeError as error:
                fault = str(error)
        observations = self._beliefs.of(
            asked.claims,
            {job: each for job, each in seen.items() if isinstance(each, Observation)},
            tried=asked.tried,
        )
        known = asked.claims.offsets.keys() | {link.name for link in asked.claims.instance.links}
        monitor = self._monitor
        decision = monitor.check(
            with_cushions(asked.claims),
            observations,
            1000 * asked.at_s,
            concerned=asked.concerned & known,
        )
        late = frozenset(
            finding.name
            for finding in decision.findings
            if finding.kind is Kind.LATE and monitor.memory.is_ripe(finding, monitor.settings)
        )
        kept = filter(asked.claims.is_gated, asked.claims.offsets)
        calm = bool(seen) and all(
            name in observations and not observations[name].alone for name in kept
        )
        return _Answer(decision, late, calm, fault)

    def _finish(self, asked: _Asked, answer: _Answer) -> Rephased:
        """Carry out a decision if the gangs that it is about are as they were."""
        decision, late, calm, fault = answer
        nothing = Rephased(0, decision.reason, fault)
        if calm:
            self._loose_s = _LOOSE_S
        if decision.contention is None:
            return nothing
        names = asked.claims.offsets.keys()
        if any(self._state.claims.get(job) != asked.before[job] for job in names):
            links = frozenset().union(*self._known.values())
            self._concerned |= asked.concerned & (self._known.keys() | links)
            return nothing
        now, claims = self._clock(), self._state.claims
        carry_out(self._state, decision)
        if decision.later:
            self._later |= decision.later
            self._later_s = now + _SETTINGS.pause_ms / 1000
        told = [job for job in names if _slots(claims[job]) != _slots(asked.before[job])]
        self._told_s |= dict.fromkeys(told, now)
        if late.isdisjoint(told) and late:
            return self._let_go(asked.claims, late, now)
        return Rephased(len(told), decision.reason, fault)

    def _let_go(self, claims: Claims, late: frozenset[str], now: float) -> Rephased:
        """Let all go that hang together with gangs that are late."""
        for part in components(claims.running):
            names = {job.name for job in part.jobs}
            if not names.isdisjoint(late):
                self._loose |= {name for name in names if self._state.claims[name].gated}
        self._gate(gated=False)
        self._loose_until_s = now + self._loose_s
        line = f"{', '.join(sorted(late))} late though bursts fit: no slots for {self._loose_s:g} s"
        self._loose_s = min(2 * self._loose_s, _LONGEST_LOOSE_S)
        return Rephased(len(self._loose), line, None)

    def _gather(self) -> Rephased:
        """Give back their slots to those that were let go and are still there."""
        self._loose &= self._state.claims.keys()
        self._gate(gated=True)
        self._told_s |= dict.fromkeys(self._loose, self._clock())
        count = len(self._loose)
        self._loose = set()
        return Rephased(count, f"{count} gangs keep their slots again", None)

    def _gate(self, *, gated: bool) -> None:
        claims = (self._state.claims[job] for job in self._loose)
        self._state.revise(claim.model_copy(update={"gated": gated}) for claim in claims)


def _slots(claim: Claim) -> tuple[object, ...] | None:
    """Return the slots of a gang; None if it keeps none."""
    return (claim.offset, claim.period, claim.gang.phases) if claim.gated else None
