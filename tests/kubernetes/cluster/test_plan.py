"""Plans, and what becomes of them whatever fails: laws that need no server."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.carryout import carry_out
from metronome_opt.kubernetes.cluster.desired import JobKey
from metronome_opt.kubernetes.cluster.fields import Change, differences, former, is_so, stated
from metronome_opt.kubernetes.cluster.kinds import capacities_of, claims_of
from metronome_opt.kubernetes.cluster.plan import Verb, plan_apply, plan_delete
from metronome_opt.kubernetes.cluster.trial import try_out
from tests.kubernetes.cluster.exports import GROUP, capacity, claim, desired
from tests.kubernetes.cluster.fake import FakeCluster

CLAIMS, CAPACITIES = claims_of(GROUP), capacities_of(GROUP)
JOBS = ("a", "b", "c")


def held(*objects: Manifest) -> FakeCluster:
    cluster = FakeCluster()
    for item in objects:
        cluster.seed(CLAIMS if item["kind"] == CLAIMS.kind else CAPACITIES, item)
    return cluster


def live(cluster: FakeCluster) -> list[Manifest]:
    return [*cluster.list(CAPACITIES), *cluster.list(CLAIMS)]


def verbs(plan: Any) -> dict[str, list[str]]:
    return {
        str(part): [f"{action.verb.value} {action.name}" for action in part.actions]
        for part in plan.parts
    }


def test_what_is_missing_is_created_what_differs_changed_the_rest_left_alone() -> None:
    cluster = held(claim("a", 0), claim("b", 0, offset=0))
    wanted = desired(capacity("node-0"), claim("a", 0), claim("a", 1), claim("b", 0, offset=5000))
    plan = plan_apply(wanted, live(cluster))
    assert verbs(plan) == {
        "what jobs share": ["create node-0"],
        "job default/a": ["create a-1"],
        "job default/b": ["change b-0"],
    }
    assert plan.unchanged == 1


def test_claims_of_a_job_that_shrank_go_with_it_and_other_jobs_only_when_pruned() -> None:
    cluster = held(claim("a", 0), claim("a", 1), claim("b", 0))
    wanted = desired(claim("a", 0, offset=1000))
    assert verbs(plan_apply(wanted, live(cluster))) == {
        "job default/a": ["change a-0", "delete a-1"]
    }
    assert verbs(plan_apply(wanted, live(cluster), prune=True)) == {
        "job default/a": ["change a-0", "delete a-1"],
        "job default/b": ["delete b-0"],
    }


def test_what_does_not_carry_our_label_is_never_deleted() -> None:
    foreign = claim("a", 1)
    del foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    cluster = held(foreign, claim("a", 0))
    wanted = desired(claim("a", 0))
    assert plan_apply(wanted, live(cluster), prune=True).parts == ()
    gone = plan_delete(live(cluster), GROUP, jobs=None, shared=None)
    assert verbs(gone) == {"job default/a": ["delete a-0"]}


def test_only_the_jobs_that_are_named_are_deleted_and_what_they_share_last() -> None:
    cluster = held(capacity("node-0"), claim("a", 0), claim("b", 0))
    some = plan_delete(live(cluster), GROUP, jobs={JobKey("default", "b")})
    assert verbs(some) == {"job default/b": ["delete b-0"]}
    whole = plan_delete(live(cluster), GROUP, jobs=None, shared=None)
    assert list(verbs(whole)) == ["job default/a", "job default/b", "what jobs share"]


def test_jobs_of_the_same_name_in_two_namespaces_are_two() -> None:
    wanted = desired(claim("a", 0, "one"), claim("a", 0, "two"))
    assert list(wanted.jobs) == [JobKey("one", "a"), JobKey("two", "a")]
    assert wanted.namespaces == ["one", "two"]


def test_a_field_we_no_longer_state_makes_a_difference() -> None:
    before = claim("a", 0)
    before["spec"]["allocation"]["cushionMicroseconds"] = 7
    cluster = held(before)
    assert not is_so(claim("a", 0), live(cluster)[0])
    assert is_so(before, live(cluster)[0])


def test_a_job_that_loses_its_slots_and_gets_them_back_makes_a_difference() -> None:
    free = claim("a", 0)
    free["spec"]["allocation"]["gated"] = False
    cluster = held(claim("a", 0))
    for wanted, change in ((free, (None, False)), (claim("a", 0), (False, None))):
        (before,) = live(cluster)
        assert not is_so(wanted, before)
        assert differences(before, wanted) == (Change("spec.allocation.gated", *change),)
        assert not run(cluster, [wanted]).failed
        (after,) = live(cluster)
        assert is_so(wanted, after)
        assert ("gated" in after["spec"]["allocation"]) == (change[1] is False)


def test_a_value_of_somebody_else_is_not_ours() -> None:
    cluster = held(claim("a", 0))
    (item,) = live(cluster)
    item["metadata"]["managedFields"][0]["manager"] = "somebody"
    assert not is_so(claim("a", 0), item)


def test_differences_name_fields_and_leave_out_what_only_the_server_sets() -> None:
    before, after = claim("a", 0), claim("a", 0, offset=5000)
    after["metadata"]["resourceVersion"] = "7"
    after["status"] = {"observedGeneration": 3}
    after["spec"]["traffic"]["phases"][0]["rate"] = "20G"
    assert differences(before, after) == (
        Change("spec.traffic.phases[0].rate", "40G", "20G"),
        Change("spec.allocation.offsetMicroseconds", 0, 5000),
    )


def test_the_former_object_has_the_values_it_had_and_no_new_fields() -> None:
    before, after = claim("a", 0), claim("a", 0, offset=5000)
    after["spec"]["allocation"]["cushionMicroseconds"] = 7
    cluster = held(before)
    assert stated(former(live(cluster)[0], after)) == stated(before)


# ------------------------------------------------------------------ laws


@st.composite
def exports(draw: st.DrawFn) -> list[Manifest]:
    objects = [capacity("node-0", draw(st.sampled_from(["10G", "50G"])))]
    for job in JOBS:
        offset = draw(st.sampled_from([0, 5000]))
        objects += [claim(job, task, offset=offset) for task in range(draw(st.integers(0, 3)))]
    return objects


def run(cluster: FakeCluster, wanted: list[Manifest], *, prune: bool = True) -> Any:
    connection = cast(Connection, cluster)
    plan = plan_apply(desired(*wanted), live(cluster), prune=prune)
    trial = try_out(connection, plan, force=False)
    return carry_out(connection, trial.plan)


def of_job(objects: list[Manifest], job: str) -> list[Manifest]:
    return [
        item for item in objects if item["metadata"].get("labels", {}).get(f"{GROUP}/job") == job
    ]


def plain(objects: list[Manifest]) -> dict[str, Any]:
    return {item["metadata"]["name"]: stated(differing(item)) for item in objects}


def differing(item: Manifest) -> Manifest:
    item = copy.deepcopy(item)
    item["metadata"].pop("managedFields", None)
    return item


@settings(max_examples=50)
@given(exports(), exports())
def test_afterwards_the_cluster_holds_what_is_desired_and_a_second_run_does_nothing(
    before: list[Manifest], after: list[Manifest]
) -> None:
    cluster = held(*before)
    outcome = run(cluster, after)
    assert not outcome.failed
    assert not outcome.untried
    assert plain(cluster.list(CLAIMS)) == plain([i for i in after if i["kind"] == CLAIMS.kind])
    assert plan_apply(desired(*after), live(cluster), prune=True).parts == ()


@settings(max_examples=50)
@given(exports(), exports(), st.integers(0, 12), st.booleans(), st.booleans())
def test_whichever_request_fails_each_job_is_as_it_was_or_as_desired(
    before: list[Manifest], after: list[Manifest], number: int, passing: bool, late: bool
) -> None:
    cluster = held(*before)
    start = cluster.state()
    # An answer that is lost always looks as if it may pass: nobody saw a refusal.
    cluster.failures, cluster.passing, cluster.late = {number}, passing or late, late
    run(cluster, after)
    for job in JOBS:
        was = {name: item for (_, _, name), item in start.items()}
        now = of_job(cluster.list(CLAIMS), job)
        untouched = {
            item["metadata"]["name"]: item for item in of_job(list(was.values()), job)
        } == {item["metadata"]["name"]: item for item in now}
        assert untouched or plain(now) == plain(of_job(after, job))


@settings(max_examples=50)
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
    outcome = run(cluster, after)
    assert not outcome.failed
    assert plain(cluster.list(CLAIMS)) == plain([i for i in after if i["kind"] == CLAIMS.kind])


def test_a_job_that_fails_leaves_the_others() -> None:
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
    plan = plan_apply(desired(*(claim(job, 0) for job in JOBS)), [])
    outcome = carry_out(cast(Connection, cluster), plan, stopped=lambda: True)
    assert outcome.done == []
    assert len(outcome.untried) == 3
    assert cluster.objects == {}


@pytest.mark.parametrize("verb", list(Verb))
def test_an_outcome_counts_what_was_done(verb: Verb) -> None:
    cluster = held(claim("a", 0), claim("a", 1))
    outcome = run(cluster, [claim("a", 0, offset=5000), claim("a", 2)])
    assert outcome.count(verb) == 1
