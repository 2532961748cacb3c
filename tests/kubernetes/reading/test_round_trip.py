"""Manifests of a schedule read back as the same problem, running by that schedule."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.kubernetes import build_manifests
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import make_scenario
from metronome_opt.problem.instance import Job
from metronome_opt.scenario import Scenario, build_scenario
from tests.builders import schedule
from tests.fabrics import tree
from tests.kubernetes.reading.manifests import imported
from tests.scenario.test_tiers import TRAFFIC as WORKS
from tests.scenario.test_tiers import three_tiers
from tests.tiers import examples

SLOT_MS = 5
SLOTS = (4, 5, 6, 8, 12, 20)


@st.composite
def traffic(draw: st.DrawFn) -> dict[str, Any]:
    """Return one or two bursts on the grid."""
    period = draw(st.sampled_from(SLOTS))
    cuts = sorted(draw(st.sets(st.integers(0, period), min_size=2, max_size=4)))
    phases = [
        {"start_ms": start * SLOT_MS, "length_ms": (end - start) * SLOT_MS}
        | {"rate_mbps": draw(st.integers(1, 60_000))}
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return {"period_ms": period * SLOT_MS, "phases": phases}


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    racks = draw(st.integers(1, 3))
    cluster: dict[str, Any] = {
        "topology": "single-switch",
        "nodes": 2 * racks,
        "gpus": 12,  # whatever jobs are drawn, one node has room
        "nic_mbps": draw(st.integers(10, 100_000)),
        "gpu": {"name": "any", "sustained_tflops": {"value": 20, "assumed": "for the test"}},
    }
    if draw(st.booleans()):
        cluster |= {"topology": "leaf-spine", "racks": racks, "oversubscription": "2:1"}
    jobs = []
    for index in range(draw(st.integers(1, 3))):
        workers = draw(st.integers(2, 4))
        jobs.append(
            {
                "name": f"job {index}",
                "traffic": draw(traffic()),
                "workers": workers,
                "priority": draw(st.integers(0, 9)),
                "max_network_cost": draw(st.sampled_from([0, 7, 10_000])),
                "nodes": [f"node-{draw(st.integers(0, 2 * racks - 1)):02}" for _ in range(workers)],
            }
        )
    name = {"format": "metronome-scenario/1", "name": "any", "slot_ms": SLOT_MS}
    return Scenario.from_dict({**name, "cluster": cluster, "jobs": jobs})


@pytest.mark.slow
@examples(30, deadline=None)
@given(scenarios(), st.data())
def test_manifests_read_back_as_the_same_instance(scenario: Scenario, data: st.DataObject) -> None:
    problem = build_scenario(scenario)
    instance = problem.instance
    offsets = {job.name: data.draw(st.integers(0, job.period - 1)) for job in instance.jobs}
    manifests = build_manifests(instance, schedule(instance.name, offsets), problem.deployment)

    objects = Objects()
    for file, items in manifests.items():
        objects.add((file, item) for item in items)
    back = make_scenario(objects, ImportOptions(slot_ms=SLOT_MS)).problem

    def placed(job: Job) -> Job:
        """Return a job without its best nodes, which may have GPUs that manifests do not tell."""
        return job.model_copy(update={"current_offset": offsets[job.name], "best_ms": None})

    assert set(back.instance.links) == set(instance.links)
    assert {job.name: placed(job) for job in back.instance.jobs} == {
        job.name: placed(job) for job in instance.jobs
    }
    for job in back.instance.jobs:
        assert job.current_offset == offsets[job.name]
        assert back.instance.best_ms(job) >= instance.best_ms(instance.job(job.name))
    claimed = schedule(back.instance.name, offsets)
    again = build_manifests(back.instance, claimed, back.deployment)
    for one, other in zip(again["claims.yaml"], manifests["claims.yaml"], strict=True):
        assert one["spec"] == other["spec"]
        assert one["metadata"]["name"] == other["metadata"]["name"]
    assert again["appgroups.yaml"] == manifests["appgroups.yaml"]
    assert again["capacities.yaml"] == manifests["capacities.yaml"]


def test_costs_between_racks_that_were_exported_come_back() -> None:
    """Within a region costs are those of racks, beyond it the highest of its racks."""
    homes = {"a": "r0", "b": "r1", "c": "r2", "d": "r3"}
    ends = {("r0", "r1"): 5, ("r1", "r0"): 7, ("r2", "r3"): 10, ("r0", "r2"): 20, ("r1", "r2"): 9}
    costs = [{"origin": one, "destination": to, "cost": cost} for (one, to), cost in ends.items()]
    document = tree(homes, dict.fromkeys(homes.values()), zone_costs=costs)
    for node, region in zip(document["nodes"], ("w", "w", "e", "e"), strict=True):
        node["region"] = region
    asked = {"name": "j", "traffic": WORKS, "workers": 2, "nodes": ["a", "b"]}
    head = {"format": "metronome-scenario/1", "name": "s", "slot_ms": 10}
    stated = {**asked, "max_network_cost": 7}
    problem = build_scenario(Scenario.from_dict({**head, "cluster": document, "jobs": [stated]}))
    manifests = build_manifests(problem.instance, schedule("s", {"j": 0}), problem.deployment)
    back = imported(*chain(*manifests.values()), slot_ms=10).problem.deployment
    assert back.max_network_cost == {"j": 7}
    again = build_manifests(problem.instance, schedule("s", {"j": 0}), back)
    assert again["networktopology.yaml"] == manifests["networktopology.yaml"]
    assert back.cluster is not None
    far = dict.fromkeys((("r0", "r2"), ("r0", "r3"), ("r1", "r2"), ("r1", "r3")), 20)
    near = {pair: cost for pair, cost in ends.items() if pair not in far}
    assert dict(back.cluster.rack_cost) == {**near, **far}


def test_three_tiers_that_were_exported_come_back() -> None:
    document = three_tiers()
    nodes = ["a", "c", "e"]
    stated = {"name": "j", "traffic": WORKS, "workers": 3, "nodes": nodes}
    head = {"format": "metronome-scenario/1", "name": "s", "slot_ms": 10}
    problem = build_scenario(Scenario.from_dict({**head, "cluster": document, "jobs": [stated]}))
    manifests = build_manifests(problem.instance, schedule("s", {"j": 0}), problem.deployment)
    back = imported(*chain(*manifests.values()), slot_ms=10).problem
    assert dict(back.instance.jobs[0].links) == dict(problem.instance.jobs[0].links)
    assert len(problem.instance.jobs[0].links) == 8  # three interfaces, three leaves, two pods
