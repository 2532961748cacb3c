"""The claims in force in the words of the other parts: instance, schedule, deployment."""

from __future__ import annotations

from collections.abc import Iterable

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Link
from metronome_opt.scenario.deployment import Deployment, Task
from metronome_opt.schedule import Schedule, Status
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.verify import evaluate


def instance_of(state: ClusterState, jobs: Iterable[str] | None = None) -> Instance:
    """Return the claims in force as an instance, their offsets as the current ones.

    A link that has failed carries 1 Mbit/s there, since instances know no less.

    Parameters
    ----------
    jobs
        Only these, with the links that they cross; all jobs and all links if None.

    Raises
    ------
    InputError
        If there are no claims.
    """
    chosen = [state.claim(job) for job in (state.claims if jobs is None else jobs)]
    if not chosen:
        raise InputError(f"{state.cluster.name}: no claims are in force")
    flows = [state.flows(claim.job) for claim in chosen]
    crossed = {link for each in flows for link in each}
    return Instance(
        name=state.cluster.name,
        slot_ms=state.cluster.slot_ms,
        links=tuple(
            Link(name=link.name, capacity=max(1, carries))
            for link, carries in zip(state.cluster.links, state.capacity.tolist(), strict=True)
            if jobs is None or link.name in crossed
        ),
        jobs=tuple(
            claim.gang.job(links, stretch=claim.stretch, current_offset=claim.offset)
            for claim, links in zip(chosen, flows, strict=True)
        ),
    )


def schedule_of(state: ClusterState) -> Schedule:
    """Return the offsets and stretches in force as a schedule of `instance_of`, judged."""
    offsets = {job: claim.offset for job, claim in state.claims.items()}
    stretch = {job: claim.stretch for job, claim in state.claims.items()}
    evaluation = evaluate(instance_of(state), offsets, stretch)
    return Schedule(
        instance=state.cluster.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.FEASIBLE,
        objectives=evaluation.objectives,
        lower_bound=None,
        solver="place",
        seed=None,
        runtime_s=0.0,
    )


def deployment_of(state: ClusterState) -> Deployment:
    """Return the nodes, and where the tasks run."""
    cluster = state.cluster
    tasks = []
    for job, claim in state.claims.items():
        crossed = state.flows(job)
        for index, node in enumerate(claim.nodes):
            ways = cluster.links_of(cluster.hosts[node])
            tasks.append(Task(job, index, node, tuple(link for link in ways if link in crossed)))
    costs = {(way.origin, way.destination): way.cost for way in cluster.zone_costs}
    return Deployment(cluster.deployment_nodes(), tuple(tasks), costs)
