"""Published iterations as traffic of scenarios."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.scenario.published import PublishedStep, read_published
from metronome_opt.scenario.verification import check_traffic
from metronome_opt.scenario.workload import published_files
from tests.fabrics import scene


def scenario(**changes: Any) -> Scenario:
    job = {"name": "a", "model": "VGG19", "traffic": "muri", "workers": 2, "each": {"gpus": 8}}
    cluster = {"topology": "single-switch", "nodes": 4, "gpus": 8, "nic_gbps": 25}
    return scene(cluster, {**job, "nodes": ["node-00", "node-01"], **changes}, slot_ms=1)


def test_job_by_model_sends_what_was_published_in_a_ring() -> None:
    described = scenario()
    problem = build_scenario(described)
    assert problem.traffic[0].title == "VGG19, muri"
    (made,) = problem.instance.jobs
    (burst,) = made.phases  # half as fast as published: 179 ms, then twice 123 ms
    assert (burst.start, burst.length, made.period) == (179, 246, 425)
    assert dict(made.links) == {"node-00": 1, "node-01": 1}
    assert check_traffic(described, problem) == ()
    assert described.model_dump(mode="json")["jobs"][0]["traffic"] == "muri"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model": "GPT3"}, r"jobs\[0\]\.model: 'GPT3' is not in muri, a2c, "),
        (
            {"workers": 1, "nodes": ["node-00"], "each": {"gpus": 1}},
            r"workers: must be at least 2, got 1",
        ),
        ({"each": {"gpus": 2}}, r"'VGG19': muri has 16 GPUs next to the 4 of the job"),
        ({"model": None}, "model: missing"),
        ({"traffic": "murix"}, "there is no pattern 'murix'"),
    ],
)
def test_what_is_not_published_is_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        read_traffic(scenario(**changes))


@pytest.mark.parametrize("name", ["sia-azure", "sia-dgx-ext", "sia-rtx"])
def test_what_sia_calls_imagenet_is_resnet50(name: str) -> None:
    table = read_published(name)
    for model in ("ResNet50", "resnet50", "ImageNet"):
        assert table.step(model, 16, 50) == table.step("imagenet", 16, 50)
        assert table.batches(model, 16) == table.batches("imagenet", 16)
    (one,), (other,) = (
        read_traffic(scenario(model=model, traffic=name)) for model in ("ResNet50", "imagenet")
    )
    assert one.source == other.source


def test_batch_chooses_among_equal_sizes() -> None:
    table = read_published("sia-rtx")
    batches = {step.batch for step in table.steps if (step.model, step.gpus) == ("bert", 8)}
    assert len(batches) > 1
    assert {table.step("BERT", 8, batch).batch for batch in batches} == batches


@pytest.mark.parametrize("name", published_files())
def test_tables_state_source_and_assumptions(name: str) -> None:
    table = read_published(name)
    assert table.name == name
    assert "commit" in table.source
    assert table.rate_gbps.assumed or table.rate_gbps.source
    keys = [(step.model, step.gpus, step.batch) for step in table.steps]
    assert len(set(keys)) == len(keys)


def test_network_time_is_within_iteration() -> None:
    length, network = Fraction(99), Fraction(100)
    with pytest.raises(InputError, match="network_ms: 100: is longer than the iteration, 99 ms"):
        PublishedStep(model="a", gpus=8, batch=1, iteration_ms=length, network_ms=network)
