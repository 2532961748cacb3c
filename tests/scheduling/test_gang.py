"""Gangs: read from files, kept in step with the hyperperiod, and where their traffic goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scheduling.cluster import Resources
from metronome_opt.scheduling.gang import Gang, read_request, stretch_for
from tests.scheduling.clusters import cluster, gang

YAML = """
format: metronome-job/1
name: resnet
tasks: 3
each: {gpus: 2, cpu_millicores: 500}
period: 10
phases:
  - {start: 0, length: 4, rate: 60}
  - {start: 6, length: 1, rate: 90}
weight: 2
max_stretch: 2
most_racks: 1
"""
ASKED: dict[str, Any] = {
    "format": "metronome-job/1",
    "name": "resnet",
    "tasks": 3,
    "period": 10,
    "phases": [{"start": 0, "length": 4, "rate": 60}],
}


def read(path: Path) -> Gang:
    return read_request(path, cluster([2]))


def test_a_gang_is_read_from_yaml_and_json(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(YAML, encoding="utf-8")
    asked = read(path)
    assert asked == gang(
        3,
        (0, 4, 60),
        (6, 1, 90),
        name="resnet",
        period=10,
        each=Resources(gpus=2, cpu_millicores=500),
        weight=2,
        max_stretch=2,
        most_racks=1,
    )
    assert (asked.peak, asked.volume) == (90, 330)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(asked.to_dict()), encoding="utf-8")
    assert read(path) == asked


def test_what_is_left_out_is_one_gpu_and_no_demands(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(ASKED), encoding="utf-8")
    asked = read(path)
    assert asked.each == Resources(gpus=1)
    assert (asked.weight, asked.ready, asked.max_stretch, asked.most_racks) == (1, 0, 0, None)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "metronome-instance/1", "format: must be 'metronome-job/1', got "),
        ("tasks", 0, "tasks: must be at least 1, got 0"),
        ("tasks", 100_001, "tasks: must be at most 100000, got 100001"),
        ("tasks", 2.5, "tasks: must be an integer, got 2.5"),
        ("phases", [], "phases: "),
        ("phases", [{"start": 8, "length": 4, "rate": 1}], "phases[0].length: 4: the burst ends"),
        (
            "phases",
            [{"start": 0, "length": 4, "rate": 1}, {"start": 3, "length": 1, "rate": 1}],
            "phases[1].start: 3: overlaps phases[0]",
        ),
        ("max_stretch", 10**6, "max_stretch: an iteration may take 1000010 slots, above the limit"),
        ("period", 10**7, "period: an iteration may take 10000000 slots, above the limit of"),
        ("most_racks", 0, "most_racks: must be at least 1, got 0"),
        ("each", {"gpu": 1}, "each.gpu: unknown field, got 1"),
        ("workers", 2, "workers: unknown field, got 2"),
    ],
)
def test_what_a_gang_may_not_say(field: str, value: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**ASKED, field: value}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("period", "max_stretch", "stretch"), [(12, 0, 0), (12, 5, 0), (10, 2, 2), (13, 11, 11)]
)
def test_a_period_is_stretched_to_the_next_divisor(
    period: int, max_stretch: int, stretch: int
) -> None:
    asked = gang(2, (0, 1, 60), period=period, max_stretch=max_stretch)
    assert stretch_for(asked, 24) == stretch


@pytest.mark.parametrize(
    ("period", "max_stretch", "message"),
    [
        (10, 1, "new: period: 10 slots do not divide the hyperperiod of 24, nor does anything up"),
        (13, 0, "allow a max_stretch of 11"),
        (25, 9, "choose a longer hyperperiod"),
    ],
)
def test_a_period_that_cannot_be_stretched_so_far_is_refused(
    period: int, max_stretch: int, message: str
) -> None:
    asked = gang(2, (0, 1, 60), period=period, max_stretch=max_stretch)
    with pytest.raises(InputError) as caught:
        stretch_for(asked, 24)
    assert message in str(caught.value)


def test_a_node_that_is_not_there_has_no_flows() -> None:
    with pytest.raises(InputError, match="there is no node 'n9'"):
        cluster([2]).flows(["n0", "n9"])


def test_a_gang_is_a_job_of_an_instance() -> None:
    asked = gang(2, (0, 4, 60), name="x", period=10, weight=3, ready=7, max_stretch=1)
    job = asked.job({"n0": 2}, stretch=2, current_offset=11)
    assert (job.name, job.period, job.weight, job.ready) == ("x", 10, 3, 7)
    assert (job.max_stretch, job.current_offset, dict(job.links)) == (2, 11, {"n0": 2})
    assert job.phases == asked.phases
