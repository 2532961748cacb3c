"""Cases as the simulator plays them come to what was worked out by hand; bursts have the links."""

from __future__ import annotations

import pytest

from benchmarks.testbed.simulated import Played, play_case
from tests.benchmarks.testbed.bed import bed_case, bed_job


def times(played: dict[str, Played]) -> dict[str, list[float]]:
    """Return iteration times, to a millionth of a millisecond."""
    return {
        name: [round(float(time), 6) for time in each.times_ms] for name, each in played.items()
    }


# ------------------------------------------------------------------ gated


@pytest.mark.parametrize(
    ("offset", "begin", "first"),
    [
        (30, 0, 130.0),
        (97, 0, 197.0),
        # The window was 2 ms or 1 ms ago: no later than the cushion.
        (98, 0, 100.0),
        (99, 0, 100.0),
        (40, 130, 110.0),
        (30, 130, 100.0),
        (0, 130, 170.0),
    ],
)
def test_arriving_job_waits_for_its_next_slot(offset: int, begin: int, first: float) -> None:
    case = bed_case(bed_job(100, (0, 50), begin=begin))
    found = times(play_case(case, "gated", {"a": offset}, "fair", 0))["a"]
    assert found[:4] == [first, 100.0, 100.0, 100.0]
