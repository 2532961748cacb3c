"""Build an instance from a scenario: compute the traffic of its jobs, and round it to slots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from metronome_opt.errors import InputError, check_type, quote
from metronome_opt.problem.instance import INSTANCE_FORMAT, Instance, Job, default_limit
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.cluster_input import DEFAULT_HYPERPERIOD
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.placed_instance import Deployment, PlacedInstance, Task
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.scenario.spreading import free_gpus, spread

# Each has more divisors than any smaller number: so many more periods fit a hyperperiod.
_COMPOSITE = (
    *(2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040),
    *(7560, 10_080, 15_120, 20_160, DEFAULT_HYPERPERIOD),
)
_SEARCHED = 100_000  # slots up to which a hyperperiod is looked for
_LONGER = (0.05, 0.1, 0.2, 0.4, 1.0)  # shares of a period that a hyperperiod may add to it


def build_problem(
    source: Scenario | Instance,
    places: Mapping[str, Sequence[str]] | None = None,
    paths: Mapping[str, Paths] | None = None,
) -> PlacedInstance:
    """Return an instance, or a scenario as a schedule has it.

    Parameters
    ----------
    places
        The nodes of the tasks of each job of a scenario, without which a job is dropped; None for
        a schedule or a suite that states none, whose jobs are spread.
    paths
        The spines of flows, where they were chosen.
    """
    if isinstance(source, Instance):
        return PlacedInstance(source)
    if places is None:
        source = spread(source)
        places = {job.name: job.nodes or () for job in source.jobs}
    return build_scenario(source.at(places, paths))


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
    check_type("scenario", scenario, Scenario)
    slots, limit = scenario.hyperperiod_slots, default_limit()
    if slots is not None and slots > limit:
        raise InputError(
            f"hyperperiod_ms: {quote(scenario.hyperperiod_ms)}: is {quote(slots)} slots, above the "
            f"limit of {limit}; coarsen the slots or raise the limit"
        )
    cluster = scenario.cluster
    free_gpus(scenario)
    if known is None:
        known = {traffic.job.name: traffic for traffic in read_traffic(scenario)}
    tasks: list[Task] = []
    iterations: list[Iteration] = []
    jobs: list[Job] = []
    parts: dict[str, int] = {}
    paths: dict[str, Paths] = {}
    taken: Counter[str] = Counter()
    for index, spec in enumerate(scenario.jobs):
        if spec.nodes is None:
            raise InputError(
                f"jobs[{index}].nodes: missing; name the node of each task, or `allocate` them"
            )
        rails = cluster.next_rails(spec.nodes, spec.each.gpus, taken)
        placement, job = place_job(scenario, index, spec, known[spec.name], rails)
        jobs.append(job)
        iterations.append(known[spec.name].at(placement.transport))
        pods = spec.pods or (None,) * spec.workers
        tasks += [
            Task(spec.name, number, node, links, pod, spec.namespace)
            for number, (node, links, pod) in enumerate(
                zip(spec.nodes, placement.routes, pods, strict=True)
            )
        ]
        if placement.transport.flows > 1:
            parts[spec.name] = placement.transport.flows
        if placement.paths:
            paths[spec.name] = placement.paths
    document = {
        "format": INSTANCE_FORMAT,
        "name": scenario.name,
        "slot_ms": scenario.slot_ms,
        "links": [
            {"name": name, "capacity": left} for name, left in cluster.capacities.items() if left
        ],
        "jobs": jobs,
        "traffic_classes": cluster.traffic_classes,
        "network": cluster.network,
    }
    costs = {spec.name: spec.max_network_cost for spec in scenario.jobs}
    return PlacedInstance(
        Instance.from_dict(document),
        tuple(known[spec.name] for spec in scenario.jobs),
        tuple(iterations),
        Deployment(cluster, tuple(tasks), parts, costs),
        paths=paths,
    )


def place_job(
    scenario: Scenario,
    index: int,
    spec: JobSpec,
    traffic: JobTraffic,
    rails: Sequence[tuple[str, ...]],
) -> tuple[Placement, Job]:
    """Return a job on the nodes that it names: its placement, and the job of the instance.

    Parameters
    ----------
    scenario, index
        Its scenario, and its index there, which errors name.
    spec, traffic
        The job with its nodes, and its traffic wherever it runs.
    rails
        The interfaces of each task.

    Raises
    ------
    InputError
        If links, the hyperperiod or the period do not allow it.
    """
    cluster, slot_ms, slots = scenario.cluster, scenario.slot_ms, scenario.hyperperiod_slots
    try:
        placement = compute_placement(
            cluster,
            spec.nodes or (),
            traffic.algorithm,
            task_gpus=spec.each.gpus,
            rails=rails,
            paths=cluster.steer(spec.name, spec.paths),
        )
        if not placement.transport.rate:
            fault = f"{placement.bottleneck} carries nothing, so that {spec.name} has no network"
            raise InputError(f"nodes: {fault}; name others")
        if not placement.rate and not traffic.step.is_stated:
            raise InputError(
                f"workers: {spec.workers}: {placement.bottleneck} has less than 1 Mbit/s for each"
            )
        period = traffic.period(placement.transport, slot_ms, slots)
        offsets: dict[str, int | None] = {}
        for field, slack in (("fixed_offset", 0), ("current_offset", spec.max_stretch_ms)):
            value: int | None = getattr(spec, f"{field}_ms")
            longest = period * slot_ms + slack
            if value is not None and value >= longest:
                raise InputError(
                    f"{field}_ms: {quote(value)}: must be below the period of {longest} ms"
                )
            offsets[field] = None if value is None else value // slot_ms
    except InputError as error:
        raise InputError(f"jobs[{index}].{error}") from None
    best_ms = traffic.best_ms(placement.transport, slot_ms, slots)
    return placement, Job(
        name=spec.name,
        period=period,
        weight=spec.priority,
        ready=spec.ready_ms // slot_ms,
        max_stretch=spec.max_stretch_ms // slot_ms,
        phases=traffic.in_slots(placement.transport, slot_ms)[0],
        links=placement.links,
        jitter=traffic.jitter,
        best_ms=None if best_ms == period * slot_ms else best_ms,
        **offsets,
    )


def with_hyperperiod(scenario: Scenario) -> Scenario:
    """Return a scenario whose jobs all repeat together, and with others that come later.

    Its own hyperperiod, if it has one, stays. An `InputError` if the periods are too long for one.
    """
    if scenario.hyperperiod_ms is not None:
        return scenario
    limit = default_limit()
    periods = {job.period for job in build_scenario(spread(scenario)).instance.jobs}
    if (slots := common_hyperperiod(periods, limit)) is None:
        raise InputError(
            f"hyperperiod_ms: missing, and none of up to {limit} slots suits the periods; coarsen "
            "the slots or raise the limit"
        )
    most = min(limit, DEFAULT_HYPERPERIOD)
    many = max((number for number in _COMPOSITE if slots * number <= most), default=1)
    return scenario.model_copy(update={"hyperperiod_ms": slots * many * scenario.slot_ms})


def common_hyperperiod(periods: Collection[int], longest: int) -> int | None:
    """Return a hyperperiod of at most `longest` slots for some periods; None if there is none.

    That is their least common multiple, or if this is too long the shortest number that has a
    divisor close above each of them: longer by at most 5 %, or else by 10, 20, 40 or 100 %.
    """
    together = math.lcm(*periods)
    if together <= longest:
        return together
    import numpy as np  # few scenarios need it; help of commands is quick without

    first, last = max(periods), min(longest, max(_SEARCHED, 2 * max(periods)))
    if first > last:
        return None
    for share in _LONGER:
        suits = np.ones(last - first + 1, dtype=bool)
        for period in set(periods):
            near = np.zeros_like(suits)
            for divisor in range(period, min(last, math.floor(period * (1 + share))) + 1):
                near[-first % divisor :: divisor] = True
            suits &= near
        if suits.any():
            return first + int(suits.argmax())
    return None
