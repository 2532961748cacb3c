"""The objects of one schedule: a capacity for each node, a claim for each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from metronome_opt.instance import Instance, Job
from metronome_opt.kubernetes.crd import CAPACITY, CLAIM, VERSION
from metronome_opt.kubernetes.names import Naming
from metronome_opt.kubernetes.quantities import quantity
from metronome_opt.scenario.deployment import Deployment, Task
from metronome_opt.schedule import Schedule
from metronome_opt.verify import LinkReport, evaluate


def capacities(instance: Instance, deployment: Deployment, naming: Naming) -> list[dict[str, Any]]:
    """Return one STBandwidthCapacity per node, in the order of their names.

    Calling a link ``Node`` if it is the first of its node and of no other one is a choice of ours;
    any other link is ``Shared``. The node's rack and region stand in the well-known topology
    labels.
    """
    carries = {link.name: quantity(link.capacity) for link in instance.links}
    crossed_by = Counter(link for node in deployment.nodes for link in node.links)
    objects = []
    for node in sorted(deployment.nodes, key=lambda node: naming.nodes[node.name]):
        name = naming.nodes[node.name]
        zone = naming.racks.get(node.rack or "")
        region = naming.regions.get(node.region or "")
        places = {"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone}
        objects.append(
            {
                "apiVersion": f"{naming.group}/{VERSION}",
                "kind": CAPACITY,
                "metadata": naming.metadata(
                    name,
                    namespaced=False,
                    labels={key: value for key, value in places.items() if value is not None},
                    originals={
                        "node": (node.name, name),
                        "rack": (node.rack, zone),
                        "region": (node.region, region),
                    },
                ),
                "spec": {
                    "links": [
                        {
                            "name": link,
                            "capacity": carries[link],
                            "scope": "Node" if index == 0 and crossed_by[link] == 1 else "Shared",
                        }
                        for index, link in enumerate(node.links)
                    ]
                },
            }
        )
    return objects


def claims(
    instance: Instance, schedule: Schedule, deployment: Deployment, naming: Naming
) -> list[dict[str, Any]]:
    """Return one STBandwidthClaim per task, in the order of job names and indices.

    That a claim is called like the pod it is for is a choice of ours. Where a cushion was reserved,
    traffic and cushion are still those of the bursts as they are, and the reserve stands beside.
    """
    judged = evaluate(
        instance, schedule.offsets, schedule.stretch, stretch_limit=schedule.stretch_limit
    )
    reports = {report.name: report for report in judged.links}
    tasks = sorted(deployment.tasks, key=lambda task: (naming.jobs[task.job], task.index))
    return [_claim(instance, schedule, task, naming, reports) for task in tasks]


def _claim(
    instance: Instance,
    schedule: Schedule,
    task: Task,
    naming: Naming,
    reports: Mapping[str, LinkReport],
) -> dict[str, Any]:
    job = instance.job(task.job)
    label = naming.jobs[task.job]
    node = naming.nodes[task.node]
    return {
        "apiVersion": f"{naming.group}/{VERSION}",
        "kind": CLAIM,
        "metadata": naming.metadata(
            naming.task(task),
            job=task.job,
            labels={f"{naming.group}/job": label},
            originals={"job": (task.job, label), "node": (task.node, node)},
        ),
        "spec": {
            "job": task.job,
            "task": task.index,
            "traffic": _traffic(job, instance.slot_ms),
            "allocation": _allocation(job, schedule, task, node, reports, instance.slot_ms),
        },
    }


def _traffic(job: Job, slot_ms: int) -> dict[str, Any]:
    return {
        "periodMicroseconds": _microseconds(job.period, slot_ms),
        "phases": [
            {
                "startMicroseconds": _microseconds(phase.start, slot_ms),
                "lengthMicroseconds": _microseconds(phase.length, slot_ms),
                "rate": quantity(phase.rate),
            }
            for phase in sorted(job.phases, key=lambda phase: phase.start)
        ],
        "priority": job.weight,
    }


def _allocation(
    job: Job,
    schedule: Schedule,
    task: Task,
    node: str,
    reports: Mapping[str, LinkReport],
    slot_ms: int,
) -> dict[str, Any]:
    stretch = schedule.stretch.get(job.name, 0)
    report = reports[task.links[0]] if task.links else None
    cushion = report.cushion if report else None
    reserved = schedule.cushion_slots
    hyperperiod = report.hyperperiod if report else job.period + stretch
    gated = (schedule.gated or {}).get(job.name, True)
    return {
        "node": node,
        **({"link": report.name} if report else {}),
        "offsetMicroseconds": _microseconds(schedule.offsets[job.name], slot_ms),
        "stretchMicroseconds": _microseconds(stretch, slot_ms),
        **({} if cushion is None else {"cushionMicroseconds": _microseconds(cushion, slot_ms)}),
        **({"reservedCushionMicroseconds": _microseconds(reserved, slot_ms)} if reserved else {}),
        "hyperperiodMicroseconds": _microseconds(hyperperiod, slot_ms),
        **({} if gated else {"gated": False}),
    }


def _microseconds(slots: int, slot_ms: int) -> int:
    return slots * slot_ms * 1000
