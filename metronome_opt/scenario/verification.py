"""Verify schedules of scenarios: their placement first, then all else at this placement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.scenario.spreading import spread
from metronome_opt.verify import (
    Violation,
    check_instance,
    check_paths,
    check_places,
    verify_schedule,
)


def verify_placed(
    source: Scenario | Instance, schedule: Schedule
) -> tuple[PlacedInstance | None, tuple[Violation, ...]]:
    """Return the problem that a schedule solves, and the violations of the schedule.

    The jobs of a scenario are placed as the schedule states; if it states no nodes, jobs without
    nodes are spread. There is no problem if the placement is false.
    """
    if isinstance(source, Instance):
        misplaced = [
            Violation(field, "nodes", "an instance has none; name its scenario")
            for field in ("places", "paths")
            if getattr(schedule, field) is not None
        ]
        return PlacedInstance(source), (*misplaced, *verify_schedule(source, schedule))
    faults = tuple(check_places(_document(source, {}), schedule))
    if faults:
        return None, faults
    placed = spread(source) if schedule.places is None else source.at(schedule.places)
    places = {job.name: job.nodes or () for job in placed.jobs}
    known = {traffic.job.name: traffic for traffic in read_traffic(placed)}
    faults = tuple(check_paths(_document(source, known), places, schedule.paths or {}))
    if faults:
        return None, faults
    problem = build_scenario(placed.at(places, schedule.paths), known)
    faults = check_traffic(source, problem, schedule.paths or ())
    return problem, (*faults, *verify_schedule(problem.instance, schedule))


def check_traffic(
    scenario: Scenario, problem: PlacedInstance, chosen: Collection[str] = ()
) -> tuple[Violation, ...]:
    """Return where the instance of a problem differs from that of its scenario at its placement.

    The steps of jobs are those of the problem: the computing and sending of a model is not checked,
    but what becomes of it at a placement.

    Parameters
    ----------
    chosen
        The jobs whose spines were chosen; flows of the others have those of their hashes.
    """
    known = {traffic.job.name: traffic for traffic in problem.traffic}
    document = _document(scenario, known)
    places = {name: traffic.job.nodes or () for name, traffic in known.items()}
    return (
        *(check_paths(document, places, problem.paths, chosen) if problem.paths else ()),
        *check_instance(document, places, problem.instance, problem.paths),
    )


def _document(scenario: Scenario, known: Mapping[str, JobTraffic]) -> dict[str, Any]:
    """Return a scenario as `verify` reads it."""
    document: dict[str, Any] = scenario.model_dump(
        mode="json", include={"cluster", "jobs", "slot_ms", "hyperperiod_ms"}
    )
    document["cluster"]["link_mbps"] = scenario.cluster.inside_mbps
    for job in document["jobs"]:
        if job["name"] in known:
            traffic = known[job["name"]]
            job |= {"step": traffic.step.model_dump(mode="json"), "algorithm": traffic.algorithm}
    return document
