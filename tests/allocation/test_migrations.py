"""A job migrates only if that saves more than it costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from metronome_opt.allocation.migrations import choose_migrations
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.pair_losses import PairLosses
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import Resources
from tests.allocation.test_candidates import room
from tests.builders import iteration_of
from tests.simulation.scenes import switch


def traffic(transport: Transport) -> Iteration:
    """Return 60 ms of computing, and a burst of 40 ms at 45 Mbit/s, or longer at less."""
    volume, fastest = Fraction(40 * 45), min(transport.rate, Fraction(45))
    return iteration_of((Fraction(60), Fraction(0)), (volume,), (fastest,))


def occupancy(*nodes: str) -> Occupancy:
    """Return a job on some of three nodes of four GPUs, on a switch of 100 Mbit/s."""
    job = JobRequest("job", len(nodes), Resources(gpus=1), traffic, 100.0, length_ms=100_000.0)
    other = replace(job, name="other", tasks=2)
    cluster = Occupancy(room(switch(3, 4)), [], PairLosses("fair"))
    cluster.add(PlacedJob(other, cluster.resources.placement(["node-02", "node-02"], other)))
    cluster.add(PlacedJob(job, cluster.resources.placement(nodes, job)))
    return cluster


def test_no_job_moves_to_a_farther_place() -> None:
    """One of three tasks on a node with another job would be alone on the third node."""
    nodes = ("node-02", "node-02", "node-01")
    assert choose_migrations(occupancy(*nodes), {"job": 1.0}, {}) == []


def test_a_move_saves_what_iterations_become_shorter() -> None:
    """Three tasks on a node send at 33 Mbit/s each, 54 ms instead of 40; four share a node."""
    nodes = ("node-00", "node-00", "node-00", "node-01")
    (move,) = choose_migrations(occupancy(*nodes), {"job": 1_000.0}, {})
    assert len(set(move.after.nodes)) == 1
    assert 12_000 < move.saves_ms < 16_000
