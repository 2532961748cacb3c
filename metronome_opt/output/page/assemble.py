"""A page: scripts, style, markup, and schedules as JSON, in one file that needs no network.

The data are without loss. A browser's numbers are exact up to 2**53. Numbers that the page counts
with stay below; numbers that may be larger, such as weights, are text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from metronome_opt.allocation.slots.iteration_times import iteration_times
from metronome_opt.allocation.slots.plan import Plan, mean_slowdown
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import dump_document
from metronome_opt.output.page.sources import Point
from metronome_opt.output.tables import CUSHION_LEGEND, nodes_by_job
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective, format_number
from metronome_opt.problem.result import relative_gap
from metronome_opt.problem.schedule import OBJECTIVES, Schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.verify import comparable_part, evaluate

# In the order of their imports: a module uses only those above it.
MODULES = (
    *("rational", "format", "dom", "pattern", "judge", "model", "documents", "looks", "circle"),
    *("timeline", "summary", "front", "links", "stage", "jobs", "page"),
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE)
_EXACT = 2**53


def build_page(problem: PlacedInstance, points: Sequence[Point]) -> str:
    """Return the page of verified schedules of a problem as HTML; see `find_problem`.

    The same arguments make the same text. An `InputError` if numbers are too large for a browser
    to count with.
    """
    title = f"{problem.instance.name}: schedule report"
    part, schedule = comparable_part(problem.instance, points[0].schedule)
    if part is not problem.instance and len(points) == 1:
        title += " (gated jobs only)"
        problem, points = PlacedInstance(part), [replace(points[0], schedule=schedule)]
    style = read_asset("page.css")
    # One script without imports and exports: browsers load no modules from disk.
    script = "".join(_wrap_module(name, read_asset(f"js/{name}.js")) for name in MODULES)
    data = json.dumps(_page_data(problem, points), separators=(",", ":"))
    fields = {
        # A content security policy that lets this style and this script in, nothing else.
        "policy": (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        "title": html.escape(title),
        "style": style,
        # Without characters that are markup.
        "data": re.sub("[<>&]", lambda letter: f"\\u{ord(letter[0]):04x}", data),
        "script": script,
        "cushion": CUSHION_LEGEND,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda field: fields[field[1]], read_asset("page.html"))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _wrap_module(name: str, source: str) -> str:
    exports = ", ".join(_EXPORT.findall(source))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;", source)).strip()
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"


def read_asset(name: str) -> str:
    """Return a file of the folder `assets`, such as ``page.css`` or ``js/model.js``."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


# ------------------------------------------------------------------ data


def _page_data(problem: PlacedInstance, points: Sequence[Point]) -> dict[str, Any]:
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
    first = points[0].schedule
    before_ms = first.before_ms or iteration_times(
        instance, Plan(instance.unshifted), first.network
    )
    return {
        "generator": f"metronome-opt {version('metronome-opt')}",
        "units": {name: find_objective(name).unit for name in OBJECTIVES},
        "instance": _instance(problem),
        "before_ms": _rounded(instance, before_ms),
        "slowdown": _slowdown(instance, before_ms),
        "points": [
            _point(instance, point, truth, before[point.schedule.cushion_slots])
            for point, truth in zip(points, evaluations, strict=True)
        ],
    }


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
                "alone_ms": round(float(instance.best_ms(job)), 1),
            }
            for job in instance.jobs
        ],
    }


def _point(
    instance: Instance, point: Point, truth: Evaluation, before: Evaluation | None
) -> dict[str, Any]:
    schedule, times = point.schedule, point.schedule.expected_ms
    if times is None:
        times = iteration_times(instance, Plan.of(instance, schedule), schedule.network)
    # Simulated values are shown as stated.
    simulated = schedule.objectives.keys() - truth.objectives.keys()
    return {
        "label": point.path.name,
        "document": dump_document(schedule.to_dict()),
        "offsets": [schedule.offsets[job.name] for job in instance.jobs],
        "stretch": [schedule.stretch.get(job.name, 0) for job in instance.jobs],
        "longer": schedule.cushion_slots,
        "stretch_limit": _text(schedule.stretch_limit),
        "times_ms": _rounded(instance, times),
        "slowdown": _slowdown(instance, times),
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


def _rounded(instance: Instance, times: Mapping[str, Fraction]) -> list[float | None]:
    """Return the iteration times of the jobs in ms; None: unknown."""
    known = (times.get(job.name) for job in instance.jobs)
    return [None if time is None else round(float(time), 1) for time in known]


def _slowdown(instance: Instance, times: Mapping[str, Fraction]) -> str | None:
    mean = mean_slowdown(instance, times)
    return None if mean is None else format_number(mean, 4)


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
