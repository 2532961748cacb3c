"""The monitor: hold what is measured against what was claimed, and say what is to be done."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import groupby
from typing import Annotated, Any, Literal, NamedTuple, Self

from immutabledict import immutabledict
from pydantic import Field

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import MOST_STRETCH, Finding, Kind, detect, put_right
from metronome_opt.control.observation import Observation, Tolerance, undisturbed
from metronome_opt.control.reconfigure import (
    PRICE,
    Plan,
    Pricing,
    Reconfiguration,
    make_plan,
    rephase_one,
    resolve,
)
from metronome_opt.instance import Instance
from metronome_opt.presolve import split
from metronome_opt.presolve.components import components
from metronome_opt.records import FrozenMap, Name, Positive, Record, build


class Verdict(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    REPHASE = "rephase"
    BLOCK = "block"
    ALL = "all"


@dataclass(frozen=True)
class Settings:
    """How a monitor decides."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    persist: int = 2  # checks in a row in which a finding has to be there before it counts
    large: float = 4.0  # times its tolerance: a finding that exceeds this counts at once
    price: Fraction = PRICE  # of moves: 1 over the iterations in which one has to pay
    # What a plan has to gain, moves paid, and what more jobs have to gain over fewer: a share of
    # the weighted traffic that is no longer late.
    minimum_gain: Fraction = Fraction(1, 100)
    # By how much a job may be slowed down so that its period divides the hyperperiod; None for as
    # much as it takes, if it is decided anyway whether slots are worth it.
    most_stretch: Fraction | None = MOST_STRETCH
    # For how long a job that was moved is left alone; doubled up to the longest if it flaps.
    pause_ms: float = 60_000.0
    longest_pause_ms: float = 3_600_000.0


# ------------------------------------------------------------------ what is remembered

_Milliseconds = Annotated[float, Field(allow_inf_nan=False)]


class Moved(Record):
    """When a job was moved last, and for how long after that it is left alone, in ms."""

    at_ms: _Milliseconds
    pause_ms: Annotated[_Milliseconds, Field(ge=0)]


class Memory(Record):
    """What a monitor remembers between two checks, so that it does not flap; a document.

    Counted is in how many checks in a row each finding was there, by kind and name; and kept is
    when each job was moved.
    """

    format: Literal["metronome-monitor/1"] = "metronome-monitor/1"
    seen: FrozenMap[str, Positive] = immutabledict()
    moved: FrozenMap[Name, Moved] = immutabledict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a memory from a document of format ``metronome-monitor/1``.

        Raises
        ------
        InputError
            If anything is unknown, missing or out of range.
        """
        return build(cls, data, "metronome-monitor/1")

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as a document."""
        return self.model_dump(mode="json")

    def noting(self, findings: Sequence[Finding], measured: Collection[str]) -> Memory:
        """Return the memory after a further check, in which some jobs and links were measured.

        What was found of others before stays as it was.
        """
        seen = {key: count for key, count in self.seen.items() if _name(key) not in measured}
        seen |= {_key(each): self.seen.get(_key(each), 0) + 1 for each in findings}
        return Memory(seen=seen, moved=self.moved)

    def is_ripe(self, finding: Finding, settings: Settings) -> bool:
        """Whether a finding is to be believed: it has lasted, is large, or the job is gone."""
        lasting = self.seen.get(_key(finding), 0) >= settings.persist
        return lasting or finding.excess >= settings.large or finding.kind is Kind.GONE

    def resting(self, now_ms: float) -> set[str]:
        """Return the jobs that were moved not long ago and are to be left alone."""
        return {name for name, moved in self.moved.items() if now_ms < moved.at_ms + moved.pause_ms}

    def after_moving(self, names: Collection[str], now_ms: float, settings: Settings) -> Memory:
        """Return the memory after some jobs were moved.

        One that is moved again within twice its pause is left alone for twice as long as before.
        """
        moved = dict(self.moved)
        for name in names:
            before, pause = moved.get(name), settings.pause_ms
            if before is not None and now_ms < before.at_ms + 2 * before.pause_ms:
                pause = min(settings.longest_pause_ms, 2 * before.pause_ms)
            moved[name] = Moved(at_ms=now_ms, pause_ms=pause)
        return Memory(seen=self.seen, moved=moved)

    def only(self, names: Collection[str]) -> Memory:
        """Return what it remembers of some jobs and links."""
        return Memory(
            seen={key: count for key, count in self.seen.items() if _name(key) in names},
            moved={name: moved for name, moved in self.moved.items() if name in names},
        )


def _key(finding: Finding) -> str:
    return f"{finding.kind} {finding.name}"


def _name(key: str) -> str:
    return key.partition(" ")[2]


# ------------------------------------------------------------------ who is to move


class Choice(NamedTuple):
    """Who is to move, and what else is to be in force.

    Attributes
    ----------
    offsets
        Of the jobs that move.
    postponed
        Jobs and links that are left as they are claimed for now, whatever was found of them.
    later
        Jobs that would move if they had not been moved not long ago.
    why
        In words, what moves bring, or why nobody moves.
    periods, gated
        Of jobs that are to have other periods than put right, and of those that are told anew
        whether they keep slots.
    """

    offsets: Mapping[str, int]
    postponed: Collection[str]
    later: Collection[str]
    why: str
    periods: Mapping[str, int] = immutabledict()
    gated: Mapping[str, bool] = immutabledict()


Choose = Callable[[Claims, Claims, Collection[str], Collection[str], Settings, int], Choice]
"""How a monitor decides: by the claims in force, the same put right, jobs and links of which
something was found, jobs that rest, settings, and a seed."""


def least_contention(
    _: Claims,
    right: Claims,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int = 0,
) -> Choice:
    """Choose between moving nobody, one job, the jobs around the suspects, and all, by contention.

    Nobody moves if that does not gain enough. A group of jobs that share links, directly or through
    others, is left for later if more would be gained by moving some that are resting.
    """
    offsets: dict[str, int] = {}
    postponed: set[str] = set()
    most = Fraction(0)  # what the best plan for such a group would gain, moves paid
    for part in components(right.reserved):
        members = {job.name for job in part.jobs}
        around = {job.name for job in part.jobs if not job.links.keys().isdisjoint(suspects)}
        around |= members.intersection(suspects)
        if not around:
            continue
        way, gain = _least_that_pays(part, around, resting, settings, seed)
        if not way.moved and not members.isdisjoint(resting):
            unbound, gain = _least_that_pays(part, around, (), settings, seed)
            if unbound.moved:
                postponed |= _members(part)
        most = max(most, gain)
        for index in way.moved:
            offsets[part.jobs[index].name] = way.offsets[index]
    if postponed and not offsets:
        why = "jobs that would have to move were moved not long ago"
        return Choice(offsets, postponed, postponed, why)
    return Choice(
        offsets, postponed, postponed, "" if offsets else _nobody_moves(right, most, settings)
    )


def _least_that_pays(
    part: Instance,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int,
) -> tuple[Reconfiguration, Fraction]:
    """Return the smallest change of which no larger one gains enough more, and the most gained."""
    price = settings.price
    chosen = resolve(part, price=price, only=())
    if not chosen.contention_before:
        return chosen, Fraction(0)
    around = set(suspects)
    for block in split(part).blocks:
        members = {job.name for job in block.jobs}
        if not members.isdisjoint(suspects):
            around |= members
    ways = [
        rephase_one(part, price=price, held=resting),
        resolve(part, price=price, held=resting, only=around, seed=seed),
    ]
    if len(around) < len(part.jobs):
        ways.append(resolve(part, price=price, held=resting, seed=seed))
    for way in ways:
        if chosen.after - way.after >= settings.minimum_gain:
            chosen = way
    return chosen, max(way.gain for way in ways)


def _verdict(moved: Collection[str], instance: Instance) -> Verdict:
    """Return what it is called to move some jobs of an instance."""
    if len(moved) < 2:
        return Verdict.REPHASE if moved else Verdict.NOTHING
    blocks = ({job.name for job in block.jobs} for block in split(instance).blocks)
    return Verdict.BLOCK if any(set(moved) <= block for block in blocks) else Verdict.ALL


@dataclass(frozen=True)
class Contention:
    """Weight * Mbit/s, cushions included: as claimed, as measured, and once the plan is done."""

    claimed: Fraction
    measured: Fraction
    planned: Fraction


@dataclass(frozen=True)
class Decision:
    """What a check comes to."""

    kind: Verdict  # how many are to be moved
    findings: tuple[Finding, ...]  # all of them, those too that are not believed yet
    plan: Plan | None  # who is to wait; None if nobody is
    # What is in force when the plan is done. It may be new although nobody moves: a job that
    # drifted and is in nobody's way keeps the slot that it is in. None if all jobs are gone.
    claims: Claims | None
    contention: Contention | None  # None if nothing is believed yet
    reason: str  # in one line
    later: frozenset[str] = frozenset()  # jobs and links that are left as they are for now


class Monitor:
    """Decides by what is measured; does nothing by itself.

    Parameters
    ----------
    settings
        How it decides.
    memory
        What an earlier monitor remembered, to go on from there. The attribute of this name is what
        it remembers now; it takes plans to be carried out.
    seed
        Of the solver.
    choose
        By what it decides who is to move.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        memory: Memory | None = None,
        seed: int = 0,
        choose: Choose = least_contention,
    ) -> None:
        self.settings = settings or Settings()
        self.memory = memory or Memory()
        self._seed = seed
        self._choose = choose

    def check(
        self,
        claims: Claims,
        observations: Mapping[str, Observation],
        now_ms: float,
        capacities: Mapping[str, float] | None = None,
        concerned: Collection[str] = (),
    ) -> Decision:
        """Compare and decide.

        What others did to a job is taken out of its observation before, see `undisturbed`. A job
        whose changed period fits no others keeps its claim; the reason says so.

        Observations are by job, and one that is not named was not measured; capacities are those
        measured, in Mbit/s by link; `now_ms` is by the clock of the claims. Concerned are jobs and
        links that are decided about in any case, and at once: a job has come, or has left.

        Raises
        ------
        InputError
            If a job or a link is not one of the claims; or if periods have to divide no
            hyperperiod, and as measured they fit one another so badly that theirs is above the
            limit of the instance.
        """
        capacities, settings = capacities or {}, self.settings
        observations = undisturbed(claims, observations, capacities, settings.tolerance)
        findings = detect(claims, observations, capacities, settings.tolerance)
        measured = {*observations, *capacities}
        self.memory = self.memory.noting(findings, measured)
        ripe = [finding for finding in findings if self.memory.is_ripe(finding, settings)]
        if not ripe and not concerned:
            reason = _nothing_believed(claims, findings, measured)
            return Decision(Verdict.NOTHING, findings, None, claims, None, reason)
        believed = _concerned(claims, ripe, findings)
        if _gone(believed) >= claims.offsets.keys():
            self.memory = Memory()
            return Decision(Verdict.NOTHING, findings, None, None, None, "all jobs are gone")
        right, kept = put_right(claims, believed, observations, capacities, settings.most_stretch)
        # Who is gone is told by its links.
        links = (claims.instance.job(name).links for name in _gone(believed))
        suspects = {
            each.name
            for each in believed
            if each.name not in kept and each.kind is not Kind.LATE  # other slots would not help
        }.union(*links)
        choice = self._choose(
            claims,
            right,
            suspects.union(concerned),
            self.memory.resting(now_ms) - set(concerned),
            settings,
            self._seed,
        )
        if choice.postponed:
            stay = [
                each
                for each in believed
                if each.kind is Kind.GONE or each.name not in choice.postponed
            ]
            right, kept = put_right(claims, stay, observations, capacities, settings.most_stretch)
        corrected = right
        if choice.gated:
            right = right.with_slots(choice.periods, choice.gated)
        plan = make_plan(right, choice.offsets) if choice.offsets else None
        after = right if plan is None else plan.claims()
        told = {
            name for name in after.offsets if after.is_gated(name) != claims.is_gated(name)
        }.union(choice.offsets)
        self.memory = self.memory.after_moving(told, now_ms, settings).only(
            {*after.offsets, *(link.name for link in after.instance.links)}
        )
        contention = Contention(*(_contention(each) for each in (claims, corrected, after)))
        reasons = (
            *map(str, ripe),
            *kept.values(),
            *_changes(claims, right),
            _told(contention),
            choice.why,
            "" if plan is None else _waits(plan),
        )
        kind = _verdict(choice.offsets, right.reserved)
        reason = "; ".join(filter(None, reasons))
        later = frozenset(choice.later)
        return Decision(kind, findings, plan, after, contention, reason, later)


def _members(part: Instance) -> set[str]:
    """Return the names of jobs and links."""
    return {job.name for job in part.jobs} | {link.name for link in part.links}


def _concerned(
    claims: Claims, ripe: Sequence[Finding], findings: Sequence[Finding]
) -> list[Finding]:
    """Return all findings about jobs that hang together with those of ripe findings.

    What is measured of a job belongs together with what is measured of those that it meets.
    """
    names = {finding.name for finding in ripe}
    for part in components(claims.running):
        if not names.isdisjoint(_members(part)):
            names |= _members(part)
    return [finding for finding in findings if finding.name in names]


def _gone(findings: Sequence[Finding]) -> set[str]:
    """Return the jobs that are gone."""
    return {finding.name for finding in findings if finding.kind is Kind.GONE}


def _contention(claims: Claims) -> Fraction:
    offsets = [claims.offsets[job.name] for job in claims.instance.jobs]
    return Pricing(claims.reserved).contention(offsets)


# ------------------------------------------------------------------ reasons


def _nothing_believed(
    claims: Claims, findings: Sequence[Finding], measured: Collection[str]
) -> str:
    if findings:
        return f"not believed yet: {'; '.join(map(str, findings))}"
    if not measured:
        return "nobody was measured"
    if claims.offsets.keys() <= set(measured):
        return "all is as claimed"
    return "what was measured is as claimed"


def _changes(before: Claims, after: Claims) -> Iterator[str]:
    """Yield what is claimed otherwise than before, job by job, then link by link."""
    slot_ms = before.instance.slot_ms
    for job in before.instance.jobs:
        name = job.name
        if name not in after.offsets:
            yield f"{name}'s claim is given back"
            continue
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
            yield f"{name}'s claim put right: {', '.join(changes)}"
    carried = {link.name: link.capacity for link in after.instance.links}
    for link in before.instance.links:
        new = carried.get(link.name, link.capacity)
        if new != link.capacity:
            yield f"{link.name}'s capacity put right: {link.capacity:,} -> {new:,} Mbit/s"


def _told(contention: Contention) -> str:
    """Return levels of contention one after the other, each once."""
    levels = groupby(vars(contention).items(), key=operator.itemgetter(1))
    steps = (f"{float(level):,.6g} as {next(group)[0]}" for level, group in levels)
    return f"weighted contention in Mbit/s: {', '.join(steps)}"


def _waits(plan: Plan) -> str:
    slot_ms = plan.claims_before.instance.slot_ms
    return ", ".join(
        f"{step.job} waits {step.wait * slot_ms:,} ms ({step.wait} slots)" for step in plan.steps
    )


def _nobody_moves(right: Claims, most: Fraction, settings: Settings) -> str:
    """Return why it does not pay to move anybody.

    The shares are what the best plan would gain, and what it has to, of the weighted traffic.
    """
    if not _contention(right):
        return "nobody has to move"
    if not most:
        return "to move anybody would cost more than it gains"
    gains, has_to = (f"{100 * float(share):.2g} %" for share in (most, settings.minimum_gain))
    return f"to move anybody would gain {gains}, less than {has_to}"
