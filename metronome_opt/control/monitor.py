"""The monitor: hold what is measured against what was claimed, and say what is to be done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from metronome_opt.control.claims import Claims
from metronome_opt.control.contention import undisturbed
from metronome_opt.control.decide import Memory, Settings, Verdict, choose, verdict
from metronome_opt.control.detect import Finding, Kind, detect, put_right
from metronome_opt.control.observation import Observation
from metronome_opt.control.plan import Plan, make_plan
from metronome_opt.control.reconfigure import Pricing
from metronome_opt.instance import Instance
from metronome_opt.presolve.components import components


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
        capacities, settings = capacities or {}, self.settings
        observations = undisturbed(claims, observations, capacities, settings.tolerance)
        findings = detect(claims, observations, capacities, settings.tolerance)
        measured = {*observations, *capacities}
        self.memory = self.memory.noting(findings, measured)
        ripe = [finding for finding in findings if self.memory.is_ripe(finding, settings)]
        if not ripe:
            reason = _nothing_believed(claims, findings, measured)
            return Decision(Verdict.NOTHING, findings, None, claims, None, reason)
        believed = _concerned(claims, ripe, findings)
        if _gone(believed) >= claims.offsets.keys():
            self.memory = Memory()
            return Decision(Verdict.NOTHING, findings, None, None, None, "all jobs are gone")
        right, kept = put_right(claims, believed, observations, capacities)
        offsets, postponed, most = self._choose(
            claims, right, [each for each in believed if each.name not in kept], now_ms
        )
        if postponed:
            stay = [
                each for each in believed if each.kind is Kind.GONE or each.name not in postponed
            ]
            right, kept = put_right(claims, stay, observations, capacities)
        plan = make_plan(right, offsets) if offsets else None
        after = right if plan is None else plan.claims()
        self.memory = self.memory.after_moving(offsets, now_ms, settings).only(
            {*after.offsets, *(link.name for link in after.instance.links)}
        )
        contention = Contention(*(_contention(each) for each in (claims, right, after)))
        if plan is not None:
            why = _waits(plan)
        elif postponed:
            why = "jobs that would have to move were moved not long ago"
        else:
            why = _nobody_moves(contention.measured, most, settings.minimum_gain)
        reasons = (
            *map(str, ripe),
            *kept.values(),
            *_changes(claims, right),
            _told(contention),
            why,
        )
        kind = verdict(offsets, right.reserved)
        return Decision(kind, findings, plan, after, contention, "; ".join(reasons))

    def _choose(
        self, claims: Claims, right: Claims, believed: Sequence[Finding], now_ms: float
    ) -> tuple[dict[str, int], set[str], Fraction]:
        """Return who is to move where, the jobs and links that are left for later, and the most.

        The most is what the best plan for jobs that hang together would gain, moves paid.
        """
        resting = self.memory.resting(now_ms)
        # Who is gone is told by its links.
        links = (claims.instance.job(name).links for name in _gone(believed))
        names = {finding.name for finding in believed}.union(*links)
        offsets: dict[str, int] = {}
        postponed: set[str] = set()
        most = Fraction(0)
        for part in components(right.reserved):
            suspects = {
                job.name for job in part.jobs if not names.isdisjoint((job.name, *job.links))
            }
            if not suspects:
                continue
            way, wait, gain = choose(part, suspects, resting, self.settings, self._seed)
            most = max(most, gain)
            if wait:
                postponed |= _members(part)
            for index in way.moved:
                offsets[part.jobs[index].name] = way.offsets[index]
        return offsets, postponed, most


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
        if changes:
            yield f"{name}'s claim put right: {', '.join(changes)}"
    carried = {link.name: link.capacity for link in after.instance.links}
    for link in before.instance.links:
        new = carried.get(link.name, link.capacity)
        if new != link.capacity:
            yield f"{link.name}'s capacity put right: {link.capacity:,} -> {new:,} Mbit/s"


def _told(contention: Contention) -> str:
    """Return levels of contention one after the other, each once."""
    levels = groupby((contention.claimed, contention.measured, contention.planned))
    steps = " -> ".join(f"{float(level):,.6g}" for level, _ in levels)
    return f"weighted contention {steps} Mbit/s"


def _waits(plan: Plan) -> str:
    slot_ms = plan.claims_before.instance.slot_ms
    return ", ".join(
        f"{step.job} waits {step.wait * slot_ms:,} ms ({step.wait} slots)" for step in plan.steps
    )


def _nobody_moves(measured: Fraction, most: Fraction, least: Fraction) -> str:
    """Return why it does not pay to move anybody, by the contention and by shares of the traffic.

    The shares are what the best plan would gain, and what it has to.
    """
    if not measured:
        return "nobody has to move"
    if not most:
        return "to move anybody would cost more than it gains"
    gains, has_to = (f"{100 * float(share):.2g} %" for share in (most, least))
    return f"to move anybody would gain {gains}, less than {has_to}"
