"""What each policy stands for, on scenarios small enough to know what is best."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.simulate import POLICIES, Run, simulate
from metronome_opt.simulate.policies import find_policy
from tests.simulate.runs import column, job_table
from tests.simulate.scenes import racks, scene, switch, work

SHIFTING = pytest.mark.parametrize("policy", ["cassini", "metronome-greedy", "metronome"])
OTHERS = pytest.mark.parametrize("policy", [name for name in POLICIES if name != "ideal"])
ITERATIONS = 200


def pair(cluster: dict[str, Any], policy: str, **fields: Any) -> Run:
    """Run two equal jobs over the same two nodes."""
    jobs = (work(name, 0, 1, iterations=ITERATIONS, **fields) for name in "ab")
    return simulate(scene(cluster, *jobs), policy)


def slowdowns(run: Run) -> dict[str, float]:
    """Return how many times as long as in a network of their own the jobs' iterations are."""
    means, ideal = column(run, "iteration_mean_ms"), column(run, "ideal_ms")
    return {name: means[name] / ideal[name] for name in means}


# ------------------------------------------------------------------ who can be kept apart is


@SHIFTING
def test_jobs_that_fit_beside_each_other_do_not_notice(policy: str) -> None:
    """Bursts of 20 of 60 ms: who does not shift them has 80."""
    assert max(slowdowns(pair(switch(2, 2), policy)).values()) <= 1.02
    assert min(slowdowns(pair(switch(2, 2), "default")).values()) == pytest.approx(80 / 60)


@pytest.mark.parametrize("policy", ["metronome-greedy", "metronome"])
def test_who_comes_later_finds_a_gap(policy: str) -> None:
    """Three times 10 of 60 ms, and so twice 20 whatever the first two do."""
    jobs = (
        work(name, 0, 1, model="Short", batch=5, iterations=ITERATIONS, arrival_s=arrival)
        for name, arrival in (("a", 0.0), ("b", 0.1234), ("c", 1.0))
    )
    assert max(slowdowns(simulate(scene(switch(2, 3), *jobs), policy)).values()) <= 1.02


@SHIFTING
def test_where_no_rotation_helps_none_does_harm(policy: str) -> None:
    """Twice 40 of 60 ms do not fit beside each other."""
    fields = {"model": "Long", "batch": 2}
    default = pair(switch(2, 2), "default", **fields)
    shifted = pair(switch(2, 2), policy, **fields)
    mean, most = (run.jobs["iteration_mean_ms"].mean() for run in (shifted, default))
    assert mean <= 1.01 * most


@SHIFTING
def test_jobs_that_meet_nobody_begin_at_once_and_are_never_held_back(policy: str) -> None:
    given = scene(switch(4, 2), work("a", 0, 1), work("b", 2, 3, arrival_s=0.0137))
    run = simulate(given, policy)
    assert column(run, "waited_s") == {"a": 0, "b": 0}
    assert column(run, "rephasings") == {"a": 0, "b": 0}
    assert slowdowns(run) == pytest.approx({"a": 1, "b": 1})


@SHIFTING
@pytest.mark.parametrize("arrival", [0.0098, 0.0103, 0.0107])
def test_a_newcomer_in_between_costs_the_others_less_than_an_iteration(
    policy: str, arrival: float
) -> None:
    """a and b meet nobody but c, which comes to the nodes of both; all take 60 ms.

    b is on another phase than a, off the grid of slots: no reason to stop it for a whole iteration.
    """
    given = scene(
        switch(4, 2),
        work("a", 0, 1, iterations=ITERATIONS),
        work("b", 2, 3, iterations=ITERATIONS, arrival_s=arrival),
        work("c", 0, 1, 2, 3, batch=3, iterations=ITERATIONS, arrival_s=1),
    )
    run = simulate(given, policy)
    assert max(slowdowns(run).values()) <= 1.02
    assert max(column(run, "iteration_max_ms").values()) < 90


# ------------------------------------------------------------------ where


@pytest.mark.parametrize("policy", ["exclusive", "cassini", "metronome-greedy", "metronome"])
def test_who_knows_the_network_keeps_a_lonely_job_together(policy: str) -> None:
    """Two tasks on one node need no network."""
    row = job_table(simulate(scene(racks(2, 2, 2), work("a")), policy))["a"]
    assert (row["nodes"], row["racks"]) == (1, 1)


def test_metronome_makes_a_job_wait_that_has_room() -> None:
    """Four bursts of 20 in 60 ms: with d at once, all take 80 ms at best; c soon leaves."""
    jobs = [work(name, 0, 1, iterations=ITERATIONS) for name in "ab"]
    jobs += [work("c", 0, 1, iterations=20), work("d", arrival_s=0.1, iterations=ITERATIONS)]
    assert job_table(simulate(scene(switch(2, 4), *jobs), "metronome"))["d"]["start_s"] > 0.1


# ------------------------------------------------------------------ exclusive


def test_exclusive_lets_jobs_in_while_their_peaks_fit() -> None:
    """Two tasks a node of 100 send at 50, so a fills its links; b waits for it, c does not."""
    given = scene(
        switch(4, 4), work("a", 0, 0, 1, 1), work("b", 1, 2, arrival_s=0.1), work("c", 2, 3)
    )
    rows = job_table(simulate(given, "exclusive"))
    assert rows["c"]["start_s"] == 0
    assert rows["b"]["start_s"] == pytest.approx(max(rows["a"]["end_s"], rows["c"]["end_s"]))
    assert slowdowns(simulate(given, "exclusive")) == pytest.approx({"a": 100 / 70, "b": 1, "c": 1})


# ------------------------------------------------------------------ bad input


@OTHERS
@pytest.mark.parametrize("big", [work("big", workers=5), work("big", 0, 0, 0)])
def test_a_job_larger_than_the_cluster_is_refused_in_a_line(
    policy: str, big: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match="big") as caught:
        simulate(scene(switch(2, 2), work("a", iterations=3), big), policy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_interface_too_slow_to_be_shared_is_refused_in_a_line(policy: str) -> None:
    """Two tasks would get half of 1 Mbit/s each; rates are whole."""
    with pytest.raises(InputError, match="Mbit/s") as caught:
        simulate(scene(switch(2, 2, nic_mbps=1), work("a", 0, 0, 1, 1)), policy)
    assert "\n" not in str(caught.value)


def test_an_unknown_policy_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="best") as caught:
        find_policy("best", 0)
    assert all(name in str(caught.value) for name in POLICIES)
