"""The Kubernetes proposal in the simulator."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.simulate import simulate
from metronome_opt.simulate.study import find_study


def test_an_iteration_longer_than_the_hyperperiod_is_refused_in_one_line() -> None:
    study = find_study("drift")
    scenario = study.scenario(study.cells[0], seed=0)
    slow = scenario.jobs[0].model_copy(update={"batch": 16384})
    scenario = scenario.model_copy(update={"jobs": (slow, *scenario.jobs[1:])})
    with pytest.raises(InputError, match=r"jobs\[0\]\.batch: 16384: .*'proposal'"):
        simulate(scenario, "proposal")


def test_claims_that_the_monitor_puts_right_are_taken_over() -> None:
    study = find_study("wrong-profile")
    scenario = study.scenario(study.cells[11], seed=0)
    conditions = study.conditions_of(study.cells[11])
    watched = conditions.model_copy(update={"control": "monitor"})
    held = simulate(scenario, "proposal", conditions=conditions).jobs["completion_s"].mean()
    right = simulate(scenario, "proposal", conditions=watched)
    assert "claims corrected" in right.notes[0]
    assert right.jobs["completion_s"].mean() < held
