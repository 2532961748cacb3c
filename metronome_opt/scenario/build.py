"""Build an instance from a scenario: place the tasks, compute the traffic, round it to slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.files.records import read_document_as
from metronome_opt.problem.instance import INSTANCE_FORMAT, Instance, default_limit
from metronome_opt.problem.result import PoolBound
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.cluster_input import find_room
from metronome_opt.scenario.deployment import Deployment, Task
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.iteration import Iteration, SlottedIteration
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.nodes import ASSUMED
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, Scenario
from metronome_opt.scenario.workload import data_folder

_LISTED = 3  # remarks that are listed one by one


@dataclass(frozen=True)
class PlacedTraffic:
    """The traffic of a job at its place, in slots."""

    traffic: JobTraffic = field(compare=False)
    rounded: SlottedIteration

    @property
    def exact(self) -> Iteration:
        """The iteration before rounding."""
        return self.rounded.exact


@dataclass(frozen=True)
class PlacedInstance:
    """An instance with where its tasks run, from a scenario or from an instance file.

    Attributes
    ----------
    traffic
        How the traffic was computed, one entry per job; empty for an instance file.
    placed
        Where the scenario's tasks run; None for an instance file.
    places, waiting
        The nodes that were chosen for the tasks of each job of a scenario, None if none were; and
        the jobs that found no room, which are no part of the instance.
    paths
        The spines that the flows of each job cross; of jobs that cross none nothing, as of all
        where flows are sprayed.
    comparison
        Text on how these places compare with the nearest ones; empty if nothing is known.
    pool
        What a joint model proves of these places; None without one.
    """

    instance: Instance
    traffic: tuple[PlacedTraffic, ...] = ()
    placed: Deployment | None = None
    places: Mapping[str, tuple[str, ...]] | None = None
    waiting: tuple[str, ...] = ()
    paths: Mapping[str, Paths] = field(default_factory=dict)
    comparison: str = ""
    pool: PoolBound | None = None

    @cached_property
    def deployment(self) -> Deployment:
        """The places of the tasks; for an instance file those that the instance suggests."""
        return Deployment.of_instance(self.instance) if self.placed is None else self.placed

    @property
    def notes(self) -> list[str]:
        """Remarks on the problem, a line each."""
        # Where they were chosen, others are not better.
        notes = _overloads(self.instance) if self.places is None else []
        notes += self._assumed()
        notes += [self.comparison] if self.comparison else []
        notes += [f"{name} waits: no room is left for it" for name in self.waiting]
        return notes

    def _assumed(self) -> list[str]:
        """Return a line if it is not known how fast GPUs of a node send to one another."""
        cluster = self.deployment.cluster
        if not self.traffic or cluster.link_mbps is not None:
            return []
        sending = [entry.traffic for entry in self.traffic if not entry.traffic.step.is_stated]
        if all(place.gpus_per_node == 1 for each in sending for place in each.transports):
            return []
        of_what = "GPUs that are not named" if cluster.gpu is None else quote(cluster.gpu.name)
        gbps = f"{ASSUMED.gbps:g} Gbit/s inside a node are assumed"
        return [f"cluster.gpu.link_gbps: not known of {of_what}; {gbps}"]


def _overloads(instance: Instance) -> list[str]:
    """Return a line for each job that overloads a link by itself, with the worst such link."""
    capacities = {link.name: link.capacity for link in instance.links}
    lines = []
    for job in instance.jobs:
        worst = max(
            job.links, key=lambda link: Fraction(job.links[link], capacities[link]), default=None
        )
        if worst is not None and job.links[worst] * job.peak > capacities[worst]:
            lines.append(
                f"job {job.name} overloads {worst} by itself: {job.links[worst]} x {job.peak:,} "
                f"Mbit/s at once, {capacities[worst]:,} fit; no offset helps, other nodes or a "
                "lower rate do"
            )
    more = len(lines) - _LISTED
    return [*lines[:_LISTED], *([f"and {pluralise(more, 'job')} more"] if more > 0 else [])]


def build_problem(
    source: Scenario | Instance,
    places: Mapping[str, Sequence[str]] | None = None,
    paths: Mapping[str, Paths] | None = None,
) -> PlacedInstance:
    """Return an instance, or a scenario as a schedule has it.

    Parameters
    ----------
    places
        The nodes of the tasks of each job of a scenario, other jobs are left out; None for a
        schedule or a suite that states none, whose jobs are spread.
    paths
        The spines of flows, where they were chosen.
    """
    if isinstance(source, Instance):
        return PlacedInstance(source)
    if places is None:
        source = spread(source)
        places = {job.name: job.nodes or () for job in source.jobs}
    return build_scenario(source.at(places, paths))


def read_source(path: str | Path) -> Scenario | Instance:
    """Read an instance or a scenario, whichever the file says it is."""
    path = locate(path)
    return read_document_as(path, lambda document: _source_of(document, path.parent))


def locate(path: str | Path) -> Path:
    """Return where a scenario is: a file, or one that comes with the package, by its name."""
    shipped = data_folder() / "scenarios"
    if Path(path).exists():
        return Path(path)
    if (shipped / f"{path}.yaml").is_file():
        return shipped / f"{path}.yaml"
    if Path(path).name == str(path) and not Path(path).suffix:
        known = ", ".join(sorted(each.stem for each in shipped.glob("*.yaml")))
        raise InputError(f"{path}: cannot be read (no such file); scenarios by name are {known}")
    return Path(path)


def _source_of(document: Mapping[str, Any], folder: Path) -> Scenario | Instance:
    kind = document.get("format")
    if kind == SCENARIO_FORMAT:
        return Scenario.from_dict(document, folder=folder)
    if "format" in document and kind != INSTANCE_FORMAT:
        raise InputError(
            f"format: must be {quote(INSTANCE_FORMAT)} or {quote(SCENARIO_FORMAT)}, got "
            f"{quote(kind)}"
        )
    return Instance.from_dict(document)


def build_scenario(
    scenario: Scenario, known: Mapping[str, JobTraffic] | None = None
) -> PlacedInstance:
    """Turn a scenario whose jobs all say where they run into an instance.

    Without a hyperperiod the periods stay as they are.

    Parameters
    ----------
    known
        The traffic of its jobs, by name, if it was read before.

    Raises
    ------
    InputError
        If a job has no nodes, a model is not known, GPUs do not suffice, a job cannot be shared out
        among its workers, or periods do not fit the hyperperiod.
    """
    slots, limit = scenario.hyperperiod_slots, default_limit()
    if slots is not None and slots > limit:
        raise InputError(
            f"hyperperiod_ms: {quote(scenario.hyperperiod_ms)}: is {quote(slots)} slots, above the "
            f"limit of {limit}; coarsen the slots or raise the limit"
        )
    cluster = scenario.cluster
    _free_gpus(scenario)
    tasks: list[Task] = []
    entries: list[PlacedTraffic] = []
    jobs: list[dict[str, Any]] = []
    parts: dict[str, int] = {}
    paths: dict[str, Paths] = {}
    taken: Counter[str] = Counter()
    if known is None:
        known = {each.job.name: each for each in read_traffic(scenario)}
    for index, job in enumerate(scenario.jobs):
        traffic, nodes = known[job.name], job.nodes
        if nodes is None:
            raise InputError(
                f"jobs[{index}].nodes: missing; name the node of each task, or let `solve` choose"
            )
        each = job.each.gpus
        rails = cluster.next_rails(nodes, each, taken)
        try:
            placement = compute_placement(
                cluster,
                nodes,
                traffic.algorithm,
                task_gpus=each,
                rails=rails,
                paths=cluster.steer(job.name, job.paths),
            )
            if not placement.rate and not traffic.step.is_stated:
                raise InputError(
                    f"workers: {job.workers}: {placement.bottleneck} has less than 1 Mbit/s "
                    "for each"
                )
            rounded = traffic.rounded(placement.transport, scenario.slot_ms, slots)
        except InputError as error:
            raise InputError(f"jobs[{index}].{error}") from None
        entry = PlacedTraffic(traffic, rounded)
        entries.append(entry)
        pods = job.pods or (None,) * job.workers
        tasks += [
            Task(job.name, number, node, links, pod, job.namespace)
            for number, (node, links, pod) in enumerate(
                zip(nodes, placement.routes, pods, strict=True)
            )
        ]
        jobs.append(_job(scenario, index, entry, placement))
        if placement.transport.flows > 1:
            parts[job.name] = placement.transport.flows
        if placement.paths:
            paths[job.name] = placement.paths
    document = {
        "format": INSTANCE_FORMAT,
        "name": scenario.name,
        "slot_ms": scenario.slot_ms,
        "links": [{"name": name, "capacity": left} for name, left in cluster.capacities.items()],
        "jobs": jobs,
        "traffic_classes": cluster.traffic_classes,
        "network": cluster.network,
    }
    instance = Instance.from_dict(document)
    costs = {job.name: job.max_network_cost for job in scenario.jobs}
    deployment = Deployment(cluster, tuple(tasks), parts, costs)
    return PlacedInstance(instance, tuple(entries), deployment, paths=paths)


def _job(
    scenario: Scenario, index: int, entry: PlacedTraffic, placement: Placement
) -> dict[str, Any]:
    """Return one job of the instance as a document."""
    job, rounded = scenario.jobs[index], entry.rounded
    offsets: dict[str, int | None] = {}
    for which, slack in (("fixed_offset", 0), ("current_offset", job.max_stretch_ms)):
        value: int | None = getattr(job, f"{which}_ms")
        longest = rounded.period * scenario.slot_ms + slack
        if value is not None and value >= longest:
            raise InputError(
                f"jobs[{index}].{which}_ms: {quote(value)}: must be below the period of {longest} "
                "ms"
            )
        offsets[which] = None if value is None else value // scenario.slot_ms
    best_ms = entry.traffic.best_ms(
        placement.transport, scenario.slot_ms, scenario.hyperperiod_slots
    )
    is_other = best_ms != rounded.period * scenario.slot_ms
    return {
        "name": job.name,
        "period": rounded.period,
        "weight": job.priority,
        "ready": job.ready_ms // scenario.slot_ms,
        "max_stretch": job.max_stretch_ms // scenario.slot_ms,
        "phases": [phase.model_dump() for phase in rounded.phases],
        "links": dict(placement.links),
        "jitter": entry.traffic.jitter,
        "best_ms": best_ms if is_other else None,
        **offsets,
    }


def _free_gpus(scenario: Scenario) -> Counter[str]:
    """Return the GPUs that jobs leave free where they say that they run."""
    has = scenario.cluster.gpus_of
    free = Counter(has)
    for index, job in enumerate(scenario.jobs):
        for node in job.nodes or ():
            free[node] -= job.each.gpus
            if free[node] < 0:
                raise InputError(
                    f"jobs[{index}].nodes: {node} has {pluralise(has[node], 'GPU')} and more "
                    "tasks; move one elsewhere"
                )
    return free


def spread(scenario: Scenario) -> Scenario:
    """Return a scenario whose jobs without nodes are spread by free GPUs, see `find_room`.

    That is what a scheduler does that knows nothing of the network.

    Raises
    ------
    InputError
        If GPUs do not suffice.
    """
    free, jobs = _free_gpus(scenario), list(scenario.jobs)
    waiting = [index for index, job in enumerate(jobs) if job.nodes is None]
    rooms = find_room(free, [(jobs[index].workers, jobs[index].each.gpus) for index in waiting])
    for index, nodes in zip(waiting, rooms, strict=True):
        each = jobs[index].each.gpus
        free.subtract({node: each * count for node, count in Counter(nodes).items()})
        jobs[index] = jobs[index].model_copy(update={"nodes": nodes})
    for index, job in enumerate(jobs):
        if job.nodes is None:
            left = f"no room; free: {pluralise(free.total(), 'GPU')}"
            if job.each.gpus > 1:
                room = sum(count // job.each.gpus for count in free.values())
                left += f", room for {pluralise(room, 'worker')} of {job.each.gpus}"
            raise InputError(f"jobs[{index}].workers: {job.workers}: {left}")
    return scenario.model_copy(update={"jobs": tuple(jobs)})
