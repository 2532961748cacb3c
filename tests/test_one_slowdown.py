"""One result has one slowdown: in its table, its notes, its file, `verify` and the simulation."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from metronome_opt import allocate
from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.engine.conditions import Conditions
from metronome_opt.output.tables import gain_text
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.scenario.verification import verify_placed
from metronome_opt.simulation.run import simulate_schedule

DRAWN, QUICK = 200, 20  # scenarios, and those of them that are solved each time
STARTS, ITERATIONS = 5, 60  # simulations of each, and iterations of the job whose are longest
_DIGITS = 5e-5  # what a table rounds off


def drawn(seed: int) -> Scenario:
    """Return a small scenario: some jobs by model, some with stated traffic, a few too many."""
    draw = random.Random(seed)
    nodes, gpus = draw.choice((2, 4, 6)), draw.choice((2, 4, 8))
    cluster: dict[str, Any] = {
        "topology": "single-switch",
        "nodes": nodes,
        "gpus": gpus,
        "nic_gbps": draw.choice((25, 100)),
        "gpu": {"name": draw.choice(("A100", "PCIe")), "sustained_tflops": 23},
    }
    if draw.random() < 0.6:
        cluster |= {"topology": "leaf-spine", "racks": 2, "oversubscription": draw.choice((1, 2))}
    burst = {"start_ms": 60, "length_ms": 60, "rate_gbps": draw.choice((5, 20))}
    jobs = []
    for index in range(draw.randint(1, 4)):
        traffic: dict[str, Any] = {"traffic": "stated"}
        if draw.random() < 0.6:
            model, batch = draw.choice((("BERT", 4), ("VGG16", 16), ("DLRM", 8192), ("GPT2", 1)))
            traffic = {"model": model, "batch": batch}
        workers = draw.randint(2, nodes * gpus // 2)
        jobs.append({"name": f"j{index}", **traffic, "workers": workers})
        jobs[-1]["priority"] = draw.randint(1, 4)
    return Scenario.from_dict(
        {
            "format": "metronome-scenario/1",
            "name": f"drawn-{seed}",
            "slot_ms": 5,
            "cluster": cluster,
            "patterns": {"stated": {"period_ms": 150, "phases": [burst]}},
            "jobs": jobs,
        }
    )


SEEDS = [pytest.param(i, marks=[pytest.mark.slow] * (i >= QUICK)) for i in range(DRAWN)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_numbers_called_slowdown_differ(seed: int) -> None:
    scenario = drawn(seed)
    result = allocate(scenario, time_limit=20, seed=0, threads=1)
    schedule = Schedule.from_dict(result.schedule.to_dict())
    problem, faults = verify_placed(scenario, schedule)
    assert faults == ()
    assert problem is not None
    # The file, from the best placements of an empty cluster and the stated times.
    best = {}
    for traffic in read_traffic(scenario):
        rounded = [traffic.best_ms(place, 5, None) for place in traffic.transports]
        best[traffic.job.name] = min(rounded)
    weights = {job.name: job.weight for job in problem.instance.jobs}
    expected = schedule.expected_ms or {}
    mean = sum(
        (weights[name] * expected[name] / best[name] for name in expected), Fraction(0)
    ) / sum(weights.values())
    stated = schedule.objectives["slowdown"]
    assert stated == mean == result.value
    assert stated is not None
    assert schedule.lower_bound == 1 <= stated
    # The line below the table, the summary.
    times = IterationTimes.of(result)
    assert dict(times.after) == dict(expected)
    line = gain_text(result.instance, schedule, times)
    (told,) = re.findall(r"mean slowdown ([0-9.]+)[,;]", line)
    assert float(told) == pytest.approx(float(stated), abs=_DIGITS)
    (summed,) = re.findall(r"slowdown ([0-9.]+),", result.summary())
    assert float(summed) == pytest.approx(float(stated), rel=_DIGITS)
    # A simulation, whose times differ by chance alone and have the same reference.
    if schedule.gated and not any(schedule.gated.values()):
        assert simulated(result.instance, expected, best, seed) == pytest.approx(
            float(stated), rel=0.05
        )


def simulated(
    instance: Instance,
    expected: Mapping[str, Fraction],
    best: Mapping[str, Fraction],
    seed: int,
) -> float:
    """Return the mean slowdown of simulations in which no job is gated, from random offsets."""
    draw, means = random.Random(seed), []
    # All jobs run as long as each other: one that ends leaves the links to those that are left.
    horizon = Conditions(horizon_s=ITERATIONS * float(max(best.values())) / 1000)
    for _ in range(STARTS):
        offsets = {job.name: draw.randrange(job.period) for job in instance.jobs}
        run = simulate_schedule(
            instance, offsets, iterations=10**6, conditions=horizon, enforce=False, seed=seed
        )
        rows = run.jobs.set_index("job")
        for name in expected:
            assert rows["ideal_ms"][name] == float(best[name])
        total = sum(
            job.weight * rows["iteration_mean_ms"][job.name] / rows["ideal_ms"][job.name]
            for job in instance.jobs
        )
        means.append(total / sum(job.weight for job in instance.jobs))
    return float(sum(means) / STARTS)
