"""Common periods fit the jobs, and common shifts keep contention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.simulation.policies.common_periods import ContentionGroup, common_periods
from metronome_opt.verify import evaluate
from tests.strategies import assigned, crowded
from tests.tiers import examples

DRAWN = assigned(crowded(fixed=False))


def group(instance: Instance, ready: Sequence[float], origin: float) -> ContentionGroup:
    """Return a group of all jobs of an instance, members in the order of its jobs."""
    return ContentionGroup(instance, tuple(range(len(instance.jobs))), tuple(ready), origin)


DURATIONS = st.dictionaries(st.integers(0, 9), st.integers(1, 900), min_size=1, max_size=6)


def in_step(periods: dict[int, int]) -> bool:
    """Whether there is a base of which all are multiples or parts, and twelve of which are a round.

    Parts are an eighth at the least.
    """
    together = math.lcm(*periods.values())
    return any(
        all(
            period % base == 0 or (base % period == 0 and base <= 8 * period)
            for period in periods.values()
        )
        for base in (together // count for count in range(1, 13) if together % count == 0)
    )


@examples(300)
@given(DURATIONS, st.data())
def test_common_periods_fit_jobs_and_each_other(
    durations: dict[int, int], data: st.DataObject
) -> None:
    weights = {job: data.draw(st.sampled_from((1, 2, 4))) for job in durations}
    periods = common_periods(durations, weights)
    assert periods.keys() <= durations.keys()
    for job, period in periods.items():
        assert durations[job] <= period <= durations[job] * 1.1
    assert in_step(periods)


@examples(40)
@given(DRAWN, st.integers(0, 50), st.data())
def test_common_rotation_keeps_contention(
    drawn: tuple[Instance, dict[str, int]], origin: int, data: st.DataObject
) -> None:
    """Jobs that are ready on the grid begin on the grid."""
    instance, offsets = drawn
    slot_ms = instance.slot_ms
    ready = [float(slot_ms * data.draw(st.integers(0, 50))) for _ in instance.jobs]
    made = group(instance, ready, float(origin * slot_ms))
    starts = made.starts(list(offsets.values()))
    begun = {
        job.name: round(start / slot_ms - origin) % job.period
        for job, start in zip(instance.jobs, starts, strict=True)
    }
    turned, planned = evaluate(instance, begun), evaluate(instance, offsets)
    assert turned.contention == planned.contention
    assert turned.objectives["latency"] == planned.objectives["latency"]
    assert turned.elongation == planned.elongation
