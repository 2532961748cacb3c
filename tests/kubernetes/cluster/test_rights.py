"""The roles that are printed are enough, and nothing in them is too much."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import Connection, Kind, connect
from metronome_opt.kubernetes.cluster.objects import (
    capacities_of,
    claims_of,
    rbac_manifests,
)
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.cluster.conftest import Grant, Run
from tests.kubernetes.cluster.exports import GROUP, capacity, claim, write
from tests.kubernetes.cluster.server import ORDINARY, ApiServer, may_list, wait_for

CLAIMS, CAPACITIES = claims_of(GROUP), capacities_of(GROUP)


def test_the_roles_are_for_a_user_or_a_service_account(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims", "rbac", "--namespace", "team", "--user", "ann"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [item["kind"] for item in objects] == [
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    assert objects[0]["metadata"]["namespace"] == "team"
    assert objects[1]["subjects"] == [
        {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
    ]
    assert main(["claims", "rbac", "--serviceaccount", "ci:robot"]) == 0
    bound = list(yaml.safe_load_all(capsys.readouterr().out))[3]
    assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}]
    assert bound["roleRef"]["name"] == "metronome-opt"


def test_who_is_granted_rights_takes_none_from_others() -> None:
    users = ("ann", "Ann", "ci:robot", "a/b%c", "ann@example.org")
    subjects: list[dict[str, str]] = [
        *({"user": name} for name in users),
        *({"account": f"{space}:robot"} for space in ("ci", "default")),
    ]
    bindings = [
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for subject in subjects
        for namespace in ("default", "team")
        for definitions in (False, True)
        for item in rbac_manifests(
            GROUP,
            namespace,
            user=subject.get("user"),
            account=subject.get("account"),
            definitions=definitions,
        )
        if item["kind"].endswith("Binding")
    ]
    # With definitions or without, what is granted in the namespace is the same.
    assert len(set(bindings)) == len(subjects) * 2 * (1 + 2)
    assert not any(set("/%") & set(name) for _, _, name in bindings)


def test_the_roles_of_two_groups_stand_beside_each_other() -> None:
    named = [
        {(item["kind"], item["metadata"]["name"]) for item in rbac_manifests(group, "team")}
        for group in (GROUP, "claims.example.org")
    ]
    assert not named[0] & named[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--user", "a", "--serviceaccount", "b"],
        ["--serviceaccount", "A:b"],
        ["--namespace", "A"],
        ["--group", "a b"],
    ],
)
def test_what_means_nobody_is_refused_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", "rbac", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# ------------------------------------------------------------------ a real server


def objects(namespace: str, without: tuple[str, str]) -> list[Manifest]:
    found = copy.deepcopy(rbac_manifests(GROUP, namespace, user=ORDINARY))
    for item in found:
        if item["kind"].startswith("Cluster"):  # tests may run side by side
            item["metadata"]["name"] = namespace
        if item["kind"] == "ClusterRoleBinding":
            item["roleRef"]["name"] = namespace
        for rule in item.get("rules", ()):
            if rule["resources"] == [without[0]]:
                rule["verbs"].remove(without[1])
    for item in found[0], found[2]:  # by these the test sees when the server has taken notice
        item["rules"].append({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
        item["rules"].append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]})
    return found


def wait_for_rights(server: ApiServer, namespace: str) -> None:
    pods = Kind("v1", "Pod", "pods", namespaced=True)
    nodes = Kind("v1", "Node", "nodes", namespaced=False)
    with connect(server.kubeconfig(ORDINARY), namespace=namespace) as connection:
        wait_for(lambda: all(may_list(connection, kind) for kind in (pods, nodes)))


def export(folder: Path, namespace: str, tasks: int, offset: int = 0) -> str:
    return write(
        folder,
        capacity(f"node-{namespace}", f"{offset + 1}G"),
        *(claim("a", task, namespace, offset) for task in range(tasks)),
    )


def all_of(cluster: Connection) -> dict[str, Any]:
    return {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"]
        for kind in (CLAIMS, CAPACITIES)
        for item in cluster.list(kind)
    }


@pytest.mark.cluster
@pytest.mark.usefixtures("definitions")
def test_an_ordinary_user_is_told_the_right_that_is_missing_and_nothing_is_applied(
    ordinary: Run,
    api_server: ApiServer,
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
) -> None:
    folder = export(tmp_path / "out", namespace, 2)
    before = all_of(cluster)
    for command in ("apply", "diff", "status", "delete"):
        status, out, err = ordinary(command, folder)
        assert (status, out) == (1, "")
        assert err.startswith(f"metronome: error: {api_server.url}: ")
        assert f'cannot list resource "{CLAIMS.plural}"' in err
        assert f'"{namespace}"' in err
        assert err.count("\n") == 1
    assert all_of(cluster) == before


@pytest.mark.cluster
@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("verb", ["create", "delete", "list", "patch"])
@pytest.mark.parametrize("kind", [CLAIMS, CAPACITIES], ids=lambda kind: kind.plural)
def test_each_right_is_needed_and_told_if_it_is_missing(
    kind: Kind,
    verb: str,
    ordinary: Run,
    grant: Grant,
    api_server: ApiServer,
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
) -> None:
    grant(objects(namespace, without=(kind.plural, verb)))
    wait_for_rights(api_server, namespace)
    first = export(tmp_path / "first", namespace, 2)
    assert main(["claims", "apply", first, "--kubeconfig", str(api_server.kubeconfig())]) == 0
    before = all_of(cluster)
    # One object that is changed, one that is new, one that goes, of either kind.
    changed = export(tmp_path / "changed", namespace, 1, offset=5000)
    fresh = write(
        tmp_path / "fresh",
        capacity(f"node-{namespace}-new"),
        claim("b", 0, namespace),
    )
    commands: dict[str, list[str]] = {
        "create": ["apply", fresh],
        "delete": ["delete", first, "--capacities"],
        "list": ["apply", changed],
        "patch": ["apply", changed],
    }
    status, _, err = ordinary(*commands[verb])
    assert status == 1
    assert f" cannot {verb} resource " in err
    assert kind.plural in err
    assert "metronome claims rbac" in err
    assert err.count("\n") == 1
    assert all_of(cluster) == before
