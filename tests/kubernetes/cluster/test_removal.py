"""What deleting takes along, in one namespace and in all."""

from __future__ import annotations

from typing import cast

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.kinds import DEFINITIONS, capacities_of, claims_of
from metronome_opt.kubernetes.cluster.removal import Removal, plan_removal
from metronome_opt.kubernetes.crd import custom_resource_definitions
from tests.kubernetes.cluster.exports import GROUP, capacity, claim
from tests.kubernetes.cluster.fake import FakeCluster

CLAIMS = claims_of(GROUP)


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster with claims of job a in two namespaces."""
    found = FakeCluster()
    for item in custom_resource_definitions(GROUP):
        found.seed(DEFINITIONS, item)
    found.seed(capacities_of(GROUP), capacity("node-0"))
    for namespace in ("default", "team"):
        found.seed(CLAIMS, claim("a", 0, namespace))
    return found


def removed(cluster: FakeCluster, removal: Removal) -> list[str]:
    plan = plan_removal(cast(Connection, cluster), GROUP, removal)
    return [str(action) for part in plan.parts for action in part.actions]


@pytest.mark.parametrize("names", [None, ["a"]])
def test_only_jobs_of_the_namespace_go_unless_all_namespaces_are_meant(
    names: list[str] | None, cluster: FakeCluster
) -> None:
    here, there = (f"delete STBandwidthClaim {place}/a-0" for place in ("default", "team"))
    assert removed(cluster, Removal(names=names)) == [here]
    assert removed(cluster, Removal(names=names, everywhere=True)) == [here, there]


def test_definitions_stay_while_another_namespace_has_claims(cluster: FakeCluster) -> None:
    everything = Removal(capacities=True, definitions=True)
    with pytest.raises(InputError, match="STBandwidthClaim team/a-0 would be deleted with"):
        removed(cluster, everything)
    gone = removed(cluster, Removal(capacities=True, definitions=True, everywhere=True))
    assert [line.split()[1] for line in gone] == [
        *["STBandwidthClaim"] * 2,
        "STBandwidthCapacity",
        *["CustomResourceDefinition"] * 2,
    ]


def test_definitions_stay_while_there_are_claims_of_others(cluster: FakeCluster) -> None:
    foreign = claim("x", 0, "team")
    del foreign["metadata"]["labels"]
    cluster.seed(CLAIMS, foreign)
    with pytest.raises(InputError, match="STBandwidthClaim team/x-0 would be deleted with"):
        removed(cluster, Removal(capacities=True, definitions=True, everywhere=True))


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "-A", "--namespace", "team"],
        ["status", "manifests", "-A"],
        ["delete", "--all", "-A", "--namespace", "team"],
        ["delete", "manifests", "-A"],
    ],
)
def test_all_namespaces_and_certain_ones_are_not_both_meant(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("metronome: error: --all-namespaces: ")
    assert error.count("\n") == 1
