"""A job across a failed link has no network: nothing finite is stated of it, and moving it pays."""

from __future__ import annotations

import math

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.migrations import decide_migrations
from metronome_opt.kubernetes.state.placement import iterations_ms, place_job
from metronome_opt.kubernetes.state.scenario import scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import exported, instance_of
from metronome_opt.kubernetes.state.waiting import WaitDecision
from metronome_opt.output.state import print_state
from metronome_opt.scenario import build_scenario
from tests.kubernetes.state.small import cluster, gang, running, state_of


def failed() -> ClusterState:
    """Return a on n0 and n1, whose interface failed, b on n1 and n2, and c on n3 and n4."""
    jobs = (("a", "n0 n1"), ("b", "n1 n2"), ("c", "n3 n4"))
    state = state_of(cluster([6]), *(running(name, nodes, gpus=1) for name, nodes in jobs))
    state.set_capacity("n0", 0)
    return state


def test_job_has_no_network(capsys: pytest.CaptureFixture[str]) -> None:
    state = failed()
    assert state.cut_off == {"a": ["n0"]}
    times = iterations_ms(state)
    assert times["a"] == math.inf
    assert times["b"] == times["c"] < 100
    print_state(state)
    assert "a has no network; links that carry nothing: n0" in capsys.readouterr().out
    instance = instance_of(state)
    assert "n0" not in {link.name for link in instance.links}
    assert {job.name: set(job.links) for job in instance.jobs}["a"] == {"n1"}
    assert set(exported(state)[1].offsets) == {"a", "b", "c"}
    assert scenario_of(state).cluster.capacities["n0"] == 0
    with pytest.raises(InputError, match="n0 carries nothing, so that a has no network"):
        build_scenario(scenario_of(state))


def test_moving_it_pays_however_long_it_runs() -> None:
    (move,) = decide_migrations(failed(), 1e6, 0.0)
    assert move.job == "a"
    assert "n0" not in move.after.nodes
    assert move.gain == "has no network before"


def test_waiting_job_is_told_of_it() -> None:
    state = state_of(cluster([2], gpus=1))
    state.set_capacity("n0", 0)
    decision = place_job(state, gang(2))
    assert isinstance(decision, WaitDecision)
    assert decision.reason.endswith("together; links that carry nothing: n0")
