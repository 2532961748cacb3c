"""Monitor: re-optimises the slots of running gangs when gangs or their traffic change.

A decision takes seconds, and what it is made of milliseconds. So `Monitor.next` takes a copy of the
claims in force, `Monitor.answer` decides by that copy, at leisure and without the state, and
`Monitor.apply` changes of the state what is still true then.

A difference between measured and claimed traffic corrects a claim when it has lasted for some
checks. Jobs that fit can be late all the same: once several of them are out of their slots, each
holds up the others, and none catches up. On real networks that lasts for minutes, and free jobs
separate by themselves. So all that hang together are let go for some seconds; for twice as long
each time that it does not help.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.measured import Observation, Read, corrected, observe_gates, window_s
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import instance_of
from metronome_opt.errors import MetronomeError
from metronome_opt.instance import Instance
from metronome_opt.presolve.components import components
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.rephase import choose_slots

_LOOSE_S, _MAX_LOOSE_S = 5.0, 600.0
_SETTLE_S = 2.0  # gangs that come one after the other are decided about together
_PAUSE_S = 30.0  # for which measurements leave gangs alone that were moved
_PERSIST = 2  # checks in a row in which a difference has to be there before it counts


@dataclass(frozen=True)
class Question:
    """Claims in force, of jobs that use links, that are to be decided about."""

    claims: Mapping[str, Reservation]
    instance: Instance
    hyperperiod: int
    concerned: frozenset[str]
    notified_s: Mapping[str, float]
    at_s: float
    measured: bool


@dataclass(frozen=True)
class Answer:
    """A decision about slots.

    Attributes
    ----------
    claims
        Those that change.
    reason
        In one line.
    late
        Jobs that are late though nothing of their own has changed.
    observations
        By job, its mean iteration, or why that is not known; empty if nothing was measured.
    in_time
        Whether all jobs that keep slots were measured, and none was late.
    fault
        Why nothing was measured; None if all is well.
    """

    claims: Mapping[str, Reservation]
    reason: str
    late: frozenset[str] = frozenset()
    observations: Mapping[str, Observation | str] = field(default_factory=dict)
    in_time: bool = False
    fault: str | None = None


class Rephased(NamedTuple):
    """Outcome of a decision.

    Attributes
    ----------
    gangs
        How many got other slots.
    line
        Why, in words.
    fault
        Why nothing was measured; None if all is well.
    """

    gangs: int
    line: str
    fault: str | None


class Monitor:
    """Decides about the slots of running gangs.

    Parameters
    ----------
    read
        Reads what gates count; None to decide without measurements.
    check_s
        Seconds between two checks, each of what was measured since the one before.
    persist
        Checks in a row in which something has to differ from the claims before it is believed. The
        first one after a change may see a part of it only.
    lets_go
        Whether jobs that are late may be let go; somebody has to gather them again.
    clock
        Seconds since the epoch, for tests.
    """

    def __init__(
        self,
        read: Read | None = None,
        *,
        check_s: float = 10.0,
        persist: int = _PERSIST,
        lets_go: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._check_s, self._clock = read, check_s, clock
        self._persist, self._lets_go = persist, lets_go
        self._slow: set[str] = set()  # gangs still late after they were let go
        # By gang: checks in a row in which it differed from its claim, and in which it was late.
        self._differs: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._notified_s: dict[str, float] = {}  # by gang: when it was notified of its slots
        self._moved_s: dict[str, float] = {}  # when it was moved last
        self._known: dict[str, frozenset[str]] | None = None  # gangs and their links
        self._concerned: set[str] = set()
        self._since_s = clock()  # when the last gang came or left
        self._due_s = clock() + check_s
        self._loose: set[str] = set()  # gangs that were let go, until when, and for how long next
        self._loose_until_s = 0.0
        self._loose_s = _LOOSE_S

    def next(self, state: ClusterState) -> Question | Rephased | None:
        """Return what is to be decided now; or what was done at once; None if nothing is due."""
        self.follow(state)
        now = self._clock()
        if self._loose:
            return self._gather(state) if now >= self._loose_until_s else None
        is_due = self._read is not None and now >= self._due_s
        if is_due or (self._concerned and now >= self._since_s + _SETTLE_S):
            return self.ask(state, measured=is_due)
        return None

    @property
    def _gangs(self) -> dict[str, frozenset[str]]:
        return self._known or {}

    def follow(self, state: ClusterState) -> None:
        """Note which gangs have come, and on which links others have left; the first time, all.

        A gang that was moved has left and come.
        """
        claims, now = state.claims, self._clock()
        if self._known is None:  # decided about once after a start, and notified long ago
            self._known = {job: frozenset(state.flows(job)) for job in claims}
            self._concerned = set(self._known)
            return
        moved = {
            job
            for job in claims.keys() & self._known.keys()
            if self._known[job] != state.flows(job).keys()
        }
        came = (claims.keys() - self._known.keys()) | moved
        left = (self._known.keys() - claims.keys()) | moved
        for job in left:
            self._concerned |= self._known.pop(job)
            self._notified_s.pop(job, None)
            self._moved_s.pop(job, None)
            del self._differs[job], self._late[job]
            self._slow.discard(job)
        for job in came:
            self._known[job] = frozenset(state.flows(job))
            self._notified_s[job] = now
        self._concerned -= left
        self._concerned |= came
        if came or left:
            self._since_s = now

    # ------------------------------------------------------------------ deciding

    def ask(self, state: ClusterState, *, measured: bool) -> Question | None:
        """Return what is to be decided about the claims in force; None if no job uses a link."""
        self.follow(state)
        now = self._clock()
        concerned, self._concerned = frozenset(self._concerned), set()
        if measured:
            self._due_s = now + self._check_s
        claims = {job: claim for job, claim in state.claims.items() if state.flows(job)}
        if not claims:
            return None
        return Question(
            claims,
            instance_of(state, claims),
            state.cluster.hyperperiod,
            concerned,
            dict(self._notified_s),
            now,
            measured,
        )

    def answer(self, question: Question) -> Answer:
        """Decide; without measurements if they cannot be read."""
        claims, now_s, slot_ms = question.claims, question.at_s, question.instance.slot_ms
        seen: Mapping[str, Observation | str] = {}
        fault = None
        if self._read is not None and question.measured:
            try:
                begin_s = now_s - window_s(claims, slot_ms, self._check_s)
                seen = observe_gates(
                    claims,
                    slot_ms,
                    self._read(begin_s, now_s),
                    now_s=now_s,
                    for_s=self._check_s,
                    notified_s=question.notified_s,
                )
            except MetronomeError as error:
                fault = str(error)
        observations = {
            job: self._believed(each, claims[job], slot_ms)
            for job, each in seen.items()
            if isinstance(each, Observation)
        }
        in_time = bool(seen) and all(
            job in observations and not observations[job].is_late(claim, slot_ms)
            for job, claim in claims.items()
            if claim.gated
        )
        decision = self._decide(question, observations)
        return replace(decision, observations=seen, in_time=in_time, fault=fault)

    def _believed(self, seen: Observation, claim: Reservation, slot_ms: int) -> Observation:
        """Return an observation without what other jobs may have done to bursts out of slots.

        Once jobs that were late were let go in vain, bursts are as long as measured.
        """
        if claim.gated and not seen.is_late(claim, slot_ms):
            self._slow.discard(claim.job)
            return seen
        if claim.gated and self._loose_s > _LOOSE_S:
            self._slow.add(claim.job)
        return seen if claim.job in self._slow else seen.no_longer(claim, slot_ms)

    def _decide(self, question: Question, observations: Mapping[str, Observation]) -> Answer:
        """Return a decision after comparing claims with observations.

        Jobs and links that are concerned are decided about in any case, and at once: a job has
        come, or left.
        """
        claims, slot_ms = question.claims, question.instance.slot_ms
        differences: dict[str, list[str]] = {}
        for job, seen in observations.items():
            differences[job] = seen.differences(claims[job], slot_ms)
            is_late = seen.is_late(claims[job], slot_ms) and not differences[job]
            self._differs[job] = self._differs[job] + 1 if differences[job] else 0
            self._late[job] = self._late[job] + 1 if is_late else 0
        resting = self._resting(question)
        ripe = {job for job in observations if self._late[job] >= self._persist}
        late = frozenset(ripe - resting)
        right, why = dict(claims), [f"{job}: late" for job in sorted(late)]
        differing = [job for job in observations if self._differs[job] >= self._persist]
        for job in differing:
            if job in resting:
                continue
            why += differences[job]
            claim = corrected(claims[job], observations[job], slot_ms, question.hyperperiod)
            if claim is None:
                why.append(f"{job} keeps its claim: its iteration is longer than the hyperperiod")
            else:
                right[job] = claim
        concerned = question.concerned.union(job for job in claims if right[job] != claims[job])
        slots = choose_slots(
            question.instance,
            _plan(claims),
            _instance(question.instance, right),
            _plan(right),
            question.hyperperiod,
            concerned,
        )
        after = {job: _with_slots(right[job], slots.plan) for job in slots.plan.offsets}
        changed = {job: claim for job, claim in after.items() if claim != claims[job]}
        for job, claim in changed.items():
            why += _changes(claims[job], claim, slot_ms)
        reason = "; ".join(filter(None, (*why, slots.why)))
        return Answer(changed, reason or _nothing(differences), late)

    def _resting(self, question: Question) -> set[str]:
        """Return the jobs beside one that was moved not long ago, which are left alone."""
        since_s, resting = question.at_s - _PAUSE_S, set()
        for part in components(question.instance):
            names = {job.name for job in part.jobs}
            if any(self._moved_s.get(name, since_s) > since_s for name in names):
                resting |= names
        return resting

    # ------------------------------------------------------------------ changing the state

    def put_back(self, question: Question) -> None:
        """Have a question that could not be answered asked again."""
        self._concerned |= question.concerned

    def apply(self, state: ClusterState, question: Question, answer: Answer) -> Rephased:
        """Apply a decision if the gangs that it is about are as they were."""
        self.follow(state)
        unchanged = Rephased(0, answer.reason, answer.fault)
        if answer.in_time:
            self._loose_s = _LOOSE_S
        if not answer.claims and not answer.late:
            return unchanged
        before = question.claims
        if any(state.claims.get(job) != claim for job, claim in before.items()):
            links = frozenset().union(*self._gangs.values())
            self._concerned |= question.concerned & (self._gangs.keys() | links)
            return unchanged
        now = self._clock()
        state.revise(answer.claims.values())
        moved = [job for job, each in answer.claims.items() if _slots(each) != _slots(before[job])]
        self._notified_s |= dict.fromkeys(moved, now)
        self._moved_s |= dict.fromkeys(moved, now)
        if self._lets_go and answer.late and answer.late.isdisjoint(moved):
            return self._let_go(state, question.instance, answer.late, now)
        return Rephased(len(moved), answer.reason, answer.fault)

    def _let_go(
        self, state: ClusterState, instance: Instance, late: frozenset[str], now: float
    ) -> Rephased:
        """Let all go that hang together with gangs that are late."""
        for part in components(instance):
            names = {job.name for job in part.jobs}
            if not names.isdisjoint(late):
                self._loose |= {name for name in names if state.claims[name].gated}
        self._gate(state, gated=False)
        self._loose_until_s = now + self._loose_s
        line = f"{', '.join(sorted(late))} late though bursts fit: no slots for {self._loose_s:g} s"
        self._loose_s = min(2 * self._loose_s, _MAX_LOOSE_S)
        return Rephased(len(self._loose), line, None)

    def _gather(self, state: ClusterState) -> Rephased:
        """Give back their slots to those that were let go and are still there."""
        self._loose &= state.claims.keys()
        self._gate(state, gated=True)
        self._notified_s |= dict.fromkeys(self._loose, self._clock())
        count = len(self._loose)
        self._loose = set()
        return Rephased(count, f"{count} gangs keep their slots again", None)

    def _gate(self, state: ClusterState, *, gated: bool) -> None:
        claims = (state.claims[job] for job in self._loose)
        state.revise(claim.model_copy(update={"gated": gated}) for claim in claims)


# ------------------------------------------------------------------ claims


def _plan(claims: Mapping[str, Reservation]) -> Plan:
    """Return the slots of gated jobs; others begin unshifted."""
    return Plan(
        {
            job: claim.offset if claim.gated else claim.gang.ready % claim.gang.period
            for job, claim in claims.items()
        },
        {job: claim.period for job, claim in claims.items() if claim.gated},
    )


def _instance(before: Instance, claims: Mapping[str, Reservation]) -> Instance:
    """Return the jobs as they are claimed now, on the links that they crossed before."""
    jobs = tuple(
        claims[job.name].gang.job(job.links, stretch=claims[job.name].stretch)
        for job in before.jobs
    )
    return before.replace(jobs=jobs)


def _with_slots(claim: Reservation, plan: Plan) -> Reservation:
    """Return a claim in the slots of a plan; without slots it keeps its period."""
    period = plan.periods.get(claim.job)
    if period is None:
        return claim.model_copy(update={"gated": False})
    stretch = period - claim.gang.period
    gang = claim.gang.model_copy(update={"max_stretch": max(claim.gang.max_stretch, stretch)})
    slots = {"offset": plan.offsets[claim.job], "stretch": stretch, "gated": True}
    return claim.model_copy(update={"gang": gang, **slots})


def _slots(claim: Reservation) -> tuple[object, ...] | None:
    """Return the slots of a gang; None if it keeps none."""
    return (claim.offset, claim.period, claim.gang.phases) if claim.gated else None


# ------------------------------------------------------------------ reasons


def _nothing(differences: Mapping[str, list[str]]) -> str:
    """Return why nothing changes."""
    unlike = "; ".join(line for lines in differences.values() for line in lines)
    if unlike:
        return f"not believed yet: {unlike}"
    return "what was measured is as claimed" if differences else "no job was measured"


def _changes(before: Reservation, after: Reservation, slot_ms: int) -> Iterator[str]:
    """Yield what is claimed otherwise than before."""
    changes = [
        f"{what} {old * slot_ms:,} -> {new * slot_ms:,} ms"
        for what, old, new in (
            ("offset", before.offset, after.offset),
            ("period", before.period, after.period),
        )
        if old != new
    ]
    if after.gang.phases != before.gang.phases:
        changes.append("bursts as measured")
    if after.gated != before.gated:
        changes.append("keeps slots" if after.gated else "keeps no slots")
    if changes:
        yield f"{before.job}: {', '.join(changes)}"
