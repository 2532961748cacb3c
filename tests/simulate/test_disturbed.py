"""What conditions bring on average, and what they leave as it is, for jobs of a scenario."""

from __future__ import annotations

import pytest

from metronome_opt.simulate import POLICIES, Conditions, simulate
from tests.simulate.played import column
from tests.simulate.scenes import scene, switch, work


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
