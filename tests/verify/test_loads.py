"""Bounds by loads of links are hand-worked values, and never above a schedule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.verify.loads import load_bound
from tests.builders import job, network, schedule
from tests.landscape import landscape, scale_of
from tests.strategies import instances
from tests.tiers import examples

F = Fraction


def bound_of(instance: Instance, objective: str = "contention", **stated: Any) -> Fraction | None:
    return load_bound(instance, schedule(instance.name, {}, objectives={objective: F(0)}, **stated))


def crowded(**fields: Any) -> Instance:
    """Return a and b, which send 90 and 60 on average where 100 are carried."""
    return network(job("a", 4, (0, 3, 120), weight=5), job("b", 6, (0, 6, 60), weight=2, **fields))


@pytest.mark.parametrize(
    ("instance", "stated", "bound"),
    [
        (crowded(), {}, 2 * F(50)),
        (crowded(), {"objective": "latency"}, F(50, 150)),
        (crowded(), {"objective": "wait"}, None),
        (crowded(max_stretch=3), {}, 2 * F(30)),  # b then sends 40
        # Both stretched by half of their periods send 60 and 40.
        (crowded(), {"stretch_limit": F(1, 2)}, F(0)),
        (crowded(), {"cushion_slots": 1}, 2 * F(60) + 5 * F(20)),  # a sends all the time
    ],
)
def test_lightest_jobs_lack_what_is_too_much(
    instance: Instance, stated: dict[str, Any], bound: Fraction | None
) -> None:
    assert bound_of(instance, **stated) == bound


@given(instances(max_jobs=3, max_period=8), st.sampled_from((0, 0, 1)))
@examples(200)
def test_no_offsets_are_below_the_bound(instance: Instance, cushion_slots: int) -> None:
    longer = extend_bursts(instance, cushion_slots)
    least = F(int(landscape(longer).min()), scale_of(longer))
    bound = bound_of(instance, cushion_slots=cushion_slots)
    assert bound is not None
    assert bound <= least
    alike = longer.replace(jobs=tuple(map(_of_weight_1, longer.jobs)))
    sent = sum(F(n * each.volume, each.period) for each in longer.jobs for n in each.links.values())
    late = F(int(landscape(alike).min()), scale_of(alike))
    assert (bound_of(instance, "latency", cushion_slots=cushion_slots) or 0) * sent <= late


def _of_weight_1(job: Job) -> Job:
    return job.model_copy(update={"weight": 1})
