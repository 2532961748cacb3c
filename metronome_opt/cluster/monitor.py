"""Monitor: re-optimises the slots of running gangs when gangs or their traffic change.

A decision takes seconds, and what it is made of milliseconds. So `Monitor.next` takes a copy of the
claims in force, `Monitor.answer` decides by that copy, at leisure and without the state, and
`Monitor.apply` changes of the state what is still true then.

Jobs that fit can be late all the same: once several of them are out of their slots, each holds up
the others, and none catches up. On real networks that lasts for minutes, and free jobs separate
by themselves. So all that hang together are let go for some seconds; for twice as long each time
that it does not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from metronome_opt.cluster.findings import (
    Finding,
    correct_claims,
    find_differences,
    undisturbed,
)
from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.gates import Beliefs, Observation, Read, observe_gates, window_s
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import instance_of
from metronome_opt.errors import MetronomeError
from metronome_opt.presolve.components import components
from metronome_opt.slowdown.claims import Claims
from metronome_opt.slowdown.rephase import choose_slots
from metronome_opt.verify import evaluate

_LOOSE_S, _MAX_LOOSE_S = 5.0, 600.0
_SETTLE_S = 2.0  # gangs that come one after the other are decided about together
_PAUSE_S, _MAX_PAUSE_S = 30.0, 3600.0  # for which a job that was moved is left alone
_PERSIST = 2  # checks in a row in which a finding has to be there before it counts


@dataclass(frozen=True)
class Question:
    """Claims in force that are to be decided about."""

    before: Mapping[str, Reservation]
    claims: Claims
    concerned: frozenset[str]
    notified_s: Mapping[str, float]
    at_s: float
    measured: bool
    tried: bool


@dataclass(frozen=True)
class Answer:
    """A decision about slots.

    Attributes
    ----------
    claims
        Those that are to be in force; None if all stay as they are.
    reason
        In one line.
    late
        Jobs that are late though nothing of their own has changed.
    later
        Jobs and links to be decided about once more, since jobs were moved not long ago.
    observations
        By job, its mean iteration, or why that is not known; empty if nothing was measured.
    in_time
        Whether all jobs that keep slots were measured, and none was late.
    fault
        Why nothing was measured; None if all is well.
    """

    claims: Claims | None
    reason: str
    late: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
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
        self._beliefs = Beliefs()
        self._memory = _Memory(persist)
        self._notified_s: dict[str, float] = {}  # by gang: when it was notified of its slots
        self._known: dict[str, frozenset[str]] | None = None  # gangs and their links
        self._concerned: set[str] = set()
        self._later: set[str] = set()  # what is decided about once more, and when
        self._later_s = 0.0
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
        if self._later and now >= self._later_s:
            self._concerned |= self._later & self._gangs.keys()
            self._later = set()
        is_due = self._read is not None and now >= self._due_s
        if is_due or (self._concerned and now >= self._since_s + _SETTLE_S):
            return self.ask(state, measured=is_due)
        return None

    @property
    def _gangs(self) -> dict[str, frozenset[str]]:
        return self._known or {}

    def follow(self, state: ClusterState) -> None:
        """Note which gangs have come, and on which links others have left; the first time, all."""
        claims, now = state.claims, self._clock()
        if self._known is None:  # decided about once after a start, and notified long ago
            self._known = {job: frozenset(state.flows(job)) for job in claims}
            self._concerned = set(self._known)
            return
        came = claims.keys() - self._known.keys()
        left = self._known.keys() - claims.keys()
        for job in left:
            self._concerned |= self._known.pop(job)
            self._notified_s.pop(job, None)
            self._beliefs.forget(job)
            self._memory.forget(job)
        for job in came:
            self._known[job] = frozenset(state.flows(job))
            self._notified_s[job] = now
        self._concerned |= came
        self._concerned -= left
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
        claims = claims_of(state)
        if claims is None:
            return None
        tried = self._loose_s > _LOOSE_S
        return Question(
            dict(state.claims), claims, concerned, dict(self._notified_s), now, measured, tried
        )

    def answer(self, question: Question) -> Answer:
        """Decide; without measurements if they cannot be read."""
        claims, now_s = question.claims, question.at_s
        seen: Mapping[str, Observation | str] = {}
        fault = None
        if self._read is not None and question.measured:
            begin_s = now_s - window_s(claims, self._check_s)
            try:
                counters = self._read(begin_s, now_s)
            except MetronomeError as error:
                fault = str(error)
            else:
                notified_s = question.notified_s
                seen = observe_gates(
                    claims, counters, now_s=now_s, for_s=self._check_s, notified_s=notified_s
                )
        observations = self._beliefs.of(
            claims,
            {job: each for job, each in seen.items() if isinstance(each, Observation)},
            tried=question.tried,
        )
        known = claims.offsets.keys() | {link.name for link in claims.instance.links}
        concerned = question.concerned & known
        decision = self._decide(with_cushions(claims), observations, now_s, concerned)
        in_time = bool(seen) and all(
            name in observations and not observations[name].alone
            for name in filter(claims.is_gated, claims.offsets)
        )
        return replace(decision, observations=seen, in_time=in_time, fault=fault)

    def _decide(
        self,
        claims: Claims,
        observations: Mapping[str, Observation],
        now_s: float,
        concerned: Collection[str],
    ) -> Answer:
        """Return a decision after comparing claims with observations.

        Jobs and links that are `concerned` are decided about in any case, and at once: a job has
        come, or left.
        """
        observations = undisturbed(claims, observations)
        findings = find_differences(claims, observations)
        self._memory.note(findings, observations)
        ripe = [finding for finding in findings if self._memory.is_ripe(finding)]
        late = frozenset(finding.job for finding in ripe if finding.kind == "late")
        if not ripe and not concerned:
            return Answer(None, _nothing_believed(claims, findings, observations), late)
        believed = _with_neighbours(claims, ripe, findings)
        right, kept = correct_claims(claims, believed, observations)
        suspects = {
            each.job
            for each in believed
            if each.job not in kept and each.kind != "late"  # other slots would not help
        }
        resting = self._memory.resting(now_s) - set(concerned)
        slots = choose_slots(claims, right, suspects.union(concerned), resting)
        if slots.postponed:
            stay = [each for each in believed if each.job not in slots.postponed]
            right, kept = correct_claims(claims, stay, observations)
        if slots.gated:
            right = right.with_slots(slots.periods, slots.gated)
        after = right.with_offsets({**right.offsets, **slots.offsets})
        moved = {
            name for name in after.offsets if after.is_gated(name) != claims.is_gated(name)
        }.union(slots.offsets)
        self._memory.note_moves(moved, now_s)
        reasons = (*map(str, ripe), *kept.values(), *_changes(claims, after), slots.why)
        return Answer(after, "; ".join(filter(None, reasons)), late, frozenset(slots.later))

    # ------------------------------------------------------------------ changing the state

    def apply(self, state: ClusterState, question: Question, answer: Answer) -> Rephased:
        """Apply a decision if the gangs that it is about are as they were."""
        self.follow(state)
        unchanged = Rephased(0, answer.reason, answer.fault)
        if answer.in_time:
            self._loose_s = _LOOSE_S
        if answer.claims is None:
            return unchanged
        names = question.claims.offsets.keys()
        if any(state.claims.get(job) != question.before[job] for job in names):
            links = frozenset().union(*self._gangs.values())
            self._concerned |= question.concerned & (self._gangs.keys() | links)
            return unchanged
        now = self._clock()
        state.revise(_revised(question.before[job], answer.claims) for job in names)
        if answer.later:
            self._later |= answer.later
            self._later_s = now + _PAUSE_S
        moved = [job for job in names if _slots(state.claims[job]) != _slots(question.before[job])]
        self._notified_s |= dict.fromkeys(moved, now)
        if answer.late and answer.late.isdisjoint(moved):
            return self._let_go(state, question.claims, answer.late, now)
        return Rephased(len(moved), answer.reason, answer.fault)

    def _let_go(
        self, state: ClusterState, claims: Claims, late: frozenset[str], now: float
    ) -> Rephased:
        """Let all go that hang together with gangs that are late."""
        for part in components(claims.running):
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


class _Memory:
    """Number of checks in a row in which each finding was there, and recent moves of jobs."""

    def __init__(self, persist: int) -> None:
        self._persist = persist
        self._seen: dict[tuple[str, str], int] = {}  # by kind and job
        self._moved: dict[str, tuple[float, float]] = {}  # when, and for how long it rests

    def note(self, findings: Sequence[Finding], measured: Collection[str]) -> None:
        """Count findings; those of jobs that were not measured stay as they were."""
        seen = {key: count for key, count in self._seen.items() if key[1] not in measured}
        for key in dict.fromkeys((each.kind, each.job) for each in findings):
            seen[key] = self._seen.get(key, 0) + 1
        self._seen = seen

    def is_ripe(self, finding: Finding) -> bool:
        """Return whether a finding has lasted for long enough to be believed."""
        return self._seen.get((finding.kind, finding.job), 0) >= self._persist

    def resting(self, now_s: float) -> set[str]:
        """Return the jobs that were moved not long ago and are to be left alone."""
        return {job for job, (at_s, pause_s) in self._moved.items() if now_s < at_s + pause_s}

    def forget(self, job: str) -> None:
        """Forget a job that has left."""
        self._seen = {key: count for key, count in self._seen.items() if key[1] != job}
        self._moved.pop(job, None)

    def note_moves(self, jobs: Collection[str], now_s: float) -> None:
        """Let jobs rest; one that is moved again within twice its pause rests twice as long."""
        for job in jobs:
            at_s, before_s = self._moved.get(job, (-_MAX_PAUSE_S, 0.0))
            again = now_s < at_s + 2 * before_s
            self._moved[job] = now_s, min(_MAX_PAUSE_S, 2 * before_s) if again else _PAUSE_S


# ------------------------------------------------------------------ claims of a state


def claims_of(state: ClusterState) -> Claims | None:
    """Return the claims in force of all jobs that use links; None if there are none."""
    jobs = [job for job in state.claims if state.flows(job)]
    if not jobs:
        return None
    stretch = {job: state.claims[job].stretch for job in jobs}
    gated = {job: state.claims[job].gated for job in jobs}
    return Claims(instance_of(state, jobs), state.cluster.hyperperiod, stretch, gated=gated)


def with_cushions(claims: Claims) -> Claims:
    """Return claims with the slots by which each job may be off, early or late, as others may.

    Between any two bursts there is the cushion of their link; each of the two may use half of it.
    Where something is late already, there is none.
    """
    limits = {
        link.name: 0 if link.late else link.cushion
        for link in evaluate(claims.instance, claims.offsets, claims.stretch).links
    }
    cushions = {}
    for job in claims.instance.jobs:
        known = [limit for link in job.links if (limit := limits[link]) is not None]
        cushions[job.name] = min(known, default=job.period) // 2
    return replace(claims, cushions=cushions)


def _revised(before: Reservation, claims: Claims) -> Reservation:
    """Return the claim of a job as it is to be."""
    job = claims.instance.job(before.job)
    stretch = claims.stretch.get(job.name, 0)
    changes = {
        "period": job.period,
        "phases": job.phases,
        "max_stretch": max(before.gang.max_stretch, stretch),
    }
    gang = Gang.model_validate(before.gang.model_copy(update=changes).model_dump())
    slots = {
        "gang": gang,
        "offset": claims.offsets[job.name],
        "stretch": stretch,
        "gated": claims.is_gated(job.name),
    }
    return before.model_copy(update=slots)


def _slots(claim: Reservation) -> tuple[object, ...] | None:
    """Return the slots of a gang; None if it keeps none."""
    return (claim.offset, claim.period, claim.gang.phases) if claim.gated else None


# ------------------------------------------------------------------ reasons


def _with_neighbours(
    claims: Claims, ripe: Sequence[Finding], findings: Sequence[Finding]
) -> list[Finding]:
    """Return all findings about jobs that hang together with those of ripe findings.

    What is measured of a job belongs together with what is measured of those that it meets.
    """
    names = {finding.job for finding in ripe}
    for part in components(claims.running):
        members = {job.name for job in part.jobs}
        if not names.isdisjoint(members):
            names |= members
    return [finding for finding in findings if finding.job in names]


def _nothing_believed(
    claims: Claims, findings: Sequence[Finding], measured: Collection[str]
) -> str:
    if findings:
        return f"not believed yet: {'; '.join(map(str, findings))}"
    if not measured:
        return "no job was measured"
    if claims.offsets.keys() <= set(measured):
        return "all is as claimed"
    return "what was measured is as claimed"


def _changes(before: Claims, after: Claims) -> Iterator[str]:
    """Yield what is claimed otherwise than before, job by job."""
    slot_ms = before.instance.slot_ms
    for job in before.instance.jobs:
        name = job.name
        changes = [
            f"{what} {old * slot_ms:,} -> {new * slot_ms:,} ms"
            for what, old, new in (
                ("offset", before.offsets[name], after.offsets[name]),
                ("period", before.period(name), after.period(name)),
            )
            if old != new
        ]
        if after.instance.job(name).phases != job.phases:
            changes.append("bursts as measured")
        if after.is_gated(name) != before.is_gated(name):
            changes.append("keeps slots" if after.is_gated(name) else "keeps no slots")
        if changes:
            yield f"{name}: {', '.join(changes)}"
