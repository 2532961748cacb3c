"""Claims on a real API server: applied, changed, taken back, deleted."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.core.client import Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

from metronome_opt.kubernetes.cluster import ClusterError, Connection, Kind
from metronome_opt.kubernetes.cluster.connect import RefusedError
from metronome_opt.kubernetes.cluster.kubeconfig import read_kubeconfig
from metronome_opt.kubernetes.cluster.objects import JobKey, capacities_of, claims_of
from metronome_opt.kubernetes.cluster.plan import Action, Part, Plan, carry_out, plain
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.cluster.conftest import Run
from tests.kubernetes.cluster.exports import GROUP, capacity, claim, two_jobs_export, write

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

CLAIMS, CAPACITIES = claims_of(GROUP), capacities_of(GROUP)
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def operator(kubeconfig: Path, namespace: str) -> Iterator[Callable[..., None]]:
    """Return a way for somebody else to set fields of a claim."""
    resource = create_namespaced_resource(GROUP, "v1alpha1", CLAIMS.kind, CLAIMS.plural)
    client = Client(config=read_kubeconfig(kubeconfig, None), namespace=namespace)

    def change(name: str, patch: dict[str, Any]) -> None:
        client.patch(resource, name, patch, patch_type=PatchType.MERGE, field_manager="operator")

    yield change
    client.close()


def held(cluster: Connection) -> dict[str, Manifest]:
    return {item["metadata"]["name"]: item for item in cluster.list(CLAIMS)}


def versions(cluster: Connection) -> dict[str, str]:
    return {name: item["metadata"]["resourceVersion"] for name, item in held(cluster).items()}


def offsets(cluster: Connection) -> dict[str, int]:
    return {
        name: item["spec"]["allocation"]["offsetMicroseconds"]
        for name, item in held(cluster).items()
    }


# ------------------------------------------------------------------ what the server takes


def golden(file: str) -> list[Manifest]:
    return list(yaml.safe_load_all((GOLDEN / file).read_text()))


def test_the_server_takes_the_golden_objects(cluster: Connection, namespace: str) -> None:
    for kind, file in ((CAPACITIES, "capacities.yaml"), (CLAIMS, "claims.yaml")):
        for item in golden(file):
            if kind.namespaced:
                item["metadata"]["namespace"] = namespace
            stored = cluster.apply(kind, item, dry_run=True)
            assert stored["spec"] == item["spec"]


FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "spec.task": lambda spec: spec.update(task=-1),
    "spec.job": lambda spec: spec.update(job=""),
    "spec.traffic.priority": lambda spec: spec["traffic"].pop("priority"),
    "spec.traffic.phases": lambda spec: spec["traffic"].update(phases=[]),
    "rate": lambda spec: spec["traffic"]["phases"][0].update(rate="fast"),
    "spec.traffic.periodMicroseconds": lambda spec: spec["traffic"].update(
        periodMicroseconds="200"
    ),
    "spec.allocation.node": lambda spec: spec["allocation"].update(node="No Node"),
}


@pytest.mark.parametrize("place", FAULTS)
def test_the_server_refuses_an_object_with_a_fault(
    place: str, cluster: Connection, namespace: str
) -> None:
    item = claim("a", 0, namespace)
    FAULTS[place](item["spec"])
    with pytest.raises(ClusterError) as caught:
        cluster.apply(CLAIMS, item, dry_run=True)
    assert place in str(caught.value)
    assert not caught.value.passing


def test_the_server_drops_or_refuses_a_field_that_is_not_defined(
    cluster: Connection, namespace: str
) -> None:
    item = claim("a", 0, namespace)
    item["spec"]["unknown"] = 1
    with contextlib.suppress(RefusedError):  # 1.20 drops it, later releases refuse
        assert "unknown" not in cluster.apply(CLAIMS, item, dry_run=True)["spec"]


# ------------------------------------------------------------------ apply


def test_an_export_is_applied_once_and_for_all(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    folder = str(two_jobs_export(tmp_path / "out", namespace))
    status, out, err = run("apply", folder)
    assert (status, "in all" in out) == (0, True)
    assert "note: the cluster does not know AppGroup and NetworkTopology, so 3 objects" in err
    assert offsets(cluster) == {
        "resnet50-0-0": 100_000,
        "resnet50-0-1": 100_000,
        "vgg19-0-eb4e1677-0": 0,
        "vgg19-0-eb4e1677-1": 0,
    }
    before = versions(cluster)
    status, out, _ = run("apply", folder)
    assert (status, out) == (0, "nothing to do: 6 objects are so already\n")
    assert versions(cluster) == before
    assert run("diff", folder)[:2] == (0, "nothing to do\n")


def test_of_a_changed_job_only_its_objects_change(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    jobs = {job: [claim(job, task, namespace) for task in range(3)] for job in "ab"}
    run("apply", write(folder, *jobs["a"], *jobs["b"]))
    before = versions(cluster)
    moved = [claim("b", task, namespace, offset=5000) for task in range(2)]
    write(folder, *jobs["a"], *moved)
    status, out, _ = run("diff", str(folder))
    assert status == 1
    assert out.splitlines() == [
        f"change STBandwidthClaim {namespace}/b-0",
        "  spec.allocation.offsetMicroseconds: 0 -> 5000",
        f"change STBandwidthClaim {namespace}/b-1",
        "  spec.allocation.offsetMicroseconds: 0 -> 5000",
        f"delete STBandwidthClaim {namespace}/b-2",
    ]
    assert versions(cluster) == before
    status, out, _ = run("apply", str(folder))
    assert out == (
        f"job {namespace}/b: 2 changed, 1 deleted\n"
        "in all 2 changed, 1 deleted; 3 objects are so already\n"
    )
    after = versions(cluster)
    assert {name for name in before if before[name] != after.get(name)} == {"b-0", "b-1", "b-2"}


def test_a_dry_run_changes_nothing(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    status, out, _ = run("apply", write(tmp_path / "a", claim("a", 0, namespace)), "--dry-run")
    assert (status, out) == (0, f"job {namespace}/a: 1 to be created\n")
    assert held(cluster) == {}


def test_a_conflict_is_told_by_field_and_manager_and_nothing_is_applied(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path, operator: Callable[..., None]
) -> None:
    folder = tmp_path / "out"
    run("apply", write(folder, claim("a", 0, namespace), claim("b", 0, namespace)))
    operator("a-0", {"spec": {"allocation": {"offsetMicroseconds": 7000}}})
    wanted = [claim("a", 0, namespace, 5000), claim("b", 0, namespace, 5000)]
    status, out, err = run("apply", write(folder, *wanted))
    assert (status, out) == (1, "")
    line, end = err.splitlines()
    assert line.startswith(f"metronome: error: STBandwidthClaim {namespace}/a-0: others manage")
    for part in (".spec.allocation.offsetMicroseconds", '"operator"', "--force"):
        assert part in line
    assert end == "nothing is applied"
    assert offsets(cluster) == {"a-0": 7000, "b-0": 0}
    assert run("apply", str(folder), "--force")[0] == 0
    assert offsets(cluster) == {"a-0": 5000, "b-0": 5000}


def test_fields_of_others_stay(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path, operator: Callable[..., None]
) -> None:
    folder = tmp_path / "out"
    run("apply", write(folder, claim("a", 0, namespace)))
    operator("a-0", {"metadata": {"annotations": {"team": "vision"}}})
    assert run("apply", str(folder))[1] == "nothing to do: 1 object is so already\n"
    run("apply", write(folder, claim("a", 0, namespace, 5000)))
    assert held(cluster)["a-0"]["metadata"]["annotations"] == {"team": "vision"}


def test_a_namespace_that_does_not_exist(run: Run, namespace: str, tmp_path: Path) -> None:
    status, _, err = run("apply", write(tmp_path / "a", claim("a", 0, f"{namespace}-not")))
    assert status == 1
    assert f'"{namespace}-not" not found' in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------ taking back


def managers(item: Manifest) -> set[str]:
    """Return who manages what of an object, without times."""
    entries = item["metadata"]["managedFields"]
    return {json.dumps({**entry, "time": None}, sort_keys=True) for entry in entries}


def state(cluster: Connection) -> dict[str, Any]:
    """Return all that can be told apart of the claims: fields and managers."""
    return {name: (plain(item), managers(item)) for name, item in held(cluster).items()}


@pytest.mark.parametrize("force", [False, True])
def test_of_a_job_that_fails_midway_everything_is_taken_back(
    force: bool,
    run: Run,
    cluster: Connection,
    namespace: str,
    tmp_path: Path,
    operator: Callable[..., None],
) -> None:
    run("apply", write(tmp_path / "a", *(claim("a", task, namespace) for task in range(3))))
    operator("a-0", {"metadata": {"annotations": {"team": "vision"}}})
    operator("a-2", {"spec": {"traffic": {"priority": 9}}})
    if force:  # then the field of somebody else is taken, and has to be given back
        operator("a-0", {"spec": {"allocation": {"offsetMicroseconds": 7000}}})
    before, live = state(cluster), held(cluster)
    fresh = claim("a", 0, namespace, 5000)
    fresh["spec"]["allocation"]["cushionMicroseconds"] = 1000
    broken = claim("a", 9, namespace)
    broken["spec"]["task"] = -1
    changed = cluster.apply(CLAIMS, fresh, force=force, dry_run=True)
    actions = (
        Action(CLAIMS, fresh, live["a-0"], changed),
        Action(CLAIMS, None, live["a-2"]),
        Action(CLAIMS, claim("a", 8, namespace), None),
        Action(CLAIMS, broken, None),
    )
    plan = Plan((Part(JobKey(namespace, "a"), actions),))
    outcome = carry_out(cluster, plan, force=force)
    ((_, line),) = outcome.failed
    assert "spec.task" in line
    assert line.endswith("; what was applied of it is taken back")
    assert state(cluster) == before


def test_a_quota_that_only_the_second_claim_meets_leaves_no_half_job(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    allow(cluster, namespace, 3)
    jobs = [claim(job, task, namespace) for job in "abc" for task in range(2)]
    status, out, err = run("apply", write(tmp_path / "abc", *jobs))
    assert status == 1
    names = set(held(cluster))
    whole = [job for job in "abc" if {f"{job}-0", f"{job}-1"} <= names]
    assert names == {f"{job}-{task}" for job in whole for task in range(2)}
    assert len(whole) <= 1
    lines = err.splitlines()
    assert len(lines) == 3 - len(whole)
    for line in lines:
        assert "exceeded quota" in line
    assert out.count("created") == (2 if whole else 0)


def allow(cluster: Connection, namespace: str, most: int) -> None:
    """Set a quota of claims; without controllers its status is set by hand."""
    quotas = Kind("v1", "ResourceQuota", "resourcequotas", namespaced=True)
    limit = {f"count/{CLAIMS.resource}": str(most)}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": limit},
    }
    cluster.apply(quotas, quota)
    used = {"status": {"hard": limit, "used": dict.fromkeys(limit, "0")}}
    cluster.merge(quotas, "q/status", namespace, used)


# ------------------------------------------------------------------ status, delete


def test_status_shows_what_is_there_what_is_observed_and_whether_it_is_as_exported(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "a", claim("a", 0, namespace), claim("a", 1, namespace))
    run("apply", folder)
    condition = {
        "type": "Shifted",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Told",
        "message": "the job waits",
    }
    seen = {"status": {"observedPeriodMicroseconds": 201_000, "conditions": [condition]}}
    cluster.merge(CLAIMS, "a-1/status", namespace, seen)
    status, out, _ = run("status", folder, "--json")
    assert status == 0
    assert json.loads(out) == [
        {
            "namespace": namespace,
            "job": "a",
            "tasks": 2,
            "nodes": ["node-0", "node-1"],
            "offsets_us": [0],
            "periods_us": [200_000],
            "conditions": {"Shifted": 1},
            "observed_offsets_us": [],
            "observed_periods_us": [201_000],
            "as_exported": "yes",
        }
    ]
    assert run("apply", folder)[1] == "nothing to do: 2 objects are so already\n"
    write(tmp_path / "a", claim("a", 0, namespace), claim("b", 0, namespace))
    status, out, _ = run("status", folder, "--json")
    assert status == 1
    assert {row["job"]: row["as_exported"] for row in json.loads(out)} == {
        "a": "differs",
        "b": "not in the cluster",
    }


def test_delete_takes_only_what_is_asked_for_and_ours(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    node = f"node-{namespace}"
    objects = [capacity(node), *(claim(job, 0, namespace) for job in "abc")]
    folder = write(tmp_path / "abc", *objects)
    run("apply", folder)
    foreign = claim("x", 0, namespace)
    del foreign["metadata"]["labels"]
    cluster.apply(CLAIMS, foreign)
    there = ("--namespace", namespace)
    assert run("delete", "--job", "a", "--job", "none", *there)[:2] == (
        0,
        f"job {namespace}/a: 1 deleted\nin all 1 deleted\n",
    )
    assert run("delete", "--all", "--dry-run", *there)[0] == 0
    assert set(held(cluster)) == {"b-0", "c-0", "x-0"}
    run("delete", "--all", *there)
    assert set(held(cluster)) == {"x-0"}
    assert cluster.get(CAPACITIES, node) is not None
    run("delete", folder, "--capacities")
    assert cluster.get(CAPACITIES, node) is None
    assert run("delete", folder, "--capacities")[:2] == (0, "nothing to do\n")


def test_what_is_printed_for_programs_counts_and_names_jobs(
    run: Run, namespace: str, tmp_path: Path
) -> None:
    objects = [claim("a", task, namespace) for task in range(2)]
    _, out, _ = run("apply", write(tmp_path / "a", *objects), "--json")
    answer = json.loads(out)
    assert (answer["created"], answer["unchanged"], answer["dry_run"]) == (2, 0, False)
    assert answer["parts"] == [
        {
            "namespace": namespace,
            "job": "a",
            "state": "done",
            "created": 2,
            "changed": 0,
            "deleted": 0,
            "error": None,
        }
    ]


def test_kubectl_applied_the_same_before(
    run: Run, cluster: Connection, namespace: str, tmp_path: Path, operator: Callable[..., None]
) -> None:
    item = claim("a", 0, namespace)
    cluster.apply(CLAIMS, item)
    # Hand all that we manage to somebody else.
    entries = copy.deepcopy(held(cluster)["a-0"]["metadata"]["managedFields"])
    for entry in entries:
        entry["manager"], entry["operation"] = "kubectl-client-side-apply", "Update"
    operator("a-0", {"metadata": {"managedFields": entries}})
    folder = write(tmp_path / "a", item)
    status, out, _ = run("diff", folder)
    assert (status, out.splitlines()[1]) == (1, '  metadata.managedFields: none -> "metronome-opt"')
    assert run("apply", folder)[0] == 0
    entries = held(cluster)["a-0"]["metadata"]["managedFields"]
    assert {entry["manager"] for entry in entries} == {"kubectl-client-side-apply", "metronome-opt"}
    assert run("apply", folder)[1] == "nothing to do: 1 object is so already\n"
