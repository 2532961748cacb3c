"""The data of a page: the instance and the verified schedules, as JSON without loss.

A browser's numbers are exact up to 2**53. Numbers that the page counts with stay below; numbers
that may be larger, such as weights, are text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.metadata import version
from typing import Any

from metronome_opt.allocation.slots.iteration_times import iteration_times
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import dump_document
from metronome_opt.output.page.sources import Point
from metronome_opt.output.tables import nodes_by_job
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective
from metronome_opt.problem.result import relative_gap
from metronome_opt.problem.schedule import OBJECTIVES, Schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.verify import evaluate

_EXACT = 2**53


def page_data(problem: PlacedInstance, points: Sequence[Point]) -> dict[str, Any]:
    """Return the data of the page.

    Parameters
    ----------
    points
        True schedules of the problem.

    Raises
    ------
    InputError
        If numbers are too large for a browser to count with.
    """
    instance = problem.instance
    evaluations = [
        evaluate(
            instance,
            point.schedule.offsets,
            point.schedule.stretch,
            cushion_slots=point.schedule.cushion_slots,
            stretch_limit=point.schedule.stretch_limit,
        )
        for point in points
    ]
    _check_countable(instance, evaluations)
    before = {
        cushion_slots: None
        if instance.needs_stretch
        else evaluate(instance, instance.unshifted, cushion_slots=cushion_slots)
        for cushion_slots in {point.schedule.cushion_slots for point in points}
    }
    network = points[0].schedule.network
    return {
        "generator": f"metronome-opt {version('metronome-opt')}",
        "units": {name: find_objective(name).unit for name in OBJECTIVES},
        "instance": _instance(problem),
        "unshifted_ms": _times_ms(instance, Plan(instance.unshifted), network),
        "points": [
            _point(instance, point, truth, before[point.schedule.cushion_slots])
            for point, truth in zip(points, evaluations, strict=True)
        ],
    }


def embed_json(data: Mapping[str, Any]) -> str:
    """Return data as JSON without characters that are markup."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _check_countable(instance: Instance, evaluations: Sequence[Evaluation]) -> None:
    hyperperiods = [
        # Where unshifted jobs have too long a hyperperiod, they are not shown.
        max(report.hyperperiod, 1 if instance.needs_stretch else instance.hyperperiods[report.name])
        for truth in evaluations
        for report in truth.links
    ]
    longest = max((*hyperperiods, *(job.period + job.max_stretch for job in instance.jobs)))
    for link in instance.links:
        jobs = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        volume = longest * max(link.capacity, sum(job.links[link.name] * job.peak for job in jobs))
        if volume >= _EXACT:
            raise InputError(
                f"link {quote(link.name)}: may be asked for {quote(volume)} Mbit/s x slots, more "
                f"than a browser counts exactly ({_EXACT}); use coarser slots"
            )
    if longest * instance.slot_ms >= _EXACT:
        raise InputError(f"slot_ms: {quote(instance.slot_ms)}: too long for a page to show")


def _instance(problem: PlacedInstance) -> dict[str, Any]:
    instance, where = problem.instance, nodes_by_job(problem.placed)
    positions = {link.name: index for index, link in enumerate(instance.links)}
    return {
        "name": instance.name,
        "slot_ms": instance.slot_ms,
        "links": [{"name": link.name, "capacity": link.capacity} for link in instance.links],
        "jobs": [
            {
                "name": job.name,
                "period": job.period,
                "weight": str(job.weight),
                "ready": str(job.ready),
                "fixed": job.fixed_offset is not None,
                "current": job.current_offset,
                "unshifted": job.unshifted,
                "phases": [[phase.start, phase.length, phase.rate] for phase in job.phases],
                "links": [[positions[name], flows] for name, flows in job.links.items()],
                "where": where.get(job.name, "–"),
            }
            for job in instance.jobs
        ],
    }


def _point(
    instance: Instance, point: Point, truth: Evaluation, before: Evaluation | None
) -> dict[str, Any]:
    schedule = point.schedule
    # Simulated values are shown as stated.
    simulated = schedule.objectives.keys() - truth.objectives.keys()
    return {
        "label": point.path.name,
        "document": dump_document(schedule.to_dict()),
        "offsets": [schedule.offsets[job.name] for job in instance.jobs],
        "stretch": [schedule.stretch.get(job.name, 0) for job in instance.jobs],
        "longer": schedule.cushion_slots,
        "stretch_limit": _text(schedule.stretch_limit),
        "times_ms": _times_ms(
            instance, Plan.of(instance, schedule), schedule.network, schedule.expected_ms
        ),
        "status": str(schedule.status),
        "solver": schedule.solver,
        "seed": None if schedule.seed is None else str(schedule.seed),
        "runtime_s": schedule.runtime_s,
        "versions": list(schedule.versions.items()),
        "first": schedule.primary_objective,
        "stated": list(schedule.objectives),
        "lower_bound": _text(schedule.lower_bound),
        "gap": _text(_gap(schedule, truth)),
        "truth": {
            **_values(truth),
            **{name: _text(schedule.objectives[name]) for name in simulated},
        },
        "before": None if before is None else _values(before),
    }


def _times_ms(
    instance: Instance,
    plan: Plan,
    network: str | None,
    stated: Mapping[str, Fraction] | None = None,
) -> list[float]:
    """Return the iteration times of the jobs in ms, as stated or else simulated."""
    times = iteration_times(instance, plan, network) if stated is None else stated
    return [round(float(times[job.name]), 1) for job in instance.jobs]


def _gap(schedule: Schedule, truth: Evaluation) -> Fraction | None:
    """Return the gap of the first objective; a cushion is maximised and has none."""
    value = {**truth.objectives, **schedule.objectives}[schedule.primary_objective]
    if find_objective(schedule.primary_objective).maximised:
        return None
    return relative_gap(value, schedule.lower_bound)


def _values(truth: Evaluation) -> dict[str, str | None]:
    values = {**truth.objectives, "score_mean": truth.score_mean, "score_min": truth.score_min}
    return {name: _text(value) for name, value in values.items()}


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
