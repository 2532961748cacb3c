"""Laws of growing bursts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.presolve.extend import extend_bursts
from tests.strategies import instances


def pattern(of: Job) -> list[int]:
    rates = [0] * of.period
    for phase in of.phases:
        rates[phase.start : phase.end] = [phase.rate] * phase.length
    return rates


@given(instances(max_phases=3), st.integers(1, 10))
@settings(deadline=None)
def test_slot_has_maximum_rate_of_slots_before(problem: Instance, slots: int) -> None:
    for before, after in zip(problem.jobs, extend_bursts(problem, slots).jobs, strict=True):
        rates = pattern(before)
        reached = [
            max(rates[(slot - back) % before.period] for back in range(slots + 1))
            for slot in range(before.period)
        ]
        assert pattern(after) == reached


@given(instances(max_stretch=2), st.integers(0, 10))
@settings(deadline=None)
def test_extension_changes_bursts_only(problem: Instance, slots: int) -> None:
    longer = extend_bursts(problem, slots)
    assert Instance.from_dict(longer.to_dict()) == longer
    jobs = zip(problem.jobs, longer.jobs, strict=True)
    restored = tuple(after.model_copy(update={"phases": job.phases}) for job, after in jobs)
    assert longer.replace(jobs=restored) == problem


@given(instances(max_phases=3), st.integers(1, 6), st.integers(0, 6))
@settings(deadline=None)
def test_extensions_add_up(problem: Instance, some: int, more: int) -> None:
    assert extend_bursts(extend_bursts(problem, some), more) == extend_bursts(problem, some + more)
