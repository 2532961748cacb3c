"""Claims: when jobs are due, what they reserve, what is refused."""

from __future__ import annotations

import pytest

from metronome_opt.control import Claims
from metronome_opt.errors import InputError
from tests.builders import job, network


def test_a_job_is_due_at_its_offset_and_every_stretched_period_after() -> None:
    instance = network(job("a", 40, (0, 10, 80), current_offset=3, max_stretch=2))
    claims = Claims(instance, 1000.0, stretch={"a": 2})  # 15 ms after 1000, every 210 ms
    assert claims.next_due_ms("a", 0.0) == 1015 - 4 * 210
    assert claims.next_due_ms("a", 1015.0) == 1015
    assert claims.next_due_ms("a", 1015.5) == 1225


def test_what_is_reserved_is_every_burst_with_the_cushion_of_its_job() -> None:
    instance = network(
        job("a", 40, (0, 10, 80), current_offset=0), job("b", 40, (35, 5, 80), current_offset=0)
    )
    a, b = Claims(instance, cushions={"a": 3, "b": 2}).reserved.jobs
    assert [(phase.start, phase.length) for phase in a.phases] == [(0, 13)]
    assert [(phase.start, phase.length) for phase in b.phases] == [(0, 2), (35, 5)]


@pytest.mark.parametrize(
    ("offset", "stretch", "cushions", "told"),
    [
        (None, {}, {}, "jobs[0].current_offset: missing"),
        (40, {}, {}, "jobs[0].current_offset: 40: must be below the stretched period of 40"),
        (0, {"z": 1}, {}, "stretch.'z': there is no such job"),
        (0, {}, {"a": -1}, "cushions.'a': must be at least 0, got -1"),
    ],
)
def test_claims_that_cannot_be_are_refused(
    offset: int | None, stretch: dict[str, int], cushions: dict[str, int], told: str
) -> None:
    instance = network(job("a", 40, (0, 10, 80), current_offset=offset, max_stretch=4))
    with pytest.raises(InputError) as refused:
        Claims(instance, stretch=stretch, cushions=cushions)
    assert told in str(refused.value)
