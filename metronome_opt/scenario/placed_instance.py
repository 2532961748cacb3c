"""An instance with where its jobs run: nodes and links of their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import PoolBound
from metronome_opt.scenario.cluster import MAX_TASKS, Cluster, Paths
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_traffic import JobTraffic
from metronome_opt.scenario.nodes import LINK_SPEEDS, Node, Resources

_LISTED = 3  # remarks that are listed one by one


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
        By job on nodes with several interfaces, the flows into which a task's traffic is divided.
    max_network_cost
        By job, the largest network cost from a task to the next one; any if omitted.
    """

    cluster: Cluster
    tasks: tuple[Task, ...]
    parts: Mapping[str, int] = field(default_factory=dict)
    max_network_cost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_instance(cls, instance: Instance) -> Deployment:
        """Return the deployment that an instance suggests by itself: every link is a node's own.

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


@dataclass(frozen=True)
class PlacedInstance:
    """An instance with where its tasks run, from a scenario or from an instance file.

    Attributes
    ----------
    traffic, iterations
        The traffic of its jobs, and their iterations before rounding; empty for an instance file.
    placed
        Where the scenario's tasks run; None for an instance file.
    places, waiting
        The nodes that were chosen for the tasks of each job of a scenario, None if none were; and
        the jobs without feasible nodes, which are no part of the instance.
    paths
        The spines that the flows of each job cross; no entry for a job that crosses none, nor for
        any job where flows are sprayed.
    comparison
        Text on how these placements compare with the nearest ones; empty if nothing is known.
    pool
        The bound that a joint model proves for this placement; None without one.
    """

    instance: Instance
    traffic: tuple[JobTraffic, ...] = field(default=(), compare=False)
    iterations: tuple[Iteration, ...] = ()
    placed: Deployment | None = None
    places: Mapping[str, tuple[str, ...]] | None = None
    waiting: tuple[str, ...] = ()
    paths: Mapping[str, Paths] = field(default_factory=dict)
    comparison: str = ""
    pool: PoolBound | None = None

    @cached_property
    def deployment(self) -> Deployment:
        """The placements of the tasks; for an instance file those that the instance suggests."""
        return Deployment.of_instance(self.instance) if self.placed is None else self.placed

    @property
    def notes(self) -> list[str]:
        """Remarks on the problem, a line each."""
        # Where they were chosen, others are not better.
        notes = _overloads(self.instance) if self.places is None else []
        gpu = self.deployment.cluster.gpu
        if self.traffic and (gpu is None or gpu.link_mbps is None) and self._has_inner_traffic():
            of_what = "GPUs that are not named" if gpu is None else quote(gpu.name)
            gbps = f"{LINK_SPEEDS['PCIE']:g} Gbit/s inside a node are assumed"
            notes.append(f"cluster.gpu.link_gbps: not known of {of_what}; {gbps}")
        notes += [self.comparison] if self.comparison else []
        return notes + [f"{name} waits: no room is left for it" for name in self.waiting]

    def _has_inner_traffic(self) -> bool:
        """Return whether GPUs of a node may send to one another."""
        sending = [traffic for traffic in self.traffic if not traffic.step.is_stated]
        return any(place.gpus_per_node > 1 for traffic in sending for place in traffic.transports)


def _overloads(instance: Instance) -> list[str]:
    """Return a line for each job that overloads a link by itself, with the worst such link."""
    capacities = {link.name: link.capacity for link in instance.links}
    lines = []
    for job in instance.jobs:
        loads = ((Fraction(flows, capacities[link]), link) for link, flows in job.links.items())
        share, worst = max(loads, key=lambda load: load[0], default=(Fraction(0), ""))
        if share * job.peak > 1:
            lines.append(
                f"job {job.name} overloads {worst} by itself: {job.links[worst]} x {job.peak:,} "
                f"Mbit/s at once, {capacities[worst]:,} fit; no offset helps, other nodes or a "
                "lower rate do"
            )
    more = len(lines) - _LISTED
    return [*lines[:_LISTED], *([f"and {pluralise(more, 'job')} more"] if more > 0 else [])]
