"""Generators draw jobs as their parameters say, by the seed alone."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scenario.traffic import Traffic
from metronome_opt.simulation.study import read_study
from tests.simulation.studies import NAMES, STUDIES, gpu_seconds, period, stored, study
from tests.tiers import examples


@pytest.mark.parametrize("name", NAMES)
def test_draw_depends_on_seed_alone(name: str) -> None:
    made = read_study(STUDIES / f"{name}.yaml")
    cell = made.cells[-1]
    assert made.scenario(cell, 4) == stored(name).scenario(cell, 4)
    if not made.is_one_scenario:
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
        [period(made, cell, job) for job in made.scenario(cell, 2).jobs] for cell in made.cells
    )
    models = [job.model for job in made.scenario(made.cells[0], 2).jobs]
    for model, (tuned, idle), (close, its_idle) in zip(models, harmonic, free_choice, strict=True):
        # Batches of GPT2 and GPT3 leave no choice; on one node all of DLRM are shorter than 75 ms.
        if model not in ("GPT2", "GPT3"):
            assert 5 * tuned in (75, 125, 375, 750, 1500) or model == "DLRM"
            assert idle <= 0.05
            assert its_idle <= 0.05
        # One sample of GPT2 takes 438 ms on one node, and two take 876: of 500 or 1000.
        assert idle <= (0.1 if model != "GPT2" else 62 / 438)
        assert 6000 % (5 * close) == 0
    assert statistics.mean(float(idle) for _, idle in free) > 0.05


def test_periods_and_bursts_of_rings_are_as_asked() -> None:
    draw = {"periodic": {"count": 60, "workers": [2, 4], "busy": [0.1, 0.3], "iterations": [5, 9]}}
    made = study(draw=draw, grid={"periods": ["equal", "harmonic", "free"]})
    lengths: list[list[float]] = []
    for cell in made.cells:
        jobs = made.scenario(cell, 3).jobs
        works = [(job.workers, job.iterations or 0, job.traffic) for job in jobs]
        lengths.append([])
        span_s = 0.0
        for workers, iterations, traffic in works:
            assert isinstance(traffic, Traffic)
            (phase,) = traffic.phases
            period_ms, busy_ms = float(traffic.period_ms), float(phase.length_ms)
            lengths[-1].append(period_ms)
            assert 0.1 * period_ms - 1 <= busy_ms <= 0.3 * period_ms + 1
            # Around a ring each of n sends 2 (n - 1) / n of the buffer; a Mbit/s is 125 bytes a ms.
            sent = 2 * (workers - 1) / workers * (phase.bytes or 0)
            assert sent / 125 / made.cluster_of(cell).nic == pytest.approx(busy_ms, rel=1e-5)
            span_s += workers * iterations * period_ms / 1000
        assert 0 <= jobs[0].arrival_s <= jobs[-1].arrival_s <= span_s / (0.8 * 16)
    assert [set(each) for each in lengths[:2]] == [{400}, {200, 400, 800}]
    assert len(set(lengths[2])) > 40
    assert 200 <= min(lengths[2]) <= max(lengths[2]) <= 800


def test_rings_send_for_a_share_and_state_the_jitter_of_the_grid() -> None:
    draw = {"periodic": {"count": 4, "workers": [2, 2], "periods": "equal"}}
    made = study(draw=draw, grid={"busy": [0.2, 0.45], "jitter": [0.0, 0.05]})
    for cell, (sending_ms, jitter) in zip(
        made.cells, [(80, 0.0), (80, 0.05), (180, 0.0), (180, 0.05)], strict=True
    ):
        for job in made.scenario(cell, 0).jobs:
            assert isinstance(job.traffic, Traffic)
            assert [phase.length_ms for phase in job.traffic.phases] == [sending_ms]
            assert job.jitter == jitter
        assert made.conditions_of(cell).jitter == jitter
