"""Manifests state a schedule: stored files, worked out by hand, and their definitions."""

from __future__ import annotations

import re
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.kubernetes import VerificationError, build_manifests, export_claims
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.placed_instance import Deployment, Task
from tests.builders import job
from tests.kubernetes.claims.example import cluster_of, two_jobs
from tests.kubernetes.claims.schemas import check_manifests

GOLDEN = Path(__file__).parent / "golden"


def test_export_of_two_jobs_equals_stored_files(tmp_path: Path) -> None:
    # After a change that is meant: export_claims(*two_jobs(), GOLDEN), and read the difference.
    # The numbers were worked out by hand: with slots of 5 ms, a period of 40 slots is 200,000 us.
    written = export_claims(*two_jobs(), tmp_path / "claims")
    definitions = written.pop(0).read_text()
    folder = files("metronome_opt.kubernetes.claims")
    shipped = folder.joinpath("crds.yaml").read_text(encoding="utf-8")
    assert definitions.partition("---")[2] == shipped.partition("---")[2]
    assert [path.name for path in written][-1] == "kustomization.yaml"
    assert sorted(path.name for path in written) == sorted(p.name for p in GOLDEN.iterdir())
    for path in written:
        assert path.read_text() == (GOLDEN / path.name).read_text(), path.name


@pytest.mark.parametrize("slots", [3, 8, 9])  # less than the cushion, all of it, more
def test_reserve_changes_neither_cushion_nor_traffic(slots: int) -> None:
    plain = build_manifests(*two_jobs())["claims.yaml"]
    reserved = build_manifests(*two_jobs(cushion_slots=slots))["claims.yaml"]
    for with_it, without in zip(reserved, plain, strict=True):
        allocation = with_it["spec"]["allocation"]
        assert allocation.pop("reservedCushionMicroseconds") == slots * 5000
        assert allocation["cushionMicroseconds"] == 40_000
        assert with_it == without


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"gated": {"VGG19_0": True, "resnet50-0": False}}, "gated", [False, None]),
        ({"gated": {"VGG19_0": True, "resnet50-0": True}}, "gated", [None, None]),
        ({"classes": {"VGG19_0": 3, "resnet50-0": 0}}, "trafficClass", [0, 3]),
    ],
)
def test_claims_state_gating_and_classes(
    changes: dict[str, Any], key: str, expected: list[Any]
) -> None:
    """Tasks of resnet50-0 come before tasks of VGG19_0."""
    manifests = build_manifests(*two_jobs(**changes))
    check_manifests(manifests)
    stated = [item["spec"]["allocation"].pop(key, None) for item in manifests["claims.yaml"]]
    assert stated[::2] == stated[1::2] == expected
    assert manifests["claims.yaml"] == build_manifests(*two_jobs())["claims.yaml"]


def fabric() -> tuple[Instance, Schedule, Deployment]:
    """A job of two bursts behind an uplink, a stretched one, and one inside a single node."""
    names = ("n1.example.org", "n2", "up")
    instance = Instance(
        name="two-jobs",
        slot_ms=2,
        links=tuple(Link(name=name, capacity=100) for name in names),
        jobs=(
            job("wide", 10, (5, 1, 70), (0, 2, 100), links=dict.fromkeys(names, 1)),
            job("slow", 14, (0, 2, 100), links={"n2": 1}, max_stretch=3),
            job("alone", 7, (0, 2, 100), links={}, max_stretch=2),
        ),
    )
    _, schedule, _ = two_jobs(
        offsets={"wide": 0, "slow": 8, "alone": 3},
        stretch={"slow": 1, "alone": 2},
        status=Status.FEASIBLE,
        objectives={},
        lower_bound=None,
    )
    deployment = Deployment(
        cluster=cluster_of(
            {"n1.example.org": "a", "n2": "b"},
            regions={"a": "west", "b": "west"},
            uplinks={"b": "up"},
        ),
        tasks=(
            Task("wide", 0, "n1.example.org", ("n1.example.org",)),
            Task("wide", 1, "n2", ("n2", "up")),
            Task("slow", 0, "n2", ("n2",)),
            Task("alone", 0, "n2", ()),
        ),
    )
    return instance, schedule, deployment


def test_claim_of_task_inside_its_node_has_no_link() -> None:
    alone = build_manifests(*fabric())["claims.yaml"][0]
    assert alone["spec"]["allocation"] == {
        "node": "n2",
        "offsetMicroseconds": 3 * 2000,
        "stretchMicroseconds": 2 * 2000,
        "hyperperiodMicroseconds": 9 * 2000,
    }


def test_no_cushion_on_links_never_or_already_overloaded() -> None:
    # n1 carries one flow that never exceeds it. On n2, "wide" bursts at 0, 5, 10, 15, ... and
    # "slow", of period 14 + 1, in [8, 10) and [23, 25): a slot more and it meets the burst at 10.
    instance, schedule, deployment = fabric()
    _, _, wide_0, wide_1 = build_manifests(instance, schedule, deployment)["claims.yaml"]
    assert "cushionMicroseconds" not in wide_0["spec"]["allocation"]
    assert wide_0["spec"]["allocation"]["hyperperiodMicroseconds"] == 10 * 2000
    starts = [phase["startMicroseconds"] for phase in wide_0["spec"]["traffic"]["phases"]]
    assert starts == [0, 5 * 2000]  # in order, whatever the instance says
    assert wide_1["spec"]["allocation"]["cushionMicroseconds"] == 0
    assert wide_1["spec"]["allocation"]["hyperperiodMicroseconds"] == 30 * 2000
    # Shifted by 5 instead, it bursts at 5, together with "wide".
    worse = schedule.model_copy(update={"offsets": {**schedule.offsets, "slow": 5}})
    _, _, _, wide_1 = build_manifests(instance, worse, deployment)["claims.yaml"]
    assert "cushionMicroseconds" not in wide_1["spec"]["allocation"]


def test_capacities_have_scope_zone_and_region() -> None:
    n1, n2 = sorted(
        build_manifests(*fabric())["capacities.yaml"], key=lambda item: str(item["spec"])
    )
    assert n1["metadata"]["name"] == "n1.example.org"
    assert "annotations" not in n1["metadata"]  # a Node may have this name
    assert n2["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "metronome-opt",
        "topology.kubernetes.io/region": "west",
        "topology.kubernetes.io/zone": "b",
    }
    assert n2["spec"]["links"] == [
        {"name": "n2", "capacity": "100M", "scope": "Node"},
        {"name": "up", "capacity": "100M", "scope": "Shared"},
    ]
    assert "namespace" not in n2["metadata"]


def test_namespace_of_every_object() -> None:
    manifests = build_manifests(*fabric(), namespace="training")
    assert [len(items) for items in manifests.values()] == [2, 2, 3, 4]
    for name in ("claims.yaml", "appgroups.yaml"):
        assert {item["metadata"]["namespace"] for item in manifests[name]} == {"training"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": Status.UNKNOWN, "offsets": {}, "objectives": {}}, "status: unknown"),
        ({"lower_bound": Fraction(1)}, "lower_bound: stated 1"),
    ],
)
def test_false_schedule_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=re.escape(words)) as caught:
        export_claims(*two_jobs(**changes), tmp_path / "claims")
    assert caught.value.exit_status == 1
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
