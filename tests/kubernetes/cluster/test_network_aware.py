"""Whole exports, AppGroups and topology too, by a user who has no rights but those printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import (
    ALL_NAMESPACES,
    Connection,
    Kind,
    connect,
)
from metronome_opt.kubernetes.cluster.objects import (
    APP_GROUPS,
    DEFINITIONS,
    TOPOLOGIES,
    capacities_of,
    claims_of,
)
from metronome_opt.kubernetes.cluster.plan import carry_out, plan_definitions, wait_served
from metronome_opt.kubernetes.schemas import Manifest, custom_resource_definitions
from tests.kubernetes.cluster.conftest import Grant, Run
from tests.kubernetes.cluster.exports import two_jobs_export
from tests.kubernetes.cluster.server import ORDINARY, ApiServer, may_list, wait_for

pytestmark = pytest.mark.cluster

PLUGINS = list(yaml.safe_load_all((Path(__file__).parent / "network_aware.yaml").read_text()))
GROUP = "claims.example"  # of this file alone, so that nothing is there that other tests left
CLAIMS, CAPACITIES = claims_of(GROUP), capacities_of(GROUP)


@contextmanager
def known(cluster: Connection, definitions: Iterable[Manifest], *kinds: Kind) -> Iterator[None]:
    """Have a cluster know these definitions for a while."""
    wanted = list(definitions)
    assert not carry_out(cluster, plan_definitions(cluster, wanted)).failed
    wait_served(cluster, kinds, 60)
    yield
    for item in wanted:
        cluster.delete(DEFINITIONS, item["metadata"]["name"])
    wait_for(lambda: not any(is_there(cluster, item["metadata"]["name"]) for item in wanted))


def is_there(cluster: Connection, definition: str) -> bool:
    return cluster.get(DEFINITIONS, definition) is not None


@pytest.fixture
def plugins(api_server: ApiServer, cluster: Connection) -> Iterator[None]:
    """Have our own server, none of somebody else, know what the scheduler plugins define."""
    del api_server
    with known(cluster, PLUGINS, APP_GROUPS, TOPOLOGIES):
        yield


@pytest.fixture
def claims_too(plugins: None, cluster: Connection) -> Iterator[None]:
    """Have it know claims and capacities as well."""
    del plugins
    with known(cluster, custom_resource_definitions(GROUP), CLAIMS, CAPACITIES):
        yield


@pytest.fixture
def granted(
    api_server: ApiServer, grant: Grant, namespace: str, capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Return a way to apply what `metronome claims rbac` prints."""

    def call(*arguments: str, seen: tuple[Kind, ...]) -> None:
        options = ["--namespace", namespace, "--user", ORDINARY, "--group", GROUP, *arguments]
        assert main(["claims", "rbac", *options]) == 0
        grant(yaml.safe_load_all(capsys.readouterr().out))
        with connect(api_server.kubeconfig(ORDINARY), namespace=namespace) as connection:
            wait_for(lambda: all(may_list(connection, kind) for kind in seen))

    return call


def objects(folder: Path) -> dict[tuple[str, str], Any]:
    return {
        (item["kind"], item["metadata"]["name"]): item["spec"]
        for file in folder.iterdir()
        if file.name not in ("crds.yaml", "kustomization.yaml")
        for item in yaml.safe_load_all(file.read_text())
    }


def held(cluster: Connection) -> dict[tuple[str, str], Any]:
    kinds = (CLAIMS, CAPACITIES, APP_GROUPS, TOPOLOGIES)
    return {
        (kind.kind, item["metadata"]["name"]): item["spec"]
        for kind in kinds
        for item in cluster.list(kind)
    }


@pytest.mark.usefixtures("claims_too")
def test_a_whole_export_is_applied_changed_and_deleted_with_the_rights_that_are_printed(
    ordinary: Run,
    granted: Callable[..., None],
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
) -> None:
    granted(seen=(CLAIMS, APP_GROUPS, TOPOLOGIES, CAPACITIES))
    folder = two_jobs_export(tmp_path / "out", namespace, group=GROUP)
    status, out, err = ordinary("apply", str(folder))
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "what jobs share: 3 created",
        f"job {namespace}/resnet50-0: 3 created",
        f"job {namespace}/vgg19-0-eb4e1677: 3 created",
        "in all 9 created",
    ]
    assert held(cluster) == objects(folder)
    assert ordinary("apply", str(folder))[:2] == (0, "nothing to do: 9 objects are so already\n")
    assert ordinary("status", str(folder))[0] == 0

    turned = {"VGG19_0": 0, "resnet50-0": 24}
    two_jobs_export(folder, namespace, group=GROUP, offsets=turned)
    status, out, _ = ordinary("apply", str(folder))
    # One job is turned; how far it is from the other, their cushion, changes in the claims of both.
    assert out.splitlines()[-1] == "in all 4 changed; 5 objects are so already"
    assert held(cluster) == objects(folder)

    assert ordinary("delete", str(folder))[0] == 0
    assert {kind for kind, _ in held(cluster)} == {"STBandwidthCapacity", "NetworkTopology"}
    assert ordinary("delete", str(folder), "--capacities")[0] == 0
    assert held(cluster) == {}


@pytest.mark.usefixtures("claims_too")
def test_jobs_of_all_namespaces_are_shown_and_deleted(
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reach = ["--kubeconfig", str(kubeconfig), "--group", GROUP]
    for place in (namespace, "default"):
        folder = two_jobs_export(tmp_path / place, place, group=GROUP)
        assert main(["claims", "apply", str(folder), *reach[:2]]) == 0
    capsys.readouterr()
    assert main(["claims", "status", "-A", "--json", *reach]) == 0
    jobs = ["resnet50-0", "vgg19-0-eb4e1677"]
    found = [(row["namespace"], row["job"]) for row in json.loads(capsys.readouterr().out)]
    assert found == [(place, job) for place in ("default", namespace) for job in jobs]
    assert main(["claims", "delete", "-A", "--job", jobs[0], *reach]) == 0
    assert {item["metadata"]["namespace"] for item in cluster.list(CLAIMS, ALL_NAMESPACES)} == {
        "default",
        namespace,
    }
    assert main(["claims", "delete", "-A", "--all", "--capacities", *reach]) == 0
    for kind in (CLAIMS, CAPACITIES, APP_GROUPS, TOPOLOGIES):
        assert cluster.list(kind, ALL_NAMESPACES) == []
    capsys.readouterr()
    assert main(["claims", "status", "-A", *reach]) == 0
    assert capsys.readouterr().out == "no claims in any namespace\n"


@pytest.mark.usefixtures("plugins")
def test_definitions_are_applied_and_deleted_with_the_rights_that_are_printed(
    ordinary: Run,
    granted: Callable[..., None],
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
) -> None:
    folder = str(two_jobs_export(tmp_path / "out", namespace, group=GROUP))
    granted("--definitions", seen=(APP_GROUPS, TOPOLOGIES))
    wait_for(lambda: ordinary("apply", folder, "--definitions", "--dry-run")[0] == 0)
    assert not is_there(cluster, CLAIMS.resource)
    (tmp_path / "out" / "crds.yaml").unlink()  # then they are those of this version
    assert ordinary("apply", folder, "--definitions")[0] == 0
    assert held(cluster) == objects(tmp_path / "out")
    status, out, _ = ordinary("apply", folder, "--definitions")
    assert (status, out) == (0, "nothing to do: 9 objects are so already\n")

    there = ("--namespace", namespace, "--group", GROUP)
    assert ordinary("delete", "--all", "--capacities", "--definitions", *there)[0] == 0
    names = [kind.resource for kind in (CLAIMS, CAPACITIES)]
    wait_for(lambda: not any(is_there(cluster, name) for name in names))
    assert cluster.list(APP_GROUPS) == cluster.list(TOPOLOGIES) == []
