"""Generators of studies: seeds, loads, workers, mixes."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.simulate.study import read_study
from tests.simulate.studies import (
    NAMES,
    STUDIES,
    gpu_seconds,
    rounded,
    stored,
    study,
)
from tests.tiers import examples


@pytest.mark.parametrize("name", NAMES)
def test_draw_depends_on_seed_alone(name: str) -> None:
    made = read_study(STUDIES / f"{name}.yaml")
    cell = made.cells[-1]
    assert made.scenario(cell, 4) == stored(name).scenario(cell, 4)
    assert made.scenario(cell, 4).jobs != made.scenario(cell, 5).jobs


@examples(20, deadline=None)
@given(seed=st.integers(0, 2**32), load=st.floats(0.1, 2), count=st.integers(2, 60))
def test_arrivals_span_time_of_load(seed: int, load: float, count: int) -> None:
    made = study(draw={"dynamic": {"count": count}}, grid={"load": [load, 2 * load]})
    thin, dense = (made.scenario(cell, seed).jobs for cell in made.cells)
    assert len(thin) == count
    span = gpu_seconds(thin, made.cluster_of(made.cells[0])) / 16 / load
    assert 0 <= thin[0].arrival_s <= thin[-1].arrival_s <= span
    for early, late in zip(dense, thin, strict=True):  # the same jobs in half the time
        assert early.arrival_s == pytest.approx(late.arrival_s / 2)
        assert early.model_copy(update={"arrival_s": late.arrival_s}) == late


def test_workers_suit_models() -> None:
    made = study(draw={"dynamic": {"count": 500}})
    jobs = made.scenario(made.cells[0], 1).jobs
    seen: dict[str, Counter[int]] = {}
    for job in jobs:
        seen.setdefault(job.model or "", Counter())[job.workers] += 1
        assert 200 <= (job.iterations or 0) <= 1000
        assert job.nodes is None
    assert len(seen) == 13
    assert set(seen.pop("GPT3")) == {4, 8}
    assert set(seen.pop("GPT2")) == {2}
    assert all(set(counts) <= set(range(2, 9)) for counts in seen.values())
    assert {job.priority for job in jobs} == {1, 2, 4}


def test_mixes_bound_rounding_of_periods() -> None:
    made = study(draw={"dynamic": {"count": 120}}, grid={"mix": ["harmonic", "any", "free"]})
    harmonic, free_choice, free = (
        [rounded(made, cell, job) for job in made.scenario(cell, 2).jobs] for cell in made.cells
    )
    models = [job.model for job in made.scenario(made.cells[0], 2).jobs]
    for model, tuned, close in zip(models, harmonic, free_choice, strict=True):
        # Batches of GPT2 and GPT3 leave no choice; on one node all of DLRM are shorter than 75 ms.
        if model not in ("GPT2", "GPT3"):
            assert 5 * tuned.period in (75, 125, 375, 750, 1500) or model == "DLRM"
            assert tuned.idle_error <= 0.05
            assert close.idle_error <= 0.05
        # One sample of GPT2 takes 438 ms on one node, and two take 876: of 500 or 1000.
        assert tuned.idle_error <= (0.1 if model != "GPT2" else 62 / 438)
        assert 6000 % (5 * close.period) == 0
    assert statistics.mean(float(each.idle_error) for each in free) > 0.05
