"""Placement of a job, or of all jobs of a scenario, in a cluster state."""

from __future__ import annotations

from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState
from metronome_opt.errors import InputError
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.model import Scenario
from metronome_opt.scheduling.cycle import Cycle, PlaceDecision, decide
from metronome_opt.scheduling.tree import place_on_tree


def place_job(state: ClusterState, gang: Gang) -> PlaceDecision | None:
    """Return the best place for all tasks of a job together; nothing is reserved yet.

    None if there is no room; `why_not` says why.

    Raises
    ------
    InputError
        If the job does not fit the cluster's hyperperiod, or runs already.
    """
    if gang.name in state.claims:
        raise InputError(f"{gang.name}: runs already; unreserve it first, or rename it")
    return place_on_tree(Cycle(state, gang))


def place_scenario(state: ClusterState, scenario: Scenario) -> None:
    """Reserve for the jobs of a scenario the nodes that its instance has, one after the other.

    They send what they send there, from the offset on that the scenario gives, else in the rotation
    that is best if every task counts in full, as for `place_job`. If there is no room for one of
    them, that is an `InputError`; those before it stay.
    """
    problem = build_scenario(scenario)
    nodes: dict[str, list[str]] = {}
    for task in problem.deployment.tasks:
        nodes.setdefault(task.job, []).append(task.node)
    for work, job in zip(scenario.jobs, problem.instance.jobs, strict=True):
        gang = Gang(
            name=job.name,
            tasks=len(nodes[job.name]),
            each=work.each,
            period=job.period,
            phases=job.phases,
            allreduce=work.algorithm,
            weight=job.weight,
            ready=job.ready,
            max_stretch=job.max_stretch,
        )
        there = tuple(nodes[job.name])
        claim = decide(Cycle(state, gang), map(state.node_index, there)).claim
        offset = job.current_offset if job.fixed_offset is None else job.fixed_offset
        changes = {"nodes": there, "offset": claim.offset if offset is None else offset}
        state.reserve(claim.model_copy(update=changes))
