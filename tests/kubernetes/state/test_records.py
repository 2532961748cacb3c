"""What asks for a placement: by traffic, by model, and the jobs of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.placement import place_job, place_scenario
from metronome_opt.kubernetes.state.records import Gang, read_request
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.waiting import WaitDecision
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario import Scenario, build_scenario, locate
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.collectives import TrainingStep, Transfer
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.scenario.nodes import Gpu, Resources
from tests.kubernetes.state.small import cluster, gang

# A forward pass of 10 samples takes 100 ms at 20 TFLOPS; 2 workers send 625 MB, 5,000 Mbit, each.
WORKLOAD = {
    "format": "metronome-workload/1",
    "name": "Round",
    "about": "made for tests",
    "sample": "one",
    "parameters": {"value": 156_250_000, "assumed": "round numbers"},
    "forward_flops": {"value": 200_000_000_000, "assumed": "round numbers"},
    "data_parallel": {"gradient_bytes": {"value": 4, "assumed": "round numbers"}},
}
BY_MODEL = {
    "format": "metronome-job/1",
    "name": "round-a",
    "model": "round",
    "batch": 10,
    "workers": 2,
    "workloads": "own",
}
BY_TRAFFIC = {
    "format": "metronome-job/1",
    "name": "resnet",
    "tasks": 3,
    "period": 10,
    "phases": [{"start": 0, "length": 4, "rate": 60}],
}
GPU = Gpu.model_validate(
    {"name": "any", "sustained_tflops": {"value": 20, "assumed": "round numbers"}}
)


def spec_of(gpus: int | list[int] = 2, *, interface: int = 50_000) -> ClusterSpec:
    spec = cluster([2], gpus=gpus, interface=interface, hyperperiod=300)
    return spec.model_copy(update={"gpu": GPU})


def burst(start: int, length: int) -> dict[str, int]:
    return {"start": start, "length": length, "rate": 1}


def read(
    folder: Path, document: Mapping[str, Any], *, spec: ClusterSpec | None = None, **changes: Any
) -> Gang:
    (folder / "own").mkdir()
    (folder / "own" / "round.yaml").write_text(yaml.safe_dump(WORKLOAD))
    (folder / "job.yaml").write_text(yaml.safe_dump({**document, **changes}))
    return read_request(folder / "job.yaml", spec or spec_of())


def test_a_job_with_its_traffic_is_as_it_says(tmp_path: Path) -> None:
    asked = read(tmp_path, BY_TRAFFIC, each={"gpus": 2}, weight=2, max_stretch=2, most_racks=1)
    more: dict[str, Any] = {"each": Resources(gpus=2), "weight": 2, "max_stretch": 2}
    assert asked == gang(3, (0, 4, 60), name="resnet", period=10, most_racks=1, **more)
    assert asked.peak == 60


SHAPE = {"nodes", "racks", "links"}
STEP = TrainingStep(
    compute_ms=Fraction(300),
    transfers=(
        Transfer(
            kind="all-reduce", mbit=Fraction(5000), ready_ms=Fraction(300), needed_ms=Fraction(300)
        ),
    ),
)


def test_a_job_by_model_is_as_at_its_best_place(tmp_path: Path) -> None:
    asked = read(tmp_path, BY_MODEL, priority=4, ready_ms=25, most_racks=1, jitter=0.03)
    # 300 ms of computing, then 5,000 Mbit at 160,000 Mbit/s inside a node, 331.25 ms: 66 slots of
    # 5 ms, of which 6 are nearest to the 31.25 ms. Of 300 the next divisor is 75.
    assert asked == Gang(
        name="round-a",
        tasks=2,
        period=66,
        max_stretch=9,
        phases=(Phase(start=60, length=6, rate=166_667),),
        step=STEP,
        allreduce="ring",
        weight=4,
        ready=5,
        most_racks=1,
        jitter=0.03,
    )
    assert asked.each == Resources(gpus=1)


@pytest.mark.parametrize(
    ("more", "slots"),
    [({}, 8), ({"rate_mbps": 50_000}, 8), ({"rate_mbps": 25_000}, 16)],
)
def test_a_burst_that_is_faster_than_interfaces_keeps_its_volume(
    tmp_path: Path, more: dict[str, int], slots: int
) -> None:
    """A profile of one host, at 100,000 Mbit/s for 20 ms of 100, lasts longer at 50,000."""
    burst = {"start_ms": 0, "length_ms": 20, "rate_mbps": 100_000}
    traffic = {"period_ms": 100, "phases": [burst]}
    job = {"name": "fast", "workers": 2, "traffic": traffic, **more}
    spec = spec_of(1)
    asked = read(tmp_path, {"format": "metronome-job/1", **job}, spec=spec)
    decision = place_job(ClusterState(spec), asked)
    assert not isinstance(decision, WaitDecision)
    placed = decision.reservation
    # 2,000 Mbit, then 80 ms of computing: the next divisors of 300 slots are 25 and 50.
    assert placed.gang.phases == (Phase(start=0, length=slots, rate=400_000 // slots),)
    assert (placed.gang.period, placed.period) == (slots + 16, {8: 25, 16: 50}[slots])
    assert decision.alone_ms == 5 * (slots + 16)
    cluster = {"topology": "listed", **spec.model_dump(mode="json", include=SHAPE)}
    head = {"format": "metronome-scenario/1", "name": "s", "slot_ms": 5}
    document = {**head, "cluster": cluster, "jobs": [job]}
    scenario = Scenario.from_dict(document)
    (traffic_of_job,) = read_traffic(scenario)
    assert traffic_of_job.isolated(decision.placement.transport).duration == decision.alone_ms


def test_a_gang_in_slots_that_is_faster_than_interfaces_keeps_its_volume(tmp_path: Path) -> None:
    phases = [{"start": 0, "length": 4, "rate": 100_000}]
    asked = read(tmp_path, {**BY_TRAFFIC, "tasks": 2}, period=20, phases=phases)
    decision = place_job(ClusterState(spec_of(1)), asked)
    assert not isinstance(decision, WaitDecision)
    placed = decision.reservation.gang
    assert (placed.phases, placed.period) == ((Phase(start=0, length=8, rate=50_000),), 24)


def test_a_job_may_say_how_fast_it_sends_and_what_a_worker_needs(tmp_path: Path) -> None:
    asked = read(tmp_path, BY_MODEL, rate_mbps=50_000, each={"gpus": 2})
    # A ring of four GPUs sends 2 x 3/4 of it, 7,500 Mbit: 60 and 30 slots; the next divisor of 300
    # is 100.
    assert asked.phases == (Phase(start=60, length=30, rate=50_000),)
    assert (asked.period, asked.max_stretch, asked.each) == (90, 10, Resources(gpus=2))


@pytest.mark.parametrize("allreduce", [None, "ring", "tree", "tasks"])
def test_between_nodes_a_job_has_the_whole_interface(allreduce: str | None, tmp_path: Path) -> None:
    asked = read(tmp_path, BY_MODEL, spec=spec_of(1), allreduce=allreduce)
    assert asked.phases == (Phase(start=60, length=20, rate=50_000),)
    assert (asked.period, asked.max_stretch) == (80, 20)
    assert (asked.step, asked.allreduce) == (STEP, allreduce or "ring")


def test_a_job_that_finds_no_room_waits_as_if_each_worker_had_a_node(tmp_path: Path) -> None:
    asked = read(tmp_path, BY_MODEL, workers=8, allreduce="tasks")
    # 2 x 7 / 8 of 5,000 Mbit at 50,000 Mbit/s: 175 ms.
    assert (asked.tasks, asked.period) == (8, 95)
    waits = place_job(ClusterState(spec_of()), asked)
    assert isinstance(waits, WaitDecision)
    assert waits.reason.startswith("4 of 8 tasks find room; ")


@pytest.mark.parametrize(
    ("document", "changes", "said"),
    [
        (BY_TRAFFIC, {"format": "metronome-instance/1"}, "format: must be 'metronome-job/1', got "),
        (BY_TRAFFIC, {"tasks": 100_001}, "tasks: must be at most 100000, got 100001"),
        (BY_TRAFFIC, {"phases": [burst(8, 4)]}, r"phases\[0\].length: 4: the burst ends"),
        (BY_TRAFFIC, {"phases": [burst(0, 4), burst(3, 1)]}, r"phases\[1\].start: 3: overlaps ph"),
        (BY_TRAFFIC, {"max_stretch": 10**6}, "max_stretch: an iteration may take 1000010 slots, a"),
        (BY_TRAFFIC, {"period": 10**7}, "period: an iteration may take 10000000 slots, above the"),
        (BY_TRAFFIC, {"each": {"gpu": 1}}, "each.gpu: unknown field, got 1"),
        (BY_TRAFFIC, {"jitter": 1.01}, "jitter: must be at most 1.0, got 1.01"),
        (BY_MODEL, {"jitter": "unknown"}, "jitter: Input should be a valid number, got 'unknown'"),
        (BY_MODEL, {"jitter": True}, "jitter: Input should be a valid number, got True"),
        (BY_MODEL, {"tasks": 2}, "tasks: unknown field"),
        (
            BY_MODEL,
            {"model": "Rund"},
            "model: there is no workload 'Rund'; known are bert, .*, round, ",
        ),
        (BY_MODEL, {"workloads": "nowhere"}, "workloads: there is no folder"),
        (
            BY_MODEL,
            {"batch": 100},
            "batch: 100: an iteration takes 3030 ms, more than the hyperperiod of 1500 ms; choose",
        ),
        (
            BY_MODEL,
            {"spec": cluster([2], hyperperiod=300)},
            "model: 'round': the cluster does not say how fast its GPUs are",
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_place(
    document: Mapping[str, Any], changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(tmp_path, document, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'job.yaml'}: ")


def test_jobs_of_a_scenario_are_where_it_says_and_send_what_its_instance_says() -> None:
    document = yaml.safe_load(locate("paper-24").read_text())
    document["jobs"][0] |= {"fixed_offset_ms": 40, "current_offset_ms": 40}
    document["jobs"][1] |= {"current_offset_ms": 15, "max_stretch_ms": 10}
    scenario = Scenario.from_dict(document)
    instance = build_scenario(scenario).instance
    state = ClusterState(ClusterSpec.of_cluster("any", scenario.cluster, 5, 1500))
    place_scenario(state, scenario)
    for work in scenario.jobs:
        reservation, job = state.reservation(work.name), instance.job(work.name)
        assert reservation.nodes == tuple(sorted(work.nodes or ()))
        assert (reservation.period, reservation.gang.phases) == (job.period, job.phases)
        assert (reservation.gang.weight, reservation.gang.jitter) == (job.weight, job.jitter)
        assert state.flows[work.name] == dict(job.links)
        assert reservation.gang.each == Resources(gpus=1)
        assert reservation.gang.max_stretch >= max(reservation.stretch, job.max_stretch)
    assert [reservation.offset for reservation in state.reservations.values()][:2] == [8, 3]


@pytest.mark.parametrize(
    ("period", "max_stretch", "expected"),
    [
        (12, 0, 0),
        (12, 5, 0),
        (10, 2, 2),
        (13, 11, 11),
        (10, 1, "new: period: 10 slots do not divide the hyperperiod of 24, nor does anything up"),
        (13, 0, "allow a max_stretch of 11"),
        (25, 9, "choose a longer hyperperiod"),
    ],
)
def test_a_period_is_stretched_to_the_next_divisor(
    period: int, max_stretch: int, expected: int | str
) -> None:
    asked = gang(2, (0, 1, 60), period=period, max_stretch=max_stretch)
    if isinstance(expected, int):
        assert asked.stretch_for(24) == expected
    else:
        with pytest.raises(InputError, match=expected):
            asked.stretch_for(24)
