"""Bursts go on when their paths change, and policies take the paths that they choose."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario
from metronome_opt.simulation import SimulationResult, simulate
from metronome_opt.simulation.study import find_study
from tests.fabrics import fabric, ring, scene
from tests.simulation.test_moves import BURST, engine_of


def test_a_burst_goes_on_where_its_flows_go_now() -> None:
    engine = engine_of(2)
    engine.run(45)  # of the burst 5 ms are sent
    engine.reroute(0, {"two": 1}, BURST)
    assert engine.carried().tolist() == [500, 0]
    engine.run(50)
    assert engine.carried().tolist() == [500, 500]
    assert engine.run(math.inf) == 0
    assert engine.times(0).tolist() == [60, 60]
    assert engine.carried().tolist() == [500, 3500]


def test_both_are_alone_once_one_of_two_takes_another_link() -> None:
    """From 40 to 60 ms each sends at half its rate, the rest of 1000 at the whole of it."""
    engine = engine_of(1, 1)
    engine.run(60)
    engine.reroute(1, {"two": 1}, BURST)
    engine.run(math.inf)
    assert engine.now == 70
    engine.run(math.inf)
    assert [engine.times(job).tolist() for job in range(2)] == [[70], [70]]
    assert engine.carried().tolist() == [3000, 1000]


@pytest.mark.parametrize("at", [20, 60, 70])  # computing, between iterations, computing again
def test_a_job_that_sends_nothing_takes_other_links_at_once(at: float) -> None:
    engine = engine_of(2)
    engine.run(at)
    engine.reroute(0, {"two": 1}, BURST)
    engine.run(math.inf)
    assert engine.times(0).tolist() == [60, 60]
    sent = 2000 if at >= 60 else 0
    assert engine.carried().tolist() == [sent, 4000 - sent]


def test_a_slower_path_makes_the_rest_of_a_burst_slower() -> None:
    slow = BURST.slowed_to(Fraction(50))
    engine = engine_of(1)
    engine.run(50)  # half is sent
    engine.reroute(0, {"two": 1}, slow)
    engine.run(math.inf)
    assert engine.now == 70


def times(run: SimulationResult, which: str = "mean") -> list[float]:
    """Return iteration times of all jobs, in their order."""
    return [float(each) for each in run.jobs[f"iteration_{which}_ms"]]


def colliding() -> Scenario:
    """Return two jobs of one hash whose bursts take two thirds of a period."""
    for seed in range(100):
        made = scene(
            fabric(routing="ecmp", hash_seed=seed),
            *(ring(name, (at, 2 + at), 200, iterations=20) for at, name in enumerate("ab")),
        )
        if max(times(simulate(made, "nearest"))) > 310:
            return made
    raise AssertionError("no seed of 100 collides")


@pytest.mark.parametrize("policy", ["nearest", "crux", "mltcp", "metronome"])
def test_collisions_cost_what_other_ways_to_find_a_path_avoid(policy: str) -> None:
    made = colliding()
    options = ":slots=no" if policy == "metronome" else ""
    by_hash = times(simulate(made, policy + options))
    for routing in ("spray", "chosen"):
        found = times(simulate(made, f"{policy}{options}:routing={routing}"))
        # Sprayed, both bursts share all links equally, which carry both at once.
        assert found == pytest.approx([300, 300])
    assert max(by_hash) > 330  # 400 ms of sending on one link in each period


def test_stated_paths_stay() -> None:
    both = [[0], [0]]
    jobs = [
        ring(name, (at, 2 + at), 200, iterations=20, paths=both) for at, name in enumerate("ab")
    ]
    run = simulate(scene(fabric(), *jobs), "nearest")
    assert min(times(run)) > 330


def test_flows_take_the_path_of_a_job_that_left() -> None:
    """Three jobs on two spines: one of two takes the spine of the third when that ends.

    The third is worth most, so that the others share a spine.
    """
    jobs = [
        ring(name, (at, 3 + at), 200, iterations=count, priority=weight)
        for at, (name, count, weight) in enumerate([("a", 60, 1), ("b", 10, 100), ("c", 60, 1)])
    ]
    run = simulate(scene(fabric(each=3), *jobs), "nearest")
    (a, b, c), shortest = times(run, "max"), times(run, "min")
    assert b == pytest.approx(300)
    assert min(a, c) > 330
    assert (shortest[0], shortest[2]) == pytest.approx((300, 300))
    assert max(times(run)) < 350  # of 60 iterations those beside the third were slower


def test_unknown_routing_is_refused() -> None:
    with pytest.raises(InputError, match="policy: 'nearest:routing=best': routing: must be"):
        simulate(colliding(), "nearest:routing=best")


def test_hashes_differ_from_seed_to_seed() -> None:
    study = find_study("paths")
    cell = study.cells[0]
    seeds = [study.scenario(cell, seed).cluster.hash_seed for seed in range(3)]
    assert seeds == [0, 1, 2]
    single = find_study("dynamic-24")
    assert single.scenario(single.cells[0], 2).cluster.hash_seed == 0
