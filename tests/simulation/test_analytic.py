"""Iterations end when a simulation in exact arithmetic says, and as recorded."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stored import SUITES
from metronome_opt.problem.instance import Instance, read_instance
from metronome_opt.simulation import Conditions
from tests.builders import job
from tests.simulation.exact import exact_ends, system
from tests.simulation.runs import free_run, links
from tests.strategies import assigned, crowded
from tests.tiers import examples

SHARINGS = st.sampled_from(("fair", "strict", "weighted"))
DRAWN = assigned(crowded(fixed=False))


@examples(300)
@given(DRAWN, SHARINGS, st.integers(1, 4))
def test_iterations_match_exact_simulation(
    drawn: tuple[Instance, dict[str, int]], sharing: str, iterations: int
) -> None:
    instance, offsets = drawn
    run = free_run(*drawn, iterations, sharing)
    for name, ends in exact_ends(system(*drawn, iterations, sharing)).items():
        begin = Fraction(offsets[name] * instance.slot_ms)
        times = [float(end - start) for start, end in itertools.pairwise((begin, *ends))]
        assert list(run.times[name]) == pytest.approx(times, rel=1e-9)
        assert run.ends[name] == pytest.approx(float(ends[-1]), rel=1e-9)


@pytest.mark.parametrize("sharing", ["fair", "strict", "weighted"])
@pytest.mark.parametrize(
    "name", ["single-5-test-0", "weights-8x5-test-0", "paper-test-0", "dense-30-test-0"]
)
def test_unshifted_suites_match_exact_simulation(name: str, sharing: str) -> None:
    """There is contention on most links."""
    instance = read_instance(SUITES / name.split("-")[0] / f"{name}.json")
    exact = exact_ends(system(instance, instance.unshifted, 3, sharing))
    expected = {job: float(ends[-1]) for job, ends in exact.items()}
    assert free_run(instance, instance.unshifted, 3, sharing).ends == pytest.approx(
        expected, rel=1e-9
    )


CROWD = links(
    job("a", 10, (6, 4, 100)),
    job("b", 9, (3, 2, 80), (6, 3, 100), weight=2, links={"link": 1, "other": 1}),
    job("c", 12, (7, 5, 60), weight=0, links={"other": 2}),
    other=100,
)
# Of 40 iterations of each job together, in ms.
RECORDED = {
    "fair": (4745.456702783491, 5482.277705839208, 5996.686915792866),
    "strict": (4972.408464299155, 3603.1248429957686, 6214.131515334631),
    "weighted": (4888.325000258339, 3961.4169021491493, 6403.375096918063),
    "tcp": (4744.74042771179, 5496.256642749638, 5952.954308996818),
}


@pytest.mark.parametrize("sharing", list(RECORDED))
def test_runs_are_as_recorded(sharing: str) -> None:
    run = free_run(CROWD, {"a": 0, "b": 1, "c": 2}, 40, sharing, Conditions(jitter=0.05), seed=7)
    sums = [float(times.sum()) for times in run.times.values()]
    assert sums == pytest.approx(RECORDED[sharing], rel=1e-12)
