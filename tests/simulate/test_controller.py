"""The monitor at work in simulations: what it brings, and that it keeps out where it has no say."""

from __future__ import annotations

import pandas as pd
import pytest

from metronome_opt.scenario import Scenario
from metronome_opt.simulate import Conditions, simulate
from metronome_opt.simulate.conditions import Control
from metronome_opt.simulate.study import find_study

CONTROLS: tuple[Control, ...] = ("monitor", "slots", "once")


def scenario(mix: str, seed: int = 1000) -> Scenario:
    study = find_study("wrong-profile")
    cell = next(each for each in study.cells if each.settings["mix"] == mix)
    drawn = study.scenario(cell, seed)
    jobs = tuple(
        job.model_copy(update={"iterations": (job.iterations or 0) // 2}) for job in drawn.jobs
    )
    return drawn.model_copy(update={"jobs": jobs})


def completion(mix: str, conditions: Conditions | None = None) -> float:
    run = simulate(scenario(mix), "metronome", seed=2, conditions=conditions)
    return float(run.jobs["completion_s"].mean())


@pytest.mark.parametrize("mix", ["two-1.00", "three-1.00", "four-1.00"])
def test_with_a_monitor_unsteady_jobs_lose_less_than_five_percent(mix: str) -> None:
    steady = completion(mix)
    watched, kept, once = (
        completion(mix, Conditions(control=control, jitter=0.05, drift_ppm=100.0))
        for control in CONTROLS
    )
    assert watched < 1.05 * steady
    assert watched < kept < once


@pytest.mark.parametrize("mix", ["two-1.00", "four-1.00"])
def test_wrong_claims_are_corrected(mix: str) -> None:
    true = completion(mix)
    wrong = completion(mix, Conditions(claim_error=0.2))
    watched = completion(mix, Conditions(claim_error=0.2, control="monitor"))
    assert watched < 1.05 * true < wrong


@pytest.mark.parametrize("policy", ["default", "ideal"])
def test_jobs_that_nobody_shifts_are_let_alone(policy: str) -> None:
    def run(control: Control) -> pd.DataFrame:
        conditions = Conditions(control=control, jitter=0.05, drift_ppm=100.0)
        return simulate(scenario("two-1.00"), policy, conditions=conditions).jobs

    for control in CONTROLS:
        pd.testing.assert_frame_equal(run(control), run("slots"))


def test_true_claims_of_steady_jobs_are_not_corrected() -> None:
    run = simulate(scenario("four-1.00"), "metronome", conditions=Conditions(control="monitor"))
    assert run.notes == ("monitor: 6 checks, 0 claims corrected, jobs re-phased: none",)


def test_jobs_that_are_shifted_once_are_never_held_back_again() -> None:
    run = simulate(
        scenario("three-1.00"), "metronome", conditions=Conditions(control="once", jitter=0.05)
    )
    longest = run.jobs["iteration_max_ms"].max() / 1000
    assert (run.jobs["waited_s"] < 4 * longest).all()  # at most once for each that arrives
