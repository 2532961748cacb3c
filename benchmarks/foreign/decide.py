"""Do the jobs of instances that others have made fit? `python -m benchmarks.foreign [ARCHIVE]`."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.foreign.pscp import Case, make_cases
from metronome_opt.allocation.slots.certificates import prove
from metronome_opt.allocation.slots.feasibility_problem import FeasibilityResult, Reason
from metronome_opt.allocation.slots.job_selection import check_feasibility
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.verify import evaluate
from metronome_opt.verify.refutations import refutation_violations

_LIMIT_S, _LONG_LIMIT_S = 10.0, 60.0  # of a case study
_FEW = """periods = [10,20,20];
assignmentToResources = [1,1,2];
processingTimes = [4,5,6];
"""


@dataclass(frozen=True)
class Outcome:
    """What was found out about one resource.

    Attributes
    ----------
    outcome
        ``fit``, the reason of a refutation, or ``open``.
    checked
        Whether the judge confirms it; None for a refutation whose proof is too long, or none.
    seconds, cpu_s
        Of the decision alone, by the clock and of the processor.
    """

    group: str
    instance: str
    jobs: int
    load: float
    limit_s: float
    outcome: str
    checked: bool | None
    seconds: float
    cpu_s: float


def decide(cases: Iterable[Case], earlier: Iterable[Outcome] = ()) -> Iterator[Outcome]:
    """Decide each instance, those with equal jobs once; yield what was not found out earlier."""
    held = {(each.group, each.instance): each for each in earlier}
    known: dict[tuple[tuple[int, int], ...], Outcome] = {}
    check_feasibility(next(make_cases("a.dat", _FEW)).instance, threads=1)  # loads and compiles
    for group, instance in cases:
        jobs = tuple(sorted((job.period, job.volume) for job in instance.jobs))
        if (group, instance.name) in held:
            known.setdefault(jobs, held[group, instance.name])
            continue
        if jobs in known:
            yield replace(known[jobs], group=group, instance=instance.name)
            continue
        limit = _LONG_LIMIT_S if group.startswith("case") else _LIMIT_S
        began, computed = time.perf_counter(), time.process_time()
        fit = check_feasibility(instance, time_limit=limit, threads=1)
        seconds, cpu = time.perf_counter() - began, time.process_time() - computed
        reason = fit.refutations[0].reason.name.lower() if fit.refutations else "open"
        known[jobs] = Outcome(
            group=group,
            instance=instance.name,
            jobs=len(jobs),
            load=sum(slots / period for period, slots in jobs),
            limit_s=limit,
            outcome=reason if fit.offsets is None else "fit",
            checked=_check(instance, fit),
            seconds=seconds,
            cpu_s=cpu,
        )
        yield known[jobs]


def _check(instance: Instance, fit: FeasibilityResult) -> bool | None:
    """Let the judge say whether an answer is right; pairs are tried at all their offsets too."""
    if fit.offsets is not None:
        return evaluate(instance, fit.offsets).contention == 0
    for each in fit.refutations:
        if each.reason is Reason.PAIR and pair_fits(*map(instance.job, each.periods)):
            return False
    proofs, _ = prove(instance, fit, drop=False, cushion_slots=0)
    if not any(each.is_proved for each in proofs):
        return None
    schedule = Schedule(
        instance=instance.name,
        offsets={},
        stretch={},
        status=Status.INFEASIBLE,
        objectives={},
        lower_bound=None,
        solver="auto",
        seed=0,
        runtime_s=0.0,
        refutations=proofs,
    )
    return not list(refutation_violations(instance, schedule))


def pair_fits(one: Job, other: Job) -> bool:
    """Return whether two jobs of one burst each, on one link, fit at some offsets: try all."""
    shared = math.gcd(one.period, other.period)
    mine, theirs = one.phases[0].length, other.phases[0].length
    return any(mine <= apart <= shared - theirs for apart in range(shared))


def table(outcomes: Iterable[Outcome]) -> Mapping[str, dict[str, float]]:
    """Return the figures of each group."""
    groups = defaultdict[str, list[Outcome]](list)
    for each in outcomes:
        groups[each.group].append(each)
    return {
        group: {
            "resources": len(mine),
            "fit": sum(each.outcome == "fit" for each in mine),
            "refuted": sum(each.outcome not in ("fit", "open") for each in mine),
            "open": sum(each.outcome == "open" for each in mine),
            "refuted, proof too long": sum(
                each.outcome not in ("fit", "open") and each.checked is None for each in mine
            ),
            "median s": statistics.median(each.seconds for each in mine),
            "longest s": max(each.seconds for each in mine),
            "longest CPU s": max(each.cpu_s for each in mine),
            "over the limit": max(each.seconds / each.limit_s - 1 for each in mine),
            "wrong": sum(each.checked is False for each in mine),
        }
        for group, mine in sorted(groups.items())
    }
