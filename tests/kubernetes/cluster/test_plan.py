"""Plans, and what becomes of them whatever fails: laws that need no server."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.cluster import Connection, UnknownKindError
from metronome_opt.kubernetes.cluster.objects import (
    DEFINITIONS,
    JobKey,
    capacities_of,
    claims_of,
)
from metronome_opt.kubernetes.cluster.plan import (
    Outcome,
    Plan,
    carry_out,
    plain,
    plan_apply,
    plan_delete,
    try_out,
    wait_served,
)
from metronome_opt.kubernetes.schemas import Manifest, custom_resource_definitions
from tests.kubernetes.cluster.exports import GROUP, capacity, claim, desired
from tests.kubernetes.cluster.fake import FakeCluster
from tests.tiers import examples

CLAIMS, CAPACITIES = claims_of(GROUP), capacities_of(GROUP)
JOBS = ("a", "b", "c")


def held(*objects: Manifest) -> FakeCluster:
    cluster = FakeCluster()
    for item in objects:
        cluster.seed(CLAIMS if item["kind"] == CLAIMS.kind else CAPACITIES, item)
    return cluster


def planned(cluster: FakeCluster, *wanted: Manifest, prune: bool = False) -> Plan:
    connection = cast(Connection, cluster)
    return try_out(connection, plan_apply(connection, desired(*wanted), prune=prune))


def deleted(cluster: FakeCluster, **what: Any) -> Plan:
    return plan_delete(cast(Connection, cluster), GROUP, **what)


def verbs(plan: Plan) -> dict[str, list[str]]:
    return {
        str(part): [f"{action.verb} {action.name}" for action in part.actions]
        for part in plan.parts
    }


def foreign(job: str, task: int, namespace: str = "default") -> Manifest:
    item = claim(job, task, namespace)
    del item["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    return item


def test_what_is_missing_is_created_what_differs_changed_the_rest_left_alone() -> None:
    cluster = held(claim("a", 0), claim("b", 0, offset=0))
    wanted = capacity("node-0"), claim("a", 0), claim("a", 1), claim("b", 0, offset=5000)
    plan = planned(cluster, *wanted)
    assert verbs(plan) == {
        "what jobs share": ["create node-0"],
        "job default/a": ["create a-1"],
        "job default/b": ["change b-0"],
    }
    assert plan.unchanged == 1


@pytest.mark.parametrize("prune", [False, True])
def test_claims_of_a_job_that_shrank_go_with_it_and_other_jobs_only_when_pruned(
    prune: bool,
) -> None:
    cluster = held(claim("a", 0), claim("a", 1), foreign("a", 2), claim("b", 0), foreign("c", 0))
    pruned = {"job default/b": ["delete b-0"]} if prune else {}
    assert verbs(planned(cluster, claim("a", 0, offset=1000), prune=prune)) == {
        "job default/a": ["change a-0", "delete a-1"],
        **pruned,
    }


def test_a_field_that_is_stated_no_longer_goes_and_one_of_somebody_else_becomes_ours_too() -> None:
    free = claim("a", 0)
    free["spec"]["allocation"]["gated"] = False
    cluster = held(claim("a", 0))
    for wanted, before, after in ((free, None, False), (claim("a", 0), False, None)):
        ((action,),) = (part.actions for part in planned(cluster, wanted).parts)
        assert action.differences() == [("spec.allocation.gated", before, after)]
        assert not run(cluster, [wanted]).failed
        assert planned(cluster, wanted).parts == ()
    (item,) = cluster.objects.values()
    item["metadata"]["managedFields"][0]["manager"] = "somebody"
    ((action,),) = (part.actions for part in planned(cluster, claim("a", 0)).parts)
    assert action.differences() == [("metadata.managedFields", None, "metronome-opt")]


# ------------------------------------------------------------------ deleting


@pytest.fixture
def two_namespaces() -> FakeCluster:
    """Return a cluster with claims of jobs a and b in two namespaces."""
    cluster = held(capacity("node-0"), foreign("a", 1), claim("b", 0, "team"))
    for item in custom_resource_definitions(GROUP):
        cluster.seed(DEFINITIONS, item)
    for namespace in ("default", "team"):
        cluster.seed(CLAIMS, claim("a", 0, namespace))
    return cluster


@pytest.mark.parametrize(
    ("what", "jobs"),
    [
        ({}, ["default/a"]),
        ({"names": ["a"]}, ["default/a"]),
        ({"names": ["b"]}, []),
        ({"names": ["a"], "everywhere": True}, ["default/a", "team/a"]),
        ({"everywhere": True}, ["default/a", "team/a", "team/b"]),
        ({"desired": desired(claim("b", 0, "team"), capacity("node-0"))}, ["team/b"]),
    ],
)
@pytest.mark.parametrize("capacities", [False, True])
def test_only_what_is_meant_and_ours_is_deleted_and_what_jobs_share_last(
    what: dict[str, Any], jobs: list[str], capacities: bool, two_namespaces: FakeCluster
) -> None:
    parts = [f"job {job}" for job in jobs] + ["what jobs share"] * capacities
    plan = deleted(two_namespaces, capacities=capacities, **what)
    assert [str(part) for part in plan.parts] == parts
    assert {line for lines in verbs(plan).values() for line in lines} <= {
        *(f"delete {job}-0" for job in "ab"),
        "delete node-0",
    }


def test_definitions_stay_while_others_have_claims(two_namespaces: FakeCluster) -> None:
    whole = {"capacities": True, "definitions": True}
    with pytest.raises(InputError, match="STBandwidthClaim default/a-1 would be deleted with"):
        deleted(two_namespaces, everywhere=True, **whole)
    del two_namespaces.objects[CLAIMS, "default", "a-1"]
    with pytest.raises(InputError, match="STBandwidthClaim team/b-0 would be deleted with"):
        deleted(two_namespaces, **whole)
    *_, shared = deleted(two_namespaces, everywhere=True, **whole).parts
    kinds = [action.kind for action in shared.actions]
    assert kinds == [CAPACITIES, DEFINITIONS, DEFINITIONS]


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "-A", "--namespace", "team"],
        ["status", "manifests", "-A"],
        ["delete", "--all", "-A", "--namespace", "team"],
        ["delete", "manifests", "-A"],
        ["delete"],
        ["delete", "--all", "--job", "a"],
        ["delete", "--all", "--definitions"],
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_definitions_are_waited_for_until_they_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    asked: list[object] = []

    def refuse(kind: object, **_: object) -> list[Manifest]:
        asked.append(kind)
        if len(asked) < 3:
            raise UnknownKindError("not yet")
        return []

    monkeypatch.setattr(cluster, "list", refuse)
    wait_served(cast(Connection, cluster), [CLAIMS, CAPACITIES], 60)
    assert asked == [CLAIMS, CLAIMS, CLAIMS, CAPACITIES]
    asked.clear()
    with pytest.raises(UnknownKindError):
        wait_served(cast(Connection, cluster), [CLAIMS], 0)


# ------------------------------------------------------------------ laws


@st.composite
def exports(draw: st.DrawFn) -> list[Manifest]:
    objects = [capacity("node-0", draw(st.sampled_from(["10G", "50G"])))]
    for job in JOBS:
        offset = draw(st.sampled_from([0, 5000]))
        # An export has a claim, which says where its jobs are.
        tasks = draw(st.integers(1 if job == "a" else 0, 3))
        objects += [claim(job, task, offset=offset) for task in range(tasks)]
    return objects


def run(cluster: FakeCluster, wanted: list[Manifest]) -> Outcome:
    return carry_out(cast(Connection, cluster), planned(cluster, *wanted, prune=True))


def of_job(objects: list[Manifest], job: str) -> dict[str, Manifest]:
    return {
        item["metadata"]["name"]: item
        for item in objects
        if item["metadata"].get("labels", {}).get(f"{GROUP}/job") == job
    }


def stated(objects: list[Manifest], job: str) -> dict[str, Manifest]:
    return {name: plain(item) for name, item in of_job(objects, job).items()}


def holds(cluster: FakeCluster, wanted: list[Manifest]) -> bool:
    return all(stated(cluster.list(CLAIMS), job) == stated(wanted, job) for job in JOBS)


@examples(50)
@given(exports(), exports())
def test_afterwards_the_cluster_holds_what_is_desired_and_a_second_run_does_nothing(
    before: list[Manifest], after: list[Manifest]
) -> None:
    cluster = held(*before)
    outcome = run(cluster, after)
    assert not outcome.failed
    assert not outcome.untried
    assert holds(cluster, after)
    assert planned(cluster, *after, prune=True).parts == ()


@examples(50)
@given(exports(), exports(), st.integers(0, 12), st.booleans(), st.booleans())
def test_whichever_request_fails_each_job_is_as_it_was_or_as_desired(
    before: list[Manifest], after: list[Manifest], number: int, passing: bool, late: bool
) -> None:
    cluster = held(*before)
    start = list(cluster.state().values())
    # An answer that is lost always looks as if it may pass: nobody saw a refusal.
    cluster.failures, cluster.passing, cluster.late = {number}, passing or late, late
    run(cluster, after)
    now = cluster.list(CLAIMS)
    for job in JOBS:
        untouched = of_job(now, job) == of_job(start, job)  # their managers, too
        assert untouched or stated(now, job) == stated(after, job)


@examples(50)
@given(exports(), exports(), st.integers(0, 12), st.booleans())
def test_after_any_failure_the_next_run_completes(
    before: list[Manifest], after: list[Manifest], number: int, late: bool
) -> None:
    cluster = held(*before)
    # From then on everything fails, taking back included, as if the server were gone.
    cluster.failures, cluster.passing = set(range(number, 1000)), True
    cluster.late = late
    run(cluster, after)
    cluster.failures = set()
    assert not run(cluster, after).failed
    assert holds(cluster, after)


def test_a_job_that_fails_is_taken_back_in_one_line() -> None:
    cluster = FakeCluster(failures={1})
    outcome = run(cluster, [claim("a", 0), claim("a", 1), claim("a", 2)])
    assert cluster.list(CLAIMS) == []
    assert [line for _, line in outcome.failed] == [
        "job default/a: https://fake: broken; what was applied of it is taken back"
    ]


def test_where_what_jobs_share_fails_no_job_is_begun() -> None:
    cluster = FakeCluster(failures={0})
    outcome = run(cluster, [capacity("node-0"), claim("a", 0)])
    assert [part.job for part in outcome.untried] == [JobKey("default", "a")]
    assert cluster.objects == {}


def test_a_run_that_is_stopped_begins_no_further_job() -> None:
    cluster = FakeCluster()
    plan = planned(cluster, *(claim(job, 0) for job in JOBS))
    outcome = carry_out(cast(Connection, cluster), plan, stopped=lambda: True)
    assert outcome.done == []
    assert len(outcome.untried) == 3
    assert cluster.objects == {}
