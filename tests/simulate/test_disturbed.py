"""What conditions bring on average, and what they leave as it is, for jobs of a scenario."""

from __future__ import annotations

from itertools import pairwise

import pytest

from metronome_opt.simulate import POLICIES, Conditions, simulate
from tests.simulate.played import column, link_table
from tests.simulate.scenes import scene, switch, work

LONG = 4000


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_other_traffic_takes_its_share_of_a_link_on_average(share: float) -> None:
    """On nodes that nobody else uses, all that is seen of it is how long they are busy.

    Such traffic comes at twice its share of the capacity for half of the time.
    """
    given = scene(switch(3, 2), work("a", 0, 0, iterations=LONG))
    run = simulate(given, "default", conditions=Conditions(background=share), watch=["node-01"])
    rows = run.trace[run.trace["job"] == "background"]
    times = [*rows["time_ms"], 1000 * run.makespan_s]
    lasted = [after - before for before, after in pairwise(times)]
    carried = sum(rate * time for rate, time in zip(rows["rate_mbps"], lasted, strict=True))
    assert carried / (1000 * run.makespan_s) / 100 == pytest.approx(share, rel=0.06)
    told = link_table(run)["node-01"]
    assert told["carried_gbit"] == 0  # of jobs
    assert told["used_s"] == 0


@pytest.mark.parametrize(("share", "times"), [(0.1, 2.0), (0.02, 6.0)])
def test_stragglers_lengthen_iterations_by_their_mean(share: float, times: float) -> None:
    """40 ms of computing become 40 (1 + share (times - 1)); the burst of 20 stays as it is."""
    given = scene(switch(2, 2), work("a", 0, 1, iterations=LONG))
    conditions = Conditions(stragglers=share, straggling=times)
    run = simulate(given, "default", conditions=conditions)
    longer = column(run, "iteration_mean_ms")["a"] - 60
    expected = 40 * share * (times - 1)
    deviation = 40 * (times - 1) * (share * (1 - share) / LONG) ** 0.5
    assert longer == pytest.approx(expected, abs=4 * deviation)
    assert column(run, "iteration_max_ms")["a"] == pytest.approx(40 * times + 20)
    assert column(run, "ideal_ms")["a"] == 60


def test_jitter_leaves_the_mean_as_it_is() -> None:
    given = scene(switch(2, 2), work("a", 0, 1, iterations=LONG))
    run = simulate(given, "default", conditions=Conditions(jitter=0.1))
    mean = column(run, "iteration_mean_ms")["a"]
    assert mean == pytest.approx(60, abs=4 * 4 / LONG**0.5)


@pytest.mark.parametrize("policy", ["default", "exclusive", "ideal"])
def test_who_reads_no_claims_does_not_care_that_they_are_wrong(policy: str) -> None:
    given = scene(
        switch(2, 3),
        work("a", 0, 1),
        work("b", 0, 1, model="Long", arrival_s=0.2),
        work("c", workers=2, arrival_s=0.5),
    )
    right = simulate(given, policy)
    wrong = simulate(given, policy, conditions=Conditions(claim_error=0.2))
    assert right.jobs.to_csv() == wrong.jobs.to_csv()


@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("seed", range(3))
def test_wrong_claims_change_no_volume_and_make_nobody_faster(policy: str, seed: int) -> None:
    given = scene(switch(2, 3), work("a", 0, 1), work("b", 0, 1), work("c", 0, 1, arrival_s=1))
    run = simulate(given, policy, seed=seed, conditions=Conditions(claim_error=0.3))
    assert column(run, "ideal_ms") == {"a": 60, "b": 60, "c": 60}
    assert (run.jobs["iteration_min_ms"] >= 60 - 1e-9).all()
    # 50 iterations of three jobs, 2 Mbit each on either node.
    assert run.links["carried_gbit"].tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("policy", list(POLICIES))
def test_the_seed_decides_how_wrong_claims_are(policy: str) -> None:
    """Whoever goes by claims, plans otherwise; the same seed, the same plan."""
    given = scene(switch(2, 2), work("a", 0, 1), work("b", 0, 1))
    conditions = Conditions(claim_error=0.3)
    told = [simulate(given, policy, seed=seed, conditions=conditions) for seed in (1, 1, 2)]
    assert told[0].jobs.to_csv() == told[1].jobs.to_csv()
    if policy in {"default", "exclusive", "ideal"}:
        assert told[0].jobs.to_csv() == told[2].jobs.to_csv()
