"""Conflicts of pairs and loads of jobs agree with slots that are counted."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from metronome_opt.allocation.slots.feasibility import PairConflicts
from metronome_opt.allocation.slots.feasibility_problem import FeasibilityProblem, at_periods, load
from metronome_opt.problem.instance import Job
from tests.allocation.slots.feasibility_cases import fits, tiny_instance
from tests.builders import job, network


@pytest.mark.parametrize("seed", range(150))
def test_pairs_fit_as_trying_all_offsets_says(seed: int) -> None:
    draw = Random(seed)
    cushion = draw.randint(0, 2)
    instance = tiny_instance(draw)
    free = [job.model_copy(update={"fixed_offset": None}) for job in instance.jobs[:2]]
    instance = instance.replace(jobs=tuple(free))
    pairs = PairConflicts(FeasibilityProblem(instance, cushion))
    periods = {job.name: job.period + draw.randint(0, 3) for job in instance.jobs}
    if not pairs.impossible:
        assert pairs.fit(0, 1, *periods.values()) == fits(instance, periods, cushion)


@pytest.mark.parametrize(
    ("alone", "period", "cushion", "carried"),
    [
        (job("a", 10, (0, 4, 60)), 10, 0, Fraction(240, 10)),
        (job("a", 10, (0, 4, 60)), 12, 2, Fraction(360, 12)),
        (job("a", 10, (0, 4, 60)), 10, 9, Fraction(600, 10)),  # the whole period
        # The first burst grows into the second, and the second around into the first.
        (job("a", 10, (6, 2, 10), (1, 4, 60)), 10, 4, Fraction(5 * 60 + 5 * 10, 10)),
    ],
)
def test_what_a_job_carries(alone: Job, period: int, cushion: int, carried: Fraction) -> None:
    assert load(alone, period, cushion) == carried
    longer = at_periods(network(alone), {"a": period}, cushion).jobs[0]
    assert Fraction(longer.volume, period) >= carried
