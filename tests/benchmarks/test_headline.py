"""Headlines: what runs get done by one moment, and the best run beside the mean."""

import pandas as pd
import pytest

from benchmarks import headline
from benchmarks.evaluation.plan import Part, read_plan
from benchmarks.headline import compare, table
from metronome_opt.files.records import FrozenDict
from metronome_opt.simulation.study import find_study

RUNS = pd.DataFrame(
    {
        "cell": ["all"] * 4,
        "seed": [0, 0, 1, 1],
        "policy": ["default", "metronome"] * 2,
        "completion": [100.0, 90.0, 200.0, 140.0],
        "times": [100.0, 80.0, 100.0, 50.0],
        "computing": [0.50, 0.52, 0.50, 0.56],
    }
)


def test_means_are_over_seeds_and_the_best_run_stands_beside() -> None:
    """10 and 30 % shorter; 1.25 and 2 times as fast; 2 and 6 points."""
    for measure, mean, most in (("completion", 20, 30), ("times", 1.625, 2), ("computing", 4, 6)):
        found = compare(RUNS, measure, "metronome", "default")
        assert found is not None
        assert (found[0].mean, found[1]) == pytest.approx((mean, most))
        assert found[0].count == 2


def test_a_policy_that_did_not_run_is_a_dash() -> None:
    assert compare(RUNS, "completion", "metronome", "nearest") is None
    parts = dict.fromkeys(
        read_plan(headline.PLAN),
        RUNS.assign(**dict.fromkeys(("tail", "traffic", "iteration", "iteration_p99"), 1.0)),
    )
    shown = table(parts)
    assert "| Metronome: completion up to 19.50 % shorter | `metronome` | 20.0 (" in shown
    assert "| `cassini` | - | - | - | racks" in shown


def test_work_by_a_moment_counts_jobs_that_have_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight nodes of 8 GPUs; the first departure is at 10 s under one policy, at 20 s else.

    The moment is 10 s: 100 iterations of 320 GPU-ms are done of 640 GPU-s, or half of them.
    """
    monkeypatch.setattr(headline, "_demands", lambda *_: {"a": (320.0, 5.0)})
    jobs = {"job": ("a",), "arrival_s": (0.0,), "start_s": (0.0,), "iterations": (100,)}
    jobs |= {"ideal_ms": (100.0,), "iteration_mean_ms": (100.0,), "iteration_p99_ms": (150.0,)}

    class Record:
        study, seed, succeeded = "published-crux", 0, True
        cell: FrozenDict[str, str] = FrozenDict()

        def __init__(self, policy: str, end: float) -> None:
            self.policy, self.jobs = policy, {**jobs, "end_s": (end,), "completion_s": (end,)}

    found = headline.measures([Record("default", 20.0), Record("crux", 10.0)])  # type: ignore[list-item]
    done = found.set_index("policy")
    assert done["computing"].tolist() == pytest.approx([0.025, 0.05])
    assert done["traffic"].tolist() == pytest.approx([250.0, 500.0])
    assert done["iteration_p99"].tolist() == [1.5, 1.5]


def test_parts_simulate_what_is_there() -> None:
    """Every headline has its part, whose study knows the cells."""
    parts = read_plan(headline.PLAN)
    assert {line.part for line in headline.HEADLINES} == set(parts) == set(headline.UNKNOWN)
    for part in parts.values():
        assert isinstance(part, Part)
        study = find_study(part.study)
        for cells in part.cells:
            for setting in filter(None, cells.split(",")):
                name, _, value = setting.partition("=")
                assert value in map(str, study.grid[name])
