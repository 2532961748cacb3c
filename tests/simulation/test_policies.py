"""Policies find the best outcome of scenarios where it is known."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario
from metronome_opt.simulation import Conditions, SimulationResult, simulate
from tests.simulation.runs import column, job_table
from tests.simulation.scenes import racks, scene, switch, work

SHIFTING = pytest.mark.parametrize("policy", ["cassini", "metronome"])
ITERATIONS = 200


def pair(cluster: dict[str, Any], policy: str, **fields: Any) -> SimulationResult:
    """Run two equal jobs over the same two nodes."""
    jobs = (work(name, 0, 1, iterations=ITERATIONS, **fields) for name in "ab")
    return simulate(scene(cluster, *jobs), policy)


def slowdowns(run: SimulationResult) -> dict[str, float]:
    """Return how many times as long as at best the jobs' iterations are."""
    means, ideal = column(run, "iteration_mean_ms"), column(run, "ideal_ms")
    return {name: means[name] / ideal[name] for name in means}


@SHIFTING
def test_compatible_jobs_are_not_slowed_down(policy: str) -> None:
    """Bursts of 20 of 60 ms; 80 ms if they are not shifted."""
    assert max(slowdowns(pair(switch(2, 2), policy)).values()) <= 1.02
    assert min(slowdowns(pair(switch(2, 2), "default")).values()) == pytest.approx(80 / 60)


def test_later_job_is_shifted_into_a_gap() -> None:
    """Three times 10 of 60 ms, and so twice 20 whatever the first two do."""
    jobs = (
        work(name, 0, 1, model="Short", batch=5, iterations=ITERATIONS, arrival_s=arrival)
        for name, arrival in (("a", 0.0), ("b", 0.1234), ("c", 1.0))
    )
    assert max(slowdowns(simulate(scene(switch(2, 3), *jobs), "metronome")).values()) <= 1.02


@SHIFTING
def test_incompatible_jobs_are_not_slowed_down_further(policy: str) -> None:
    """Twice 40 of 60 ms do not fit beside each other."""
    fields = {"model": "Long", "batch": 2}
    default = pair(switch(2, 2), "default", **fields)
    shifted = pair(switch(2, 2), policy, **fields)
    mean, maximum = (run.jobs["iteration_mean_ms"].mean() for run in (shifted, default))
    assert mean <= 1.01 * maximum


@pytest.mark.parametrize("jitter", [0.01, 0.05])
def test_jitter_does_not_make_shifts_harmful(jitter: float) -> None:
    """Bursts of 20 of 60 ms; all wait for one that is late, which costs less than is tolerated."""
    jobs = [work(name, 0, 1, iterations=ITERATIONS) for name in "ab"]
    shifted, free = (
        slowdowns(
            simulate(scene(switch(2, 2), *jobs), policy, conditions=Conditions(jitter=jitter))
        )
        for policy in ("cassini", "default")
    )
    assert max(shifted.values()) <= 1.05
    assert max(shifted.values()) < min(free.values())


def test_incompatible_jobs_are_not_shifted() -> None:
    """Twice 40 of 60 ms: whatever the shifts, a third of the time is unserved."""
    jobs = [work(name, 0, 1, model="Long", batch=2) for name in "ab"]
    given, jitter = scene(switch(2, 2), *jobs), Conditions(jitter=0.05)
    runs = [simulate(given, policy, conditions=jitter).jobs for policy in ("cassini", "default")]
    assert runs[0].equals(runs[1])


@SHIFTING
def test_jobs_without_shared_links_never_wait(policy: str) -> None:
    given = scene(switch(4, 2), work("a", 0, 1), work("b", 2, 3, arrival_s=0.0137))
    run = simulate(given, policy)
    assert column(run, "rephasings") == {"a": 0, "b": 0}
    assert slowdowns(run) == pytest.approx({"a": 1, "b": 1})


@SHIFTING
@pytest.mark.parametrize("arrival", [0.0098, 0.0103, 0.0107])
def test_newcomer_delays_others_by_less_than_an_iteration(policy: str, arrival: float) -> None:
    """a and b share links with c alone, which comes to the nodes of both; all take 60 ms.

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


@pytest.mark.parametrize("policy", ["exclusive", "cassini", "metronome"])
def test_single_job_is_placed_on_one_node(policy: str) -> None:
    """Two tasks on one node need no network."""
    row = job_table(simulate(scene(racks(2, 2, 2), work("a")), policy))["a"]
    assert (row["nodes"], row["racks"]) == (1, 1)


def test_metronome_delays_job_that_would_overload_links() -> None:
    """Four bursts of 20 in 60 ms: with d at once, all take 80 ms at best; c soon leaves."""
    jobs = [work(name, 0, 1, iterations=ITERATIONS) for name in "ab"]
    jobs += [work("c", 0, 1, iterations=20), work("d", arrival_s=0.1, iterations=ITERATIONS)]
    assert job_table(simulate(scene(switch(2, 4), *jobs), "metronome"))["d"]["start_s"] > 0.1


def test_exclusive_admits_jobs_whose_peaks_fit() -> None:
    """Two tasks a node of 100 send at 50, so a fills its links; b waits for it, c does not."""
    given = scene(
        switch(4, 4),
        work("a", 0, 0, 1, 1, allreduce="tasks"),
        work("b", 1, 2, arrival_s=0.1),
        work("c", 2, 3),
    )
    rows = job_table(simulate(given, "exclusive"))
    assert rows["c"]["start_s"] == 0
    assert rows["b"]["start_s"] == pytest.approx(max(rows["a"]["end_s"], rows["c"]["end_s"]))
    assert slowdowns(simulate(given, "exclusive")) == pytest.approx({"a": 100 / 70, "b": 1, "c": 1})


def crowd(count: int) -> Scenario:
    """Return jobs of two workers that come 100 ms apart, each wider than a node."""
    jobs = (
        work(f"job-{n}", batch=2, each={"gpus": 2}, arrival_s=n / 10, iterations=ITERATIONS)
        for n in range(count)
    )
    return scene(racks(2, 2, 3), *jobs)


def test_metronome_without_its_decisions_is_nearest() -> None:
    without = simulate(crowd(6), "metronome:places=no:waits=no:slots=no")
    assert without.jobs.equals(simulate(crowd(6), "nearest").jobs)


def test_metronome_without_slots_gates_no_job() -> None:
    run = pair(switch(2, 2), "metronome:slots=no")
    assert slowdowns(run) == slowdowns(pair(switch(2, 2), "default"))


def test_metronome_without_waiting_starts_where_there_is_room() -> None:
    jobs = [work(name, 0, 1, iterations=ITERATIONS) for name in "ab"]
    jobs += [work("c", 0, 1, iterations=20), work("d", arrival_s=0.1, iterations=ITERATIONS)]
    run = simulate(scene(switch(2, 4), *jobs), "metronome:waits=no")
    assert job_table(run)["d"]["start_s"] == 0.1


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ("nearest:slots=no", "'slots' is no option of nearest; choose from routing"),
        ("metronome:waits=perhaps", "waits: .*boolean"),
        ("metronome:network=token-ring", "network: must be 'fair'"),
        ("metronome:speed=3", "'speed' is no option of metronome; choose from places"),
    ],
)
def test_wrong_options_are_refused(policy: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        simulate(crowd(1), policy)
