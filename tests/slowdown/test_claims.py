"""Claims: what is refused."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.slowdown.claims import Claims
from tests.builders import job, network


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
