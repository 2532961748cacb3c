"""Claims: what they reserve, and what is refused."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.slowdown.claims import Claims
from tests.builders import job, network


def test_reserved_bursts_include_cushion() -> None:
    instance = network(
        job("a", 40, (0, 10, 80), current_offset=0), job("b", 40, (35, 5, 80), current_offset=0)
    )
    a, b = Claims(instance, 40, cushions={"a": 3, "b": 2}).reserved.jobs
    assert [(phase.start, phase.length) for phase in a.phases] == [(0, 13)]
    assert [(phase.start, phase.length) for phase in b.phases] == [(0, 2), (35, 5)]


@pytest.mark.parametrize(
    ("offset", "stretch", "cushions", "message"),
    [
        (None, {}, {}, "jobs[0].current_offset: missing"),
        (40, {}, {}, "jobs[0].current_offset: 40: must be below the stretched period of 40"),
        (0, {"z": 1}, {}, "stretch.'z': there is no such job"),
        (0, {}, {"a": -1}, "cushions.'a': must be at least 0, got -1"),
    ],
)
def test_impossible_claims_are_refused(
    offset: int | None, stretch: dict[str, int], cushions: dict[str, int], message: str
) -> None:
    instance = network(job("a", 40, (0, 10, 80), current_offset=offset, max_stretch=4))
    with pytest.raises(InputError) as refused:
        Claims(instance, 40, stretch=stretch, cushions=cushions)
    assert message in str(refused.value)
