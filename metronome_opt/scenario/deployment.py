"""Task placement: nodes and links of the tasks of an instance's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario.cluster import MAX_TASKS, Cluster
from metronome_opt.scenario.nodes import Node, Resources


@dataclass(frozen=True)
class Task:
    """One worker of a job, one pod of a cluster.

    Attributes
    ----------
    links
        The links that its traffic crosses, one for each flow; empty if what it sends stays inside
        its node.
    pod, namespace
        What the cluster calls its pod, and where that lives; None where unknown.
    """

    job: str
    index: int
    node: str
    links: tuple[str, ...]
    pod: str | None = None
    namespace: str | None = None


@dataclass(frozen=True)
class Deployment:
    """A cluster and the placed tasks of an instance.

    Attributes
    ----------
    parts
        Of jobs on nodes with several interfaces, into how many flows a task's traffic is divided.
    max_network_cost
        By job, the largest network cost from a task to the next one; any, where it is left out.
    """

    cluster: Cluster
    tasks: tuple[Task, ...]
    parts: Mapping[str, int] = field(default_factory=dict)
    max_network_cost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_instance(cls, instance: Instance) -> Deployment:
        """Return the deployment that an instance alone suggests: every link is a node's own.

        A job has one task for each of its flows, none where it has no link; too many are refused.
        """
        count = sum(sum(job.links.values()) for job in instance.jobs)
        if count > MAX_TASKS:
            raise InputError(
                f"{instance.name}: its jobs have {quote(count)} flows, more tasks than {MAX_TASKS}"
            )
        names = [link.name for link in instance.links]
        nodes = tuple(Node(name=name, has=Resources(), interface=name) for name in names)
        # Not validated, since instances may have no links, and clusters have nodes.
        cluster = Cluster.model_construct(nodes=nodes, links=instance.links)
        tasks = []
        for job in instance.jobs:
            places = [link for link, flows in job.links.items() for _ in range(flows)]
            tasks += [Task(job.name, index, link, (link,)) for index, link in enumerate(places)]
        return cls(cluster, tuple(tasks))
