"""Iterations end when a simulation in exact arithmetic says."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stored import SUITES
from metronome_opt.problem.instance import Instance, read_instance
from tests.simulation.exact import exact_ends, system
from tests.simulation.runs import free_run
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
