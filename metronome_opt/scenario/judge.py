"""Judgement of schedules: the places that they state, then all else at these places."""

from __future__ import annotations

from metronome_opt.instance import Instance
from metronome_opt.scenario.build import Problem, build_problem
from metronome_opt.scenario.model import Scenario
from metronome_opt.schedule import Schedule
from metronome_opt.verify import Violation, check, check_flows, check_places


def judge(
    source: Scenario | Instance, schedule: Schedule
) -> tuple[Problem | None, tuple[Violation, ...]]:
    """Return what a schedule solves, and all that it states falsely.

    A scenario is taken at the places of the schedule, for one that states none jobs
    without nodes are spread. With
    false places there is no problem.
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
    if schedule.places is not None:
        faults = check_flows(document, schedule.places, problem.instance)
    return problem, (*faults, *check(problem.instance, schedule))
