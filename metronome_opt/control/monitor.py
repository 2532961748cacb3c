"""The monitor: hold what is measured against what was claimed, and say what is to be done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.control import reasons
from metronome_opt.control.claims import Claims
from metronome_opt.control.decide import Choice, Settings, Verdict, choose, verdict
from metronome_opt.control.detect import Finding, Kind, detect
from metronome_opt.control.heldup import undisturbed
from metronome_opt.control.measured import PutRight, put_right
from metronome_opt.control.memory import Memory
from metronome_opt.control.observation import Observation
from metronome_opt.control.plan import Plan, make_plan
from metronome_opt.control.pricing import Pricing
from metronome_opt.instance import Instance
from metronome_opt.presolve import split
from metronome_opt.presolve.components import components


@dataclass(frozen=True)
class Contention:
    """Weight * Mbit/s, cushions included: as claimed, as measured, and once the plan is done."""

    claimed: Fraction
    measured: Fraction
    planned: Fraction


@dataclass(frozen=True)
class Decision:
    """What a check comes to.

    Attributes
    ----------
    kind
        How many are to be moved.
    findings
        All of them, those too that are not believed yet.
    plan
        Who is to wait; None if nobody is.
    claims
        What is in force when the plan is done. It may be new although nobody moves: a job that
        drifted and is in nobody's way keeps the slot that it is in. None if all jobs are gone.
    contention
        What it is about; None if nothing is believed yet.
    reason
        In one line.
    """

    kind: Verdict
    findings: tuple[Finding, ...]
    plan: Plan | None
    claims: Claims | None
    contention: Contention | None
    reason: str


class Monitor:
    """Decides by what is measured; does nothing by itself.

    Parameters
    ----------
    settings
        How it decides.
    memory
        What an earlier monitor remembered, to go on from there.
    seed
        Of the solver.

    Attributes
    ----------
    memory
        What it remembers now. It takes plans to be carried out.
    """

    def __init__(
        self, settings: Settings | None = None, memory: Memory | None = None, seed: int = 0
    ) -> None:
        self.settings = settings or Settings()
        self.memory = memory or Memory()
        self._seed = seed

    def check(
        self,
        claims: Claims,
        observations: Mapping[str, Observation],
        now_ms: float,
        capacities: Mapping[str, float] | None = None,
    ) -> Decision:
        """Compare and decide.

        What others did to a job is taken out of its observation before, see `undisturbed`. A job
        whose changed period fits no others keeps its claim; the reason says so.

        Parameters
        ----------
        claims
            What is in force.
        observations
            By job; one that is not named was not measured.
        now_ms
            By the clock of the claims.
        capacities
            Mbit/s by link, as far as they were measured.

        Raises
        ------
        InputError
            If a job or a link is not one of the claims; or if periods have to divide no
            hyperperiod, and as measured they fit one another so badly that theirs is above the
            limit of the instance.
        """
        capacities = capacities or {}
        settings = self.settings
        observations = undisturbed(claims, observations, capacities, settings.tolerance)
        findings = detect(claims, observations, capacities, settings.tolerance)
        self.memory = self.memory.noting(findings, {*observations, *capacities})
        ripe = [
            finding
            for finding in findings
            if self.memory.is_ripe(finding, persist=settings.persist, large=settings.large)
        ]
        if not ripe:
            measured = {*observations, *capacities}
            told = (
                f"not believed yet: {reasons.told(findings)}"
                if findings
                else reasons.as_claimed(claims, measured)
            )
            return Decision(Verdict.NOTHING, findings, None, claims, None, told)
        believed = _concerned(claims, ripe, findings)
        if _gone(believed) >= claims.offsets.keys():
            self.memory = Memory()
            return Decision(Verdict.NOTHING, findings, None, None, None, "all jobs are gone")
        right = put_right(claims, believed, observations, capacities)
        known = [each for each in believed if each.name not in right.kept]
        moves = self._choose(claims, right.claims, known, now_ms)
        if moves.postponed:
            believed = [
                each
                for each in believed
                if each.kind is Kind.GONE or each.name not in moves.postponed
            ]
            right = put_right(claims, believed, observations, capacities)
        return self._decide(claims, right, findings, ripe, moves, now_ms)

    def _choose(
        self, claims: Claims, right: Claims, believed: Sequence[Finding], now_ms: float
    ) -> _Moves:
        """Return who is to move where, and what is left for later."""
        resting = self.memory.resting(now_ms)
        names = _changed(claims, believed)
        offsets: dict[str, int] = {}
        postponed: set[str] = set()
        most = Fraction(0)
        for part in components(right.reserved):
            suspects = _suspects(part, names)
            if not suspects:
                continue
            choice: Choice = choose(part, suspects, resting, self.settings, self._seed)
            most = max(most, choice.most)
            if choice.postponed:
                postponed |= {job.name for job in part.jobs} | {link.name for link in part.links}
            for index in choice.way.moved:
                offsets[part.jobs[index].name] = choice.way.offsets[index]
        return _Moves(offsets, postponed, most)

    def _decide(
        self,
        claims: Claims,
        put: PutRight,
        findings: tuple[Finding, ...],
        ripe: Sequence[Finding],
        moves: _Moves,
        now_ms: float,
    ) -> Decision:
        right = put.claims
        plan = make_plan(right, moves.offsets) if moves.offsets else None
        after = right if plan is None else plan.claims()
        blocks = [[job.name for job in block.jobs] for block in split(right.reserved).blocks]
        kind = verdict(moves.offsets, blocks)
        self.memory = self.memory.after_moving(
            moves.offsets,
            now_ms,
            pause_ms=self.settings.pause_ms,
            longest_ms=self.settings.longest_pause_ms,
        ).only({*after.offsets, *(link.name for link in after.instance.links)})
        contention = Contention(*(_contention(each) for each in (claims, right, after)))
        if plan is not None:
            why = reasons.waits(plan)
        elif moves.postponed:
            why = "jobs that would have to move were moved not long ago"
        else:
            why = reasons.nobody_moves(contention.measured, moves.most, self.settings.minimum_gain)
        told = (
            reasons.told(ripe),
            *put.kept.values(),
            *reasons.put_right(claims, right),
            reasons.contention(contention.claimed, contention.measured, contention.planned),
            why,
        )
        return Decision(kind, findings, plan, after, contention, "; ".join(told))


@dataclass(frozen=True)
class _Moves:
    """Who is to move.

    Attributes
    ----------
    offsets
        The new ones, by job.
    postponed
        Jobs and links that are left for later.
    most
        What the best plan for jobs that hang together would gain, moves paid.
    """

    offsets: Mapping[str, int]
    postponed: Collection[str]
    most: Fraction


def _concerned(
    claims: Claims, ripe: Sequence[Finding], findings: Sequence[Finding]
) -> list[Finding]:
    """Return all findings about jobs that hang together with those of ripe findings.

    What is measured of a job belongs together with what is measured of those that it meets.
    """
    names: set[str] = {finding.name for finding in ripe}
    for part in components(claims.running):
        members = {job.name for job in part.jobs} | {link.name for link in part.links}
        if not members.isdisjoint(names):
            names |= members
    return [finding for finding in findings if finding.name in names]


def _changed(claims: Claims, findings: Sequence[Finding]) -> set[str]:
    """Return the jobs and links that something was found of, and the links of who is gone."""
    links = (claims.instance.job(name).links for name in _gone(findings))
    return {finding.name for finding in findings}.union(*links)


def _gone(findings: Sequence[Finding]) -> set[str]:
    """Return the jobs that are gone."""
    return {finding.name for finding in findings if finding.kind is Kind.GONE}


def _suspects(part: Instance, names: set[str]) -> set[str]:
    """Return the jobs of a part that are named, or one of whose links is."""
    return {job.name for job in part.jobs if not names.isdisjoint((job.name, *job.links))}


def _contention(claims: Claims) -> Fraction:
    offsets = [claims.offsets[job.name] for job in claims.instance.jobs]
    return Pricing(claims.reserved, Fraction(0)).contention(offsets)
