"""Crux gives jobs of higher GPU intensity higher classes, as published."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metronome_opt.scenario.iteration import Iteration
from metronome_opt.simulation import simulate
from metronome_opt.simulation.policies.transport import _divide_levels, first_gain
from tests.builders import iteration_of
from tests.simulation.runs import column, job_table
from tests.simulation.scenes import scene, switch, work
from tests.tiers import examples

# Two workers on two nodes; a sample takes 10 ms to compute, Long bursts for 40 ms. By intensity
# 2 * 80 / 40 = 4, 2 and 1.
KEEN: dict[str, Any] = {"model": "Long", "batch": 8}
MIDDLE, IDLE = KEEN | {"batch": 4}, KEEN | {"batch": 2}


def pair(policy: str, *jobs: dict[str, Any]) -> dict[str, float]:
    """Return the mean iteration of jobs on the same two nodes, in ms."""
    jobs_there = [work(name, 0, 1, **fields) for name, fields in zip("abc", jobs, strict=False)]
    return column(simulate(scene(switch(2, 3), *jobs_there), policy), "iteration_mean_ms")


@pytest.mark.parametrize("order", [(KEEN, IDLE), (IDLE, KEEN)])
def test_the_job_of_higher_intensity_runs_as_alone(order: tuple[dict[str, Any], ...]) -> None:
    keen, idle = "ab" if order[0] is KEEN else "ba"
    means = pair("crux", *order)
    assert means[keen] == pytest.approx(120)
    assert means[idle] > 60
    assert pair("nearest", *order)[keen] > 121


def test_gpus_count_and_not_only_times() -> None:
    """Four workers burst for 60 ms: 4 * 80 / 60 = 5.3, more than 2 * 80 / 40 = 4 of two."""
    scenario = scene(
        switch(4, 2), work("a", 0, 1, **KEEN), work("b", 0, 1, 2, 3, **KEEN, iterations=40)
    )
    assert column(simulate(scenario, "crux"), "iteration_mean_ms")["b"] == pytest.approx(140)


def test_the_next_job_is_first_when_the_first_one_leaves() -> None:
    """a bursts for the last 40 of 120 ms, until 1200; c is below both.

    b ends at 80 and 160; it is ready at 200, goes after a, and ends at 280. So every 120 ms until
    1240, its eleventh iteration; then the other 39 take 80 ms each.
    """
    jobs = ({**KEEN, "iterations": 10}, MIDDLE, {**IDLE, "iterations": 400})
    jobs_there = [work(name, 0, 1, **fields) for name, fields in zip("abc", jobs, strict=True)]
    rows = job_table(simulate(scene(switch(2, 3), *jobs_there), "crux"))
    assert rows["a"]["end_s"] == pytest.approx(1.2)
    assert rows["b"]["end_s"] == pytest.approx(1.24 + 39 * 0.08)


def test_one_level_is_no_order() -> None:
    assert pair("crux:levels=1", KEEN, IDLE) == pair("nearest", KEEN, IDLE)


def pattern(compute: int, sending: int) -> Iteration:
    """Return an iteration that computes, then sends at all that a link of 1 Mbit/s carries."""
    return iteration_of((Fraction(compute), Fraction(0)), (Fraction(sending),), (Fraction(1),))


def test_gain_of_the_published_example() -> None:
    """Both have intensity 5; each computes as long as it sends, 2 s and 1 s.

    If the first one goes first, it computes for 2 s of 4, and the second one for 1 s of 4: 37.5 %.
    If the second one does, that is 1 s of 2, and for the first 2 s of 6: 41.7 %. So the second
    gains 1/4 of the link and the first one 1/6.
    """
    assert first_gain(pattern(1000, 1000), pattern(2000, 2000)) == 1.5
    assert first_gain(pattern(2000, 2000), pattern(2000, 2000)) == 1.0


def test_job_with_more_to_gain_is_first() -> None:
    """The published example, a second of it in 20 ms: of equal intensities, the shorter job."""
    short = {"model": "Middling", "batch": 2, "iterations": 200}
    assert pair("crux", KEEN | {"batch": 4}, short) == pytest.approx({"a": 120, "b": 40}, rel=0.01)


def all_meet(intensities: Sequence[float]) -> NDArray[np.float64]:
    """Return what is lost if two jobs share a level: the intensity of the upper one."""
    column = np.array(intensities, dtype=np.float64)[:, None]
    return np.triu(np.broadcast_to(column, (len(intensities),) * 2), 1)


def test_least_intensities_share_levels() -> None:
    """4 with 3 and 2 with 1 loses 4 + 2; 3, 2 and 1 together would lose 3 + 3 + 2."""
    levels = _divide_levels(all_meet(range(10, 0, -1)), 8, Random(0))
    assert levels == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7]


@given(st.integers(1, 6), st.integers(1, 4), st.randoms(use_true_random=False))
@examples(40)
def test_levels_follow_priorities(jobs: int, levels: int, random: Random) -> None:
    """No division that does so loses less, if there is a topological order only."""
    intensities = [random.randint(1, 9) for _ in range(jobs)]
    losses = all_meet(intensities)
    chain = _divide_levels(losses, levels, random)

    def lost(division: Sequence[int]) -> float:
        return sum(
            float(losses[i, j])
            for i, j in itertools.combinations(range(jobs), 2)
            if division[i] == division[j]
        )

    divisions = itertools.combinations_with_replacement(range(levels), jobs)
    assert lost(chain) == min(map(lost, divisions))
    losses[np.triu_indices(jobs, 1)] *= [
        random.random() < 0.5 for _ in range(jobs * (jobs - 1) // 2)
    ]
    free = _divide_levels(losses, levels, random)
    assert all(free[i] <= free[j] < levels for i, j in zip(*losses.nonzero(), strict=True))
    assert lost(free) <= lost(chain)
