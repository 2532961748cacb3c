"""Traffic made of measured training steps beside what is computed for the same jobs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as MplFigure
from matplotlib.patches import Patch

from benchmarks.registry import Figure, benchmark
from metronome_opt.errors import pluralise
from metronome_opt.files.records import read_record
from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import new_figure, save_figure
from metronome_opt.scenario import Scenario, build_scenario, locate, read_scenario
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_spec import COMPUTED, JobSpec
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.measured import MeasuredStep
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.workload import Workload, find_files

SCENARIO = "paper-24-measured"
TABLE = Path(__file__).with_suffix(".csv")
PICTURE = Path(__file__).parents[1] / "docs" / "measured-traffic.png"

_KINDS = ("measured", "computed")


@benchmark("Does traffic that was measured differ from what is computed?")
def measured_traffic(small: bool) -> Iterator[Figure]:
    """Build a scenario from records, and once more from workloads; compare both.

    A table and a picture of all jobs are kept, but for a small run.
    """
    scenario = read_scenario(locate(SCENARIO))
    if small:
        scenario = scenario.model_copy(update={"jobs": scenario.jobs[-3:]})
    with tempfile.TemporaryDirectory() as folder:
        twin = _computed(scenario, Path(folder))
        problems = dict(zip(_KINDS, map(build_scenario, (scenario, twin)), strict=True))
    tables = [_rows(problem) for problem in problems.values()]
    for field in ("iteration_ms", "duty_cycle"):
        measured, computed = (table[field] for table in tables)
        ratios = measured.to_numpy() / computed.to_numpy()
        for name, value in (
            ("minimum", ratios.min()),
            ("median", np.median(ratios)),
            ("largest", ratios.max()),
        ):
            yield Figure(f"measured over computed, {field}: {name}", float(value), "")
    if not small:
        table = pd.concat(tables).sort_values(["model", "traffic"], ascending=[True, False])
        table.to_csv(TABLE, index=False, float_format="%.6g", lineterminator="\n")
        save_figure(_picture(problems), PICTURE)


# ------------------------------------------------------------------ the computed twin


def _computed(scenario: Scenario, folder: Path) -> Scenario:
    """Return a scenario whose traffic is computed for the cluster's GPU."""
    jobs = list(_by_model(scenario))
    for _, step in jobs:
        workload = _as_measured(
            read_record(Workload, find_files("workloads")[step.model.lower()]), step
        )
        (folder / f"{step.model.lower()}.json").write_text(json.dumps(workload))
    changes = {
        "name": f"{scenario.name}, computed",
        "workloads": str(folder),
        "jobs": tuple(_computed_job(job, step) for job, step in jobs),
    }
    return Scenario.model_validate({**dict(scenario), **changes})


def _by_model(scenario: Scenario) -> Iterator[tuple[JobSpec, MeasuredStep]]:
    for job, traffic in zip(scenario.jobs, read_traffic(scenario), strict=True):
        step = traffic.source
        if isinstance(step, MeasuredStep):
            yield job, step


def _computed_job(job: JobSpec, step: MeasuredStep) -> JobSpec:
    """Return a job of the same batch; stages share the samples of their micro-batches."""
    batch = step.batch * step.microbatches // step.stages
    return job.model_copy(update={"traffic": None, "batch": batch})


def _as_measured(workload: Workload, step: MeasuredStep) -> dict[str, Any]:
    """Return a workload as a document: spread as in a record, which has no tensor groups."""
    document: dict[str, Any] = workload.model_dump(mode="json", exclude_none=True)
    kind = workload.kind.replace("-", "_")
    if step.kind == "data-parallel":
        document.pop(kind)
        gradient = {"value": 4, "assumed": "as reduced in single precision"}
        document["data_parallel"] = {"gradient_bytes": gradient}
    if step.kind == "pipeline-parallel":
        values = {"tensor": 1, "stages": step.stages, "microbatches": step.microbatches}
        for field, value in values.items():
            document[kind][field]["value"] = value
    return document


# ------------------------------------------------------------------ the table


def _rows(problem: PlacedInstance) -> pd.DataFrame:
    flows, slot_ms = problem.deployment.parts, problem.instance.slot_ms
    return pd.DataFrame(
        {
            "model": entry.job.model,
            "traffic": _origin(entry),
            "parallelism": _source(entry).kind,
            "workers": entry.job.workers,
            "batch": entry.job.batch or _step(entry).batch,
            "rate_mbps": float(max(burst.rate for burst in exact.bursts)),
            "compute_ms": float(entry.step.compute_ms),
            "sent_mb": float(flows.get(entry.job.name, 1) * exact.volume / 8),
            "iteration_ms": float(exact.duration),
            "bursts": len(exact.bursts),
            "duty_cycle": _duty_cycle(exact),
            "period_ms": job.period * slot_ms,
            "bursts_in_slots": len(job.phases),
            "grid_error_percent": float(
                100 * (exact.to_slots(slot_ms)[1] * slot_ms / exact.duration - 1)
            ),
            "idle_error_percent": float(
                100 * (job.period - exact.to_slots(slot_ms)[1]) * slot_ms / exact.duration
            ),
        }
        for entry, exact, job in zip(
            problem.traffic, problem.iterations, problem.instance.jobs, strict=True
        )
    )


def _source(entry: JobTraffic) -> Workload | MeasuredStep:
    assert isinstance(entry.source, Workload | MeasuredStep)
    return entry.source


def _step(entry: JobTraffic) -> MeasuredStep:
    assert isinstance(entry.source, MeasuredStep)
    return entry.source


def _origin(entry: JobTraffic) -> str:
    is_computed = isinstance(entry.source, Workload)
    return COMPUTED if is_computed else f"measured on {_step(entry).device}"


def _duty_cycle(exact: Iteration) -> float:
    """Return the share of an iteration in which a worker sends, with the network to itself."""
    return float(sum(burst.duration for burst in exact.bursts) / exact.duration)


# ------------------------------------------------------------------ the picture


def _picture(problems: Mapping[str, PlacedInstance]) -> MplFigure:
    """Draw an iteration of each model as measured, and below it as computed."""
    looks = dict(zip(_KINDS, ((style.BLUE, 0.42), ("#E69F00", 0.42)), strict=True))
    entries = [
        [*zip(problem.traffic, problem.iterations, strict=True)] for problem in problems.values()
    ]
    device = _step(entries[0][0][0]).device
    picture = new_figure(10, 7.4, f"An iteration with the network to itself; device: {device}")
    axes = picture.subplots()
    rows = list(zip(*entries, strict=True))
    for row, pair in enumerate(rows):
        longest = max(exact.duration for _, exact in pair)
        for place, ((_, exact), (colour, height)) in enumerate(
            zip(pair, looks.values(), strict=True)
        ):
            y = row + (place - 1) * height
            length = float(exact.duration / longest)
            axes.broken_barh([(0, length)], (y, 0.9 * height), facecolor=style.PAPER)
            axes.broken_barh(_spans(exact, longest), (y, 0.9 * height), facecolor=colour)
            axes.text(
                1.01,
                y + 0.45 * height,
                f"{pluralise(len(exact.bursts), 'burst')}, {_duty_cycle(exact):.0%} of "
                f"{float(exact.duration):.0f} ms",
                va="center",
                fontsize=style.SMALL,
            )
    axes.set_yticks(
        range(len(rows)),
        [f"{m.job.model}, {m.job.workers} workers" for (m, _), _ in rows],
    )
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xlabel("time as a share of the longer of the two iterations")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    handles = [
        Patch(facecolor=colour, label=f"bursts as {kind}") for kind, (colour, _) in looks.items()
    ]
    handles.append(Patch(facecolor=style.PAPER, label="no traffic"))
    picture.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return picture


def _spans(exact: Iteration, longest: Fraction) -> list[tuple[float, float]]:
    """Return begin and length of each burst as shares of `longest`."""
    spans, end = [], Fraction(0)
    for burst in exact.bursts:
        begin = end + burst.after
        spans.append((float(begin / longest), float(burst.duration / longest)))
        end = begin + burst.duration
    return spans
