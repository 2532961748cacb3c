"""The link that a report shows as it happened: which one, of which runs, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.timeline import LinkPicture, draw_link
from metronome_opt.bench.worker import columns_of
from metronome_opt.simulate import Conditions, simulate
from metronome_opt.simulate.study import Study
from tests.bench.simulation_examples import simulation

BOTH = ("default", "metronome")
NODES = ["node-00", "node-01"]


def job(name: str, nodes: Sequence[str] = NODES, **changes: Any) -> dict[str, Any]:
    """Return a job whose iterations take about 0.2 s."""
    work = {"name": name, "model": "VGG19", "batch": 64, "workers": 2, "iterations": 100}
    return {**work, "nodes": list(nodes), **changes}


def study(*jobs: Mapping[str, Any]) -> Study:
    return Study.from_dict(
        {
            "format": "metronome-study/1",
            "name": "example",
            "slot_ms": 5,
            "hyperperiod_ms": 1500,
            "cluster": {
                "topology": "single-switch",
                "nodes": 3,
                "gpus": 4,
                "nic_gbps": 50,
                "gpu": {"name": "any", "sustained_tflops": {"value": 20, "assumed": "for tests"}},
            },
            "draw": {"given": {"work": jobs}},
        }
    )


def record(example: Study, policy: str, seed: int = 0, **changes: Any) -> SimulationRecord:
    """Return the record of a simulation that was really done."""
    (cell,) = example.cells
    conditions = Conditions(**changes)
    run = simulate(example.scenario(cell, seed), policy, seed=seed, conditions=conditions)
    return replace(
        simulation(policy, seed=seed, conditions=conditions, makespan_s=run.makespan_s),
        jobs=columns(run.jobs),
        links=columns(run.links),
    )


def columns(table: pd.DataFrame) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in columns_of(table).items()}


def policies_of(drawn: LinkPicture) -> list[str]:
    assert drawn.picture is not None
    return [axes.get_title(loc="left") for axes in drawn.picture.axes]


def window_s(drawn: LinkPicture) -> tuple[float, float]:
    assert drawn.picture is not None
    begin, end = drawn.picture.axes[0].get_xlim()
    return begin / 1000, end / 1000


def of_job(record: SimulationRecord, name: str, column: str) -> float:
    assert record.jobs is not None
    value = record.jobs[column][record.jobs["job"].index(name)]
    assert isinstance(value, float)
    return value


def test_the_most_contended_link_is_shown_side_by_side() -> None:
    """Three jobs cross node-01, two of them node-00 and one node-02."""
    example = study(job("a"), job("b"), job("c", ["node-01", "node-02"], batch=90))
    drawing = draw_link(example, [record(example, policy) for policy in BOTH])
    assert policies_of(drawing) == list(BOTH)
    assert drawing.words == (
        "Link node-01 as it happened in example with seed 0; "
        "it is crossed by 3 jobs under default and 3 jobs under metronome."
    )


def test_a_link_that_jobs_share_comes_before_one_of_more_contention() -> None:
    example = study(job("a"), job("b"), job("c", ["node-01", "node-02"], batch=90))
    first, second = (record(example, policy) for policy in BOTH)
    assert first.links is not None
    longest = tuple(9.0 * (name == "node-02") for name in first.links["link"])
    drawing = draw_link(
        example, [replace(first, links={**first.links, "contended_s": longest}), second]
    )
    assert drawing.words.startswith("Link node-01 as it happened")


def test_a_link_that_is_empty_under_one_policy_is_not_shown() -> None:
    """`exclusive` puts both tasks of a job on one node, where they need no link."""
    spread = study(*(job(name, workers=3) | {"nodes": None} for name in "abc"))
    records = [record(spread, policy) for policy in ("default", "exclusive")]
    assert draw_link(spread, records) == LinkPicture(
        "No link is shown as it happened: those that jobs share under default are not used under "
        "exclusive, in example with seed 0."
    )


def test_six_iterations_are_shown_of_when_most_jobs_are_there() -> None:
    example = study(job("a", iterations=400), job("b", iterations=400), job("c", arrival_s=30))
    records = [record(example, policy) for policy in BOTH]
    begin, end = window_s(draw_link(example, records))
    for each in records:
        assert of_job(each, "c", "start_s") < begin < end < of_job(each, "c", "end_s")
    slowest = max(of_job(records[0], name, "iteration_mean_ms") for name in "abc") / 1000
    assert end - begin == pytest.approx(6 * slowest, rel=0.05)


def test_a_horizon_holds() -> None:
    example = study(job("a"), job("b"))
    begin, end = window_s(draw_link(example, [record(example, "default", horizon_s=0.5)]))
    assert 0 <= begin < end <= 0.5


def test_the_first_seed_with_both_policies_is_shown() -> None:
    example = study(job("a"), job("b"))
    records = [
        record(example, "default"),
        simulation("metronome", kind="crash"),
        *(record(example, policy, seed) for seed in (1, 2) for policy in BOTH),
    ]
    drawing = draw_link(example, records)
    assert policies_of(drawing) == list(BOTH)
    assert "seed 1" in drawing.words


def test_a_link_of_one_job_is_not_shown() -> None:
    example = study(job("a"))
    alone = draw_link(example, [record(example, "default", background=0.3)])
    assert alone.picture is None
    told = "No link is shown as it happened: "
    assert alone.words.startswith(f"{told}under default, no two jobs share ")
    crashed = draw_link(example, [simulation("default", kind="crash")])
    assert crashed == LinkPicture(f"{told}nothing was done.")
