"""Judgement of schedules: the places that they state, then all else at these places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metronome_opt.instance import Instance
from metronome_opt.scenario.build import Problem, build_problem
from metronome_opt.scenario.model import Scenario
from metronome_opt.schedule import Schedule
from metronome_opt.verify import Violation, check, check_instance, check_places


def judge(
    source: Scenario | Instance, schedule: Schedule
) -> tuple[Problem | None, tuple[Violation, ...]]:
    """Return what a schedule solves, and all that it states falsely.

    A scenario is taken at the places of the schedule; where it states none, jobs without nodes are
    spread. With false places there is no problem.
    """
    if isinstance(source, Instance):
        wrong = Violation("places", "nodes", "an instance has none; name its scenario")
        misplaced = () if schedule.places is None else (wrong,)
        return Problem(source), (*misplaced, *check(source, schedule))
    document = source.model_dump(mode="json", include={"cluster", "jobs"})
    faults = check_places(document, schedule)
    if faults:
        return None, faults
    problem = build_problem(source, schedule.places)
    faults = check_traffic(source, problem, schedule.places)
    return problem, (*faults, *check(problem.instance, schedule))


def check_traffic(
    scenario: Scenario, problem: Problem, places: Mapping[str, Sequence[str]] | None = None
) -> tuple[Violation, ...]:
    """Return where the instance of a problem is not that of its scenario at some places.

    The steps of jobs are those of the problem: what a model computes and sends is not checked, what
    becomes of it at a place is.

    Parameters
    ----------
    places
        The nodes of the tasks of each job; None for those that the problem was built with.
    """
    document: dict[str, Any] = scenario.model_dump(
        mode="json", include={"cluster", "jobs", "slot_ms", "hyperperiod_ms"}
    )
    document["cluster"]["link_mbps"] = scenario.cluster.inside_mbps
    known = {entry.traffic.job.name: entry.traffic for entry in problem.traffic}
    for job in document["jobs"]:
        if job["name"] in known:
            traffic = known[job["name"]]
            job |= {"step": traffic.step.model_dump(mode="json"), "algorithm": traffic.algorithm}
    if places is None:
        places = {name: traffic.job.nodes or () for name, traffic in known.items()}
    return check_instance(document, places, problem.instance)
