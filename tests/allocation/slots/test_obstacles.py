"""Sentences on why jobs are slower than alone name links, jobs and shares of their time."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.allocation.slots.obstacles import explain_obstacles
from metronome_opt.problem.instance import Job
from tests import builders
from tests.builders import job, network


def explain(*jobs: Job, slower: int = 2, **changes: object) -> list[str]:
    """Return what is said of ungated jobs on one link of 100, all `slower` times as slow."""
    instance = network(*jobs)
    schedule = builders.schedule(instance.name, dict(instance.unshifted)).model_copy(
        update={"gated": dict.fromkeys(instance.unshifted, False), **changes}
    )
    times = {job.name: Fraction(slower * job.period * instance.slot_ms) for job in jobs}
    return explain_obstacles(instance, schedule, times)


def test_link_that_is_too_narrow() -> None:
    said = explain(job("a", 10, (0, 6, 100)), job("b", 10, (0, 5, 100)))
    assert said[0] == "a and b send more than link carries: 60% + 50%"
    assert said[1].startswith("to try: ")


def test_bursts_that_cannot_alternate() -> None:
    said = explain(job("a", 100, (0, 54, 60)), job("b", 100, (0, 61, 60)))
    assert said[0] == "bursts of b and a do not fit on link: 61% + 54% of time"


def test_periods_whose_bursts_meet() -> None:
    # Bursts of 3 and 3 slots, which come to one another by steps of gcd(10, 15) = 5.
    said = explain(job("a", 10, (0, 3, 60)), job("b", 15, (0, 3, 60)))
    assert (
        said[0] == "bursts of a and b meet on link at any offsets: their periods are 50 and 75 ms"
    )


def test_slots_that_would_fit() -> None:
    jobs = job("a", 10, (0, 3, 60)), job("b", 10, (0, 3, 60))
    assert explain(*jobs) == []  # not simulated
    said = explain(*jobs, expected_ms={"a": Fraction(100), "b": Fraction(100)})
    assert said[0] == "on link no windows of a and b made iterations shorter"


def test_nothing_is_said_of_jobs_that_are_as_fast_as_alone() -> None:
    assert explain(job("a", 10, (0, 6, 100)), job("b", 10, (0, 5, 100)), slower=1) == []


def test_job_that_is_slower_on_its_nodes() -> None:
    slow = job("a", 10, (0, 2, 60)).model_copy(update={"best_ms": Fraction(20)})
    assert explain(slow)[0] == (
        "a takes 50 ms on its nodes even without other jobs, 20 on its best ones"
    )
