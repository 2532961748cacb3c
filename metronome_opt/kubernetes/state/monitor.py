"""Monitor: chooses new windows for running gangs when gangs or their traffic change.

A decision takes seconds, and the state may change meanwhile. So `Monitor.next` copies reservations,
`Monitor.decide` decides by this copy, without the state, and `Monitor.apply` applies the decision
if reservations are still as copied.

A difference between measured and reserved traffic corrects a reservation when it has lasted for
some checks. Jobs out of their windows delay one another, which lengthens bursts: longer bursts then
count only as far as they send more. Gates leave windows and return to them by themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from metronome_opt.allocation.slots.rephase import choose_slots
from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.state.observations import (
    Observation,
    Read,
    correct_reservation,
    observe_gates,
)
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import instance_of, plan_of, with_slots
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.presolve.blocks import components

_SETTLE_S = 2.0  # after the last arrival or departure, so that one decision is about several
_PAUSE_S = 30.0  # for which measurements do not change gangs with new windows
_PERSIST = 2  # checks in a row in which a measurement has to differ before it counts


@dataclass(frozen=True)
class SlotReview:
    """A copy of a state, its reservations on links, and the jobs and links to decide about."""

    state: ClusterState
    reservations: Mapping[str, Reservation]
    concerned: frozenset[str]
    notified_s: Mapping[str, float]
    at_s: float
    measured: bool


@dataclass(frozen=True)
class SlotDecision:
    """A decision about windows.

    Attributes
    ----------
    reservations
        The changed ones, by job.
    reason
        One line.
    observations
        Mean iterations by job, or why they are not known; empty if nothing was measured.
    fault
        The error that kept gates from being measured; None without one.
    """

    reservations: Mapping[str, Reservation]
    reason: str
    observations: Mapping[str, Observation | str] = field(default_factory=dict)
    fault: str | None = None


class Monitor:
    """Decides about the windows of running gangs.

    Parameters
    ----------
    read
        Reads the counters of gates; None to decide without measurements.
    check_s
        Seconds between two checks of measurements.
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
        self._notified_s: dict[str, float] = {}  # by gang: when it was notified of its windows
        self._moved_s: dict[str, float] = {}  # when it was moved last
        self._known: dict[str, frozenset[str]] | None = None  # gangs with their links
        self._concerned: set[str] = set()
        self._since_s = clock()  # when the last gang came or left
        self._due_s = clock() + check_s

    def next(self, state: ClusterState) -> SlotReview | None:
        """Return the review that is due; None if none is."""
        self.follow(state)
        now = self._clock()
        is_due = self._read is not None and now >= self._due_s
        if is_due or (self._concerned and now >= self._since_s + _SETTLE_S):
            return self.review(state, measured=is_due)
        return None

    def follow(self, state: ClusterState) -> None:
        """Note the gangs that arrived, and the links of those that departed.

        A gang that was migrated has departed and arrived.
        """
        reservations, now = state.reservations, self._clock()
        if self._known is None:  # one decision after a start is about all gangs
            self._known = {job: frozenset(state.flows[job]) for job in reservations}
            self._concerned = set(self._known)
            return
        migrated = {
            job
            for job in reservations.keys() & self._known.keys()
            if self._known[job] != state.flows[job].keys()
        }
        arrived = (reservations.keys() - self._known.keys()) | migrated
        departed = (self._known.keys() - reservations.keys()) | migrated
        for job in departed:
            self._concerned |= self._known.pop(job)
            self._notified_s.pop(job, None)
            self._moved_s.pop(job, None)
            self._jitters.pop(job, None)
            del self._differs[job]
        for job in arrived:
            self._known[job] = frozenset(state.flows[job])
            self._notified_s[job] = now
        self._concerned -= departed
        self._concerned |= arrived
        if arrived or departed:
            self._since_s = now

    # ------------------------------------------------------------------ deciding

    def review(self, state: ClusterState, *, measured: bool) -> SlotReview | None:
        """Return a review of the reservations in force; None if no job uses a link."""
        self.follow(state)
        now = self._clock()
        concerned, self._concerned = frozenset(self._concerned), set()
        if measured:
            self._due_s = now + self._check_s
        state, notified_s = state.copy(), dict(self._notified_s)
        reservations = {job: new for job, new in state.reservations.items() if state.flows[job]}
        if not reservations:
            return None
        return SlotReview(state, reservations, concerned, notified_s, now, measured)

    def decide(self, review: SlotReview) -> SlotDecision:
        """Decide about a review; without measurements if they cannot be read."""
        reservations, slot_ms = review.reservations, review.state.cluster.slot_ms
        seen: Mapping[str, Observation | str] = {}
        fault = None
        if self._read is not None and review.measured:
            try:
                seen = observe_gates(
                    reservations,
                    slot_ms,
                    self._read,
                    now_s=review.at_s,
                    for_s=self._check_s,
                    notified_s=review.notified_s,
                )
            except MetronomeError as error:
                fault = str(error)
        decision = self._decide(
            review,
            {
                job: _believed(found, reservations[job], slot_ms)
                for job, found in seen.items()
                if isinstance(found, Observation)
            },
        )
        return replace(decision, observations=seen, fault=fault)

    def _decide(self, review: SlotReview, observations: Mapping[str, Observation]) -> SlotDecision:
        """Correct reservations by observations, and choose windows for the jobs concerned."""
        reservations, cluster = review.reservations, review.state.cluster
        slot_ms, before = cluster.slot_ms, instance_of(review.state, reservations)
        self._jitters |= {
            job: seen.jitter for job, seen in observations.items() if seen.jitter is not None
        }
        differences = {
            job: seen.differences(reservations[job], slot_ms) for job, seen in observations.items()
        }
        for job, lines in differences.items():
            self._differs[job] = self._differs[job] + 1 if lines else 0
        resting = self._resting(before, review.at_s)
        measured, why = dict(reservations), []
        for job, seen in observations.items():
            if self._differs[job] < self._persist or job in resting:
                continue
            why += differences[job]
            new = correct_reservation(reservations[job], seen, slot_ms, cluster.hyperperiod)
            if new is None:
                why.append(f"{job} is not corrected: its iteration is longer than the hyperperiod")
            else:
                measured[job] = new
        concerned = review.concerned.union(
            job for job in reservations if measured[job] != reservations[job]
        )
        varying = {job: _with_jitter(new, self._jitters.get(job)) for job, new in measured.items()}
        slots = choose_slots(
            before,
            plan_of(reservations),
            instance_of(review.state, varying),
            plan_of(measured),
            cluster.hyperperiod,
            concerned,
        )
        after = {job: with_slots(measured[job], slots.plan) for job in slots.plan.offsets}
        changed = {job: new for job, new in after.items() if new != reservations[job]}
        for job, new in changed.items():
            why += _changes(reservations[job], new, slot_ms)
        reason = "; ".join(filter(None, (*why, slots.why)))
        return SlotDecision(changed, reason or _nothing(differences))

    def _resting(self, instance: Instance, now_s: float) -> set[str]:
        """Return the jobs that share links with one whose windows changed a short time ago."""
        since_s, resting = now_s - _PAUSE_S, set()
        for part in components(instance):
            names = {job.name for job in part.jobs}
            if any(self._moved_s.get(name, since_s) > since_s for name in names):
                resting |= names
        return resting

    # ------------------------------------------------------------------ changing the state

    def put_back(self, review: SlotReview) -> None:
        """Make a review due again that was not decided or applied."""
        known = self._known or {}
        links = frozenset().union(*known.values())
        self._concerned |= review.concerned & (known.keys() | links)

    def apply(self, state: ClusterState, review: SlotReview, decision: SlotDecision) -> int:
        """Apply a decision.

        Parameters
        ----------
        state
            The state to change.
        review, decision
            What was reviewed, and what was decided about it.

        Returns
        -------
        int
            Number of gangs with other windows. If reservations are not as reviewed it is 0: nothing
            changes, and the review is due again.

        Raises
        ------
        InputError
            As of `ClusterState.revise`.
        """
        self.follow(state)
        before = review.reservations
        if not decision.reservations:
            return 0
        if any(state.reservations.get(job) != old for job, old in before.items()):
            self.put_back(review)
            return 0
        state.revise(decision.reservations.values())
        changed = decision.reservations.items()
        moved = [job for job, new in changed if _slots(new) != _slots(before[job])]
        self._notified_s |= dict.fromkeys(moved, self._clock())
        self._moved_s |= dict.fromkeys(moved, self._clock())
        return len(moved)


# ------------------------------------------------------------------ reservations


def _believed(seen: Observation, reservation: Reservation, slot_ms: int) -> Observation:
    """Return an observation without the delay of bursts out of windows by other jobs."""
    in_slots = reservation.gated and not seen.is_late(reservation, slot_ms)
    return seen if in_slots else seen.no_longer(reservation, slot_ms)


def _with_jitter(held: Reservation, jitter: float | None) -> Reservation:
    """Return a reservation with jitter as measured, if it is known."""
    if jitter is None:
        return held
    return held.model_copy(update={"gang": held.gang.model_copy(update={"jitter": jitter})})


def _slots(held: Reservation) -> tuple[object, ...] | None:
    """Return the windows of a gang; None if it is ungated."""
    return (held.offset, held.period, held.gang.phases) if held.gated else None


# ------------------------------------------------------------------ reasons


def _nothing(differences: Mapping[str, list[str]]) -> str:
    """Return the reason to change nothing."""
    unlike = "; ".join(line for lines in differences.values() for line in lines)
    if unlike:
        return f"not confirmed yet: {unlike}"
    return "measurements are as reserved" if differences else "no job was measured"


def _changes(before: Reservation, after: Reservation, slot_ms: int) -> Iterator[str]:
    """Yield a line for the differences between two reservations of a job."""
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
        changes.append("gated" if after.gated else "ungated")
    if changes:
        yield f"{before.job}: {', '.join(changes)}"
