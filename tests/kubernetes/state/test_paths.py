"""Paths of flows in a cluster's state, in reservations, and as pods are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import allocate
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.manifests import build_manifests
from metronome_opt.kubernetes.claims.names import CAPACITY, CLAIM
from metronome_opt.kubernetes.controller.claims import pod_annotations, slots_of
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import make_cluster
from metronome_opt.kubernetes.state.migrations import apply_migrations, reroute
from metronome_opt.kubernetes.state.placement import PlacementDecision, place_job
from metronome_opt.kubernetes.state.records import Gang, Reservation, read_request
from metronome_opt.kubernetes.state.scenario import apply_schedule, scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import exported
from metronome_opt.problem.instance import Link, Phase
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.nodes import Node, Rack, Resources
from tests.kubernetes.controller.test_reconcile import Bed

PATH = "metronome.x-k8s.io/path"


def spines(gpus: int = 1, mbps: int = 1000) -> ClusterState:
    """Return two racks of two nodes with a link to each of two spines, as fast as an interface."""
    nodes, racks = [f"n{index}" for index in range(4)], ("r0", "r1")
    ups = [f"{rack}-{to}" for rack in racks for to in "ab"]
    return ClusterState(
        ClusterSpec(
            name="spines",
            slot_ms=5,
            hyperperiod=400,
            nodes=tuple(
                Node(name=name, has=Resources(gpus=gpus), interface=name, rack=racks[at // 2])
                for at, name in enumerate(nodes)
            ),
            racks=tuple(Rack(name=rack, uplinks=(f"{rack}-a", f"{rack}-b")) for rack in racks),
            links=tuple(Link(name=name, capacity=mbps) for name in (*nodes, *ups)),
            routing="chosen",
        )
    )


def gang(name: str, length: int = 120) -> Gang:
    """Return a ring of two that sends for so many of 200 slots, as fast as an interface."""
    phase = Phase(start=0, length=length, rate=1000)
    return Gang(name=name, tasks=2, period=200, phases=(phase,), allreduce="ring")


def across(name: str, *paths: int) -> Reservation:
    """Return a ring over both racks."""
    nodes = {"a": ("n0", "n2"), "b": ("n1", "n3")}[name]
    its = tuple((spine,) for spine in paths)
    return Reservation(gang=gang(name), nodes=nodes, offset=0, gated=False, paths=its)


def test_a_job_that_comes_takes_the_free_spine() -> None:
    for spine in (0, 1):
        state = spines()
        state.reserve(across("a", spine, spine))
        place = place_job(state, gang("b"))
        assert isinstance(place, PlacementDecision)
        assert place.reservation.nodes == ("n1", "n3")
        assert place.reservation.paths == ((1 - spine,), (1 - spine,))
        state.reserve(place.reservation)
        assert state.reservations["b"].paths == place.reservation.paths


def test_flows_of_running_jobs_are_told_apart() -> None:
    state = spines()
    state.reserve(across("a", 0, 0))
    state.reserve(across("b", 0, 0))
    assert reroute(state, 0.0)
    (one, other) = (state.reservations[name].paths for name in "ab")
    assert {one[0], other[0]} == {one[1], other[1]} == {(0,), (1,)}
    assert not reroute(state, 0.0)


def test_a_job_that_moves_leaves_its_paths_behind() -> None:
    state = spines()
    state.reserve(across("a", 1, 1))
    assert apply_migrations(state, {"a": ("n0", "n1")}).reservations["a"].paths == ()
    assert apply_migrations(state, {}, {"a": ((0,), (1,))}).reservations["a"].paths == ((0,), (1,))


def test_paths_stand_in_reservations_and_annotations() -> None:
    state = spines()
    reservation = across("a", 1, 0)
    state.reserve(reservation)
    slots = slots_of(state, reservation)
    assert [pod_annotations(slots, f"a-{task}", task)[PATH] for task in (0, 1)] == ["1", "0"]
    manifests = build_manifests(*exported(state))
    objects = [item for some in manifests.values() for item in some]
    claims = [item["spec"]["allocation"] for item in objects if item["kind"] == CLAIM]
    assert [claim["path"] for claim in claims] == [[1], [0]]
    scopes = {
        link["name"]: link["scope"]
        for item in objects
        if item["kind"] == CAPACITY
        for link in item["spec"]["links"]
    }
    assert scopes["r1-b"] == "Uplink"
    assert scopes["r0-a-down"] == "Downlink"


def test_a_reservation_without_chosen_paths_names_none() -> None:
    fields = {name: getattr(spines().cluster, name) for name in ClusterSpec.model_fields}
    hashed = ClusterState(ClusterSpec.model_validate({**fields, "routing": "ecmp"}))
    assert isinstance(place_job(hashed, gang("a")), PlacementDecision)
    hashed.reserve(across("b"))
    assert PATH not in pod_annotations(slots_of(hashed, hashed.reservations["b"]), "b-0")
    with pytest.raises(ValueError, match="spray: is as one uplink"):
        ClusterSpec.model_validate({**fields, "routing": "spray"})


def capacities() -> list[dict[str, Any]]:
    """Return the capacities that are written for the cluster."""
    state = spines()
    state.reserve(across("a", 1, 0))
    manifests = build_manifests(*exported(state))
    return [item for some in manifests.values() for item in some if item["kind"] == CAPACITY]


def test_capacities_are_read_back_as_they_were_written() -> None:
    objects = Objects()
    objects.add(("written", capacity) for capacity in capacities())
    racks = make_cluster(objects, ImportOptions(gpus=1)).document["racks"]
    assert racks == [
        {
            "name": rack,
            "uplinks": [f"{rack}-a", f"{rack}-b"],
            "downlinks": [f"{rack}-a-down", f"{rack}-b-down"],
        }
        for rack in ("r0", "r1")
    ]


def test_links_to_spines_without_a_rack_are_refused() -> None:
    objects = Objects()
    for capacity in capacities():
        capacity["metadata"]["labels"] = {}
        objects.add([("written", capacity)])
    with pytest.raises(InputError, match="node 'n0': its links of scope Uplink are not those of"):
        make_cluster(objects, ImportOptions(gpus=1))


def test_flows_leave_a_spine_that_is_down() -> None:
    state = spines()
    state.reserve(across("a", 0, 0))
    state.set_capacity("r0-a", 0)
    assert reroute(state, 0.0)
    assert state.reservations["a"].paths[0] == (1,)
    place = place_job(state, gang("b"))
    assert isinstance(place, PlacementDecision)
    assert place.reservation.paths[0] == (1,)


@pytest.mark.parametrize("paths", [((0,),), ((0,), (5,)), ((0,), (0, 1))])
def test_false_paths_of_a_reservation_are_refused(paths: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InputError, match=r"a.*paths"):
        spines().reserve(across("a").model_copy(update={"paths": paths}))


def test_paths_that_are_solved_come_into_force() -> None:
    state = spines()
    for name in "ab":
        state.reserve(across(name, 0, 0))
    schedule = allocate(scenario_of(state)).schedule
    assert apply_schedule(state, schedule)
    one, other = (state.reservations[name].paths for name in "ab")
    assert {one[0], other[0]} == {(0,), (1,)}
    false = schedule.model_copy(update={"paths": {"a": ((0,),)}})
    with pytest.raises(InputError, match=r"a.*paths"):
        apply_schedule(state, false)


def test_controller_tells_pods_their_paths_and_learns_them_again() -> None:
    """A ring of three leaves both racks once; its last pod in a rack does so."""
    bed = Bed(spines(gpus=4, mbps=6000))
    bed.cluster.submit("a", 3, allreduce="ring")
    assert bed.reconcile() == 0
    reservation = bed.claims["default/a"]
    assert sorted(map(len, reservation.paths)) == [0, 1, 1]
    told = {pod.place: pod.annotations[PATH] for pod in bed.cluster.pods()}
    assert told == {
        node: ",".join(map(str, its))
        for node, its in zip(reservation.nodes, reservation.paths, strict=True)
    }
    bed.start(spines(gpus=4, mbps=6000))
    bed.reconcile()
    assert bed.claims["default/a"].paths == reservation.paths


@pytest.mark.parametrize("routing", ["ecmp", "chosen"])
def test_a_job_that_is_asked_for_sends_as_fast_as_it_says(routing: str, tmp_path: Path) -> None:
    """At its best placement flows cross both spines evenly, as one of 1000, and not two of 500."""
    fields = {name: getattr(spines().cluster, name) for name in ClusterSpec.model_fields}
    cluster = ClusterSpec.model_validate({**fields, "routing": routing})
    phase = {"start_ms": 100, "length_ms": 100, "rate_mbps": 1000}
    job = {
        "format": "metronome-job/1",
        "name": "a",
        "workers": 3,
        "allreduce": "ring",
        "traffic": {"period_ms": 400, "phases": [phase]},
    }
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    asked = read_request(path, cluster)
    assert [phase.rate for phase in asked.phases] == [1000]
    place = place_job(ClusterState(cluster), asked)
    assert isinstance(place, PlacementDecision)
    assert place.expected_ms == pytest.approx(400)
    assert [phase.rate for phase in place.reservation.gang.phases] == [1000]
