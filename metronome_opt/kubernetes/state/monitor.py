"""Monitor: re-optimises the slots of running gangs when gangs or their traffic change.

A decision takes seconds, and what it is made of milliseconds. So `Monitor.next` takes a copy of the
reservations in force, `Monitor.answer` decides by that copy, at leisure and without the state, and
`Monitor.apply` changes of the state what is still true then.

A difference between measured and claimed traffic corrects a reservation when it has lasted for some
checks. Jobs out of their slots delay one another, which lengthens bursts: there longer ones are
believed only as far as they send more. Gates let go of slots and take them again by themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.rephase import choose_slots
from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.state.observations import (
    Observation,
    Read,
    corrected,
    lookback_s,
    observe_gates,
)
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import instance_of, plan_of
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.presolve.blocks import components

_SETTLE_S = 2.0  # gangs that come one after the other are decided about together
_PAUSE_S = 30.0  # for which measurements leave gangs alone that were moved
_PERSIST = 2  # checks in a row in which a difference has to be there before it counts


@dataclass(frozen=True)
class SlotReview:
    """Claims in force, of jobs that use links, that are to be decided about."""

    reservations: Mapping[str, Reservation]
    instance: Instance
    hyperperiod: int
    concerned: frozenset[str]
    notified_s: Mapping[str, float]
    at_s: float
    measured: bool


@dataclass(frozen=True)
class SlotDecision:
    """A decision about slots.

    Attributes
    ----------
    reservations
        Those that change.
    reason
        In one line.
    observations
        By job, its mean iteration, or why that is not known; empty if nothing was measured.
    fault
        Why nothing was measured; None if all is well.
    """

    reservations: Mapping[str, Reservation]
    reason: str
    observations: Mapping[str, Observation | str] = field(default_factory=dict)
    fault: str | None = None


class ReviewOutcome(NamedTuple):
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
        Checks in a row in which a measurement has to differ from a reservation before it counts.
        The first check after a change may see a part of it only.
    clock
        Seconds since the epoch, for tests.
    """

    def __init__(
        self,
        read: Read | None = None,
        *,
        check_s: float = 10.0,
        persist: int = _PERSIST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._check_s, self._clock = read, check_s, clock
        self._persist = persist
        self._differs: Counter[str] = Counter()  # by gang: from its reservation, in checks in a row
        self._jitters: dict[str, float] = {}  # by gang: as measured last
        self._notified_s: dict[str, float] = {}  # by gang: when it was notified of its slots
        self._moved_s: dict[str, float] = {}  # when it was moved last
        self._known: dict[str, frozenset[str]] | None = None  # gangs and their links
        self._concerned: set[str] = set()
        self._since_s = clock()  # when the last gang came or left
        self._due_s = clock() + check_s

    def next(self, state: ClusterState) -> SlotReview | None:
        """Return what is to be decided now; None if nothing is due."""
        self.follow(state)
        now = self._clock()
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
        reservations, now = state.reservations, self._clock()
        if self._known is None:  # decided about once after a start, and notified long ago
            self._known = {job: frozenset(state.flows(job)) for job in reservations}
            self._concerned = set(self._known)
            return
        moved = {
            job
            for job in reservations.keys() & self._known.keys()
            if self._known[job] != state.flows(job).keys()
        }
        came = (reservations.keys() - self._known.keys()) | moved
        left = (self._known.keys() - reservations.keys()) | moved
        for job in left:
            self._concerned |= self._known.pop(job)
            self._notified_s.pop(job, None)
            self._moved_s.pop(job, None)
            self._jitters.pop(job, None)
            del self._differs[job]
        for job in came:
            self._known[job] = frozenset(state.flows(job))
            self._notified_s[job] = now
        self._concerned -= left
        self._concerned |= came
        if came or left:
            self._since_s = now

    # ------------------------------------------------------------------ deciding

    def ask(self, state: ClusterState, *, measured: bool) -> SlotReview | None:
        """Return a review of the reservations in force; None if no job uses a link."""
        self.follow(state)
        now = self._clock()
        concerned, self._concerned = frozenset(self._concerned), set()
        if measured:
            self._due_s = now + self._check_s
        reservations = {
            job: reservation for job, reservation in state.reservations.items() if state.flows(job)
        }
        if not reservations:
            return None
        return SlotReview(
            reservations,
            instance_of(state, reservations),
            state.cluster.hyperperiod,
            concerned,
            dict(self._notified_s),
            now,
            measured,
        )

    def answer(self, question: SlotReview) -> SlotDecision:
        """Decide; without measurements if they cannot be read."""
        reservations, now_s, slot_ms = (
            question.reservations,
            question.at_s,
            question.instance.slot_ms,
        )
        seen: Mapping[str, Observation | str] = {}
        fault = None
        if self._read is not None and question.measured:
            try:
                begin_s = now_s - lookback_s(reservations, slot_ms, self._check_s)
                seen = observe_gates(
                    reservations,
                    slot_ms,
                    self._read(begin_s, now_s),
                    now_s=now_s,
                    for_s=self._check_s,
                    notified_s=question.notified_s,
                )
            except MetronomeError as error:
                fault = str(error)
        observations = {
            job: _believed(each, reservations[job], slot_ms)
            for job, each in seen.items()
            if isinstance(each, Observation)
        }
        decision = self._decide(question, observations)
        return replace(decision, observations=seen, fault=fault)

    def _decide(
        self, question: SlotReview, observations: Mapping[str, Observation]
    ) -> SlotDecision:
        """Return a decision after comparing reservations with observations.

        Jobs and links that are concerned are decided about in any case, and at once: a job has
        come, or left.
        """
        reservations, slot_ms = question.reservations, question.instance.slot_ms
        self._jitters |= {
            job: seen.jitter for job, seen in observations.items() if seen.jitter is not None
        }
        differences: dict[str, list[str]] = {}
        for job, seen in observations.items():
            differences[job] = seen.differences(reservations[job], slot_ms)
            self._differs[job] = self._differs[job] + 1 if differences[job] else 0
        resting = self._resting(question)
        right, why = dict(reservations), []
        differing = [job for job in observations if self._differs[job] >= self._persist]
        for job in differing:
            if job in resting:
                continue
            why += differences[job]
            reservation = corrected(
                reservations[job], observations[job], slot_ms, question.hyperperiod
            )
            if reservation is None:
                why.append(f"{job} keeps its claim: its iteration is longer than the hyperperiod")
            else:
                right[job] = reservation
        concerned = question.concerned.union(
            job for job in reservations if right[job] != reservations[job]
        )
        slots = choose_slots(
            question.instance,
            plan_of(reservations),
            _instance(question.instance, right, self._jitters),
            plan_of(right),
            question.hyperperiod,
            concerned,
        )
        after = {job: _with_slots(right[job], slots.plan) for job in slots.plan.offsets}
        changed = {
            job: reservation
            for job, reservation in after.items()
            if reservation != reservations[job]
        }
        for job, reservation in changed.items():
            why += _changes(reservations[job], reservation, slot_ms)
        reason = "; ".join(filter(None, (*why, slots.why)))
        return SlotDecision(changed, reason or _nothing(differences))

    def _resting(self, question: SlotReview) -> set[str]:
        """Return the jobs beside one that was moved not long ago, which are left alone."""
        since_s, resting = question.at_s - _PAUSE_S, set()
        for part in components(question.instance):
            names = {job.name for job in part.jobs}
            if any(self._moved_s.get(name, since_s) > since_s for name in names):
                resting |= names
        return resting

    # ------------------------------------------------------------------ changing the state

    def put_back(self, question: SlotReview) -> None:
        """Have a question that could not be answered asked again."""
        self._concerned |= question.concerned

    def apply(
        self, state: ClusterState, question: SlotReview, answer: SlotDecision
    ) -> ReviewOutcome:
        """Apply a decision if the gangs that it is about are as they were."""
        self.follow(state)
        unchanged = ReviewOutcome(0, answer.reason, answer.fault)
        if not answer.reservations:
            return unchanged
        before = question.reservations
        if any(state.reservations.get(job) != reservation for job, reservation in before.items()):
            links = frozenset().union(*self._gangs.values())
            self._concerned |= question.concerned & (self._gangs.keys() | links)
            return unchanged
        now = self._clock()
        state.revise(answer.reservations.values())
        moved = [
            job for job, each in answer.reservations.items() if _slots(each) != _slots(before[job])
        ]
        self._notified_s |= dict.fromkeys(moved, now)
        self._moved_s |= dict.fromkeys(moved, now)
        return ReviewOutcome(len(moved), answer.reason, answer.fault)


# ------------------------------------------------------------------ reservations


def _believed(seen: Observation, reservation: Reservation, slot_ms: int) -> Observation:
    """Return an observation without what other jobs may have done to bursts out of slots."""
    in_slots = reservation.gated and not seen.is_late(reservation, slot_ms)
    return seen if in_slots else seen.no_longer(reservation, slot_ms)


def _instance(
    before: Instance, reservations: Mapping[str, Reservation], jitters: Mapping[str, float]
) -> Instance:
    """Return the jobs as claimed now, with jitter as measured, on the links crossed before."""
    jobs = []
    for crossed in before.jobs:
        reservation, name = reservations[crossed.name], crossed.name
        job = reservation.gang.job(crossed.links, stretch=reservation.stretch)
        jobs.append(job.model_copy(update={"jitter": jitters.get(name, job.jitter)}))
    return before.replace(jobs=tuple(jobs))


def _with_slots(reservation: Reservation, plan: Plan) -> Reservation:
    """Return a reservation in the slots of a plan; without slots it keeps its period."""
    period = plan.periods.get(reservation.job)
    if period is None:
        return reservation.model_copy(update={"gated": False})
    stretch = period - reservation.gang.period
    gang = reservation.gang.model_copy(
        update={"max_stretch": max(reservation.gang.max_stretch, stretch)}
    )
    slots = {"offset": plan.offsets[reservation.job], "stretch": stretch, "gated": True}
    return reservation.model_copy(update={"gang": gang, **slots})


def _slots(reservation: Reservation) -> tuple[object, ...] | None:
    """Return the slots of a gang; None if it keeps none."""
    return (
        (reservation.offset, reservation.period, reservation.gang.phases)
        if reservation.gated
        else None
    )


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
