"""Traffic made of measured training steps beside what is computed for the same jobs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as MplFigure
from matplotlib.patches import Patch

from benchmarks.registry import Figure, benchmark
from metronome_opt import solve
from metronome_opt.compatible.solvers import find_fit
from metronome_opt.errors import counted
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.plot import style
from metronome_opt.plot.picture import new_figure, save_figure
from metronome_opt.result import Result
from metronome_opt.scenario import Scenario, build_scenario, locate, read_scenario
from metronome_opt.scenario.build import PlacedTraffic, Problem
from metronome_opt.scenario.job_traffic import JobTraffic
from metronome_opt.scenario.measured import MeasuredStep
from metronome_opt.scenario.model import COMPUTED, DescribedJob
from metronome_opt.scenario.network import Gpu
from metronome_opt.scenario.workload import Quantity, Workload, find_workloads, read_workload
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import SAFE, Player, plays
from metronome_opt.slowdown.times import Times

SCENARIO = "paper-24-measured"
TABLE = Path(__file__).with_suffix(".csv")
PICTURE = Path(__file__).parents[1] / "docs" / "measured-traffic.png"

_KINDS = ("measured", "computed")
_SOLVE_S, _DECIDE_S = 10, 5
_SLOWDOWN_S = 100  # iterations of 0.2 s beside ones of 22 s take long to simulate
_LONGEST_MS = 70_000  # of hyperperiods
_REFERENCE = "ResNet50"  # whose step says what the device sustains, as in `paper-24`


@benchmark("Does traffic that was measured differ from what is computed, and what then fits?")
def measured_traffic(small: bool) -> Iterator[Figure]:
    """Build a scenario from records, and once more from workloads; compare, solve and play both.

    A table and a picture of all jobs are kept, but for a small run.
    """
    seconds = 1 if small else _SOLVE_S
    scenario = read_scenario(locate(SCENARIO))
    if small:
        scenario = scenario.model_copy(update={"jobs": scenario.jobs[-3:]})
    steps = {step.model: step for step in scenario.sources() if isinstance(step, MeasuredStep)}
    with tempfile.TemporaryDirectory() as folder:
        twin = _with_hyperperiod(_computed(scenario, steps, Path(folder)))
        problems = dict(zip(_KINDS, map(build_scenario, (scenario, twin)), strict=True))
    yield Figure(f"{_REFERENCE} sustains", float(_flops(steps) / 10**12), "TFLOP/s")
    rows = []
    for kind, problem in problems.items():
        yield from _fitting(kind, problem)
        results = {
            "unshifted": solve(problem.instance, "unshifted", objective="contention"),
            "minimum contention": solve(
                problem.instance, objective="contention", time_limit=seconds
            ),
            "solve": solve(problem.instance, time_limit=1 if small else _SLOWDOWN_S),
        }
        yield from _outcomes(kind, results)
        rows.append(_rows(problem, results["solve"]))
    table = pd.concat(rows).sort_values(["model", "traffic"], ascending=[True, False])
    for field in ("iteration_ms", "duty_cycle"):
        measured, computed = (table[is_it][field] for is_it in _halves(table))
        ratios = measured.to_numpy() / computed.to_numpy()
        for name, value in (
            ("minimum", ratios.min()),
            ("median", np.median(ratios)),
            ("largest", ratios.max()),
        ):
            yield Figure(f"measured over computed, {field}: {name}", float(value), "")
    if not small:
        table.to_csv(TABLE, index=False, float_format="%.6g", lineterminator="\n")
        save_figure(_picture(problems), PICTURE)


def _halves(table: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    computed = table["traffic"] == COMPUTED
    return ~computed, computed


# ------------------------------------------------------------------ the computed twin


def _computed(scenario: Scenario, steps: Mapping[str, MeasuredStep], folder: Path) -> Scenario:
    """Return a scenario whose traffic is computed for the device that the records are from."""
    for step in steps.values():
        workload = _as_measured(read_workload(find_workloads()[step.model.lower()]), step)
        (folder / f"{step.model.lower()}.json").write_text(json.dumps(workload))
    device = steps[_REFERENCE].device
    speed = Quantity(value=_flops(steps) / 10**12, assumed=f"as {_REFERENCE} was measured")
    gpu = Gpu(name=device.name, sustained_tflops=speed)
    return Scenario.model_validate(
        {
            **dict(scenario),
            "name": f"{scenario.name}, computed",
            "workloads": str(folder),
            "cluster": scenario.cluster.model_copy(update={"gpu": gpu}),
            "jobs": [_computed_job(job, step) for job, step in _by_model(scenario)],
        }
    )


def _with_hyperperiod(scenario: Scenario) -> Scenario:
    """Return a scenario with a hyperperiod chosen as that of `SCENARIO` was.

    Of those of up to a length, it lengthens iterations least in the mean.
    """
    free = scenario.model_copy(update={"hyperperiod_ms": None})
    rounded = [entry.rounded for entry in build_scenario(free).traffic]
    longest = max(each.busy for each in rounded)

    def lengthened(slots: int) -> float:
        divisors = np.flatnonzero(slots % np.arange(1, slots + 1) == 0) + 1
        periods = divisors[np.searchsorted(divisors, [each.busy for each in rounded])]
        exact = np.array([float(each.exact.duration) for each in rounded])
        return float((periods / exact).sum())

    slots = min(range(longest, _LONGEST_MS // scenario.slot_ms + 1), key=lengthened)
    return free.model_copy(update={"hyperperiod_ms": slots * scenario.slot_ms})


def _by_model(scenario: Scenario) -> Iterator[tuple[DescribedJob, MeasuredStep]]:
    for job, step in zip(scenario.jobs, scenario.sources(), strict=True):
        if isinstance(step, MeasuredStep):
            yield job, step


def _computed_job(job: DescribedJob, step: MeasuredStep) -> DescribedJob:
    """Return a job of the same batch; stages share the samples of their micro-batches."""
    batch = step.batch * step.microbatches // step.stages
    return job.model_copy(update={"traffic": None, "batch": batch})


def _flops(steps: Mapping[str, MeasuredStep]) -> Fraction:
    """Return what the device sustains, as `paper-24` derives it: three forward passes a step."""
    step, workload = steps[_REFERENCE], read_workload(find_workloads()[_REFERENCE.lower()])
    step_ms = step.forward_ms.median + step.backward_ms.median + step.optimizer_ms.median
    operations = 3 * workload.forward_flops.value * step.batch * step.sample_share
    return 1000 * operations / step_ms


def _as_measured(workload: Workload, step: MeasuredStep) -> dict[str, Any]:
    """Return a workload as a document: samples as long, and spread, as those of a record.

    What was measured has no tensor groups.
    """
    document: dict[str, Any] = workload.model_dump(mode="json", exclude_none=True)
    kind = workload.kind.replace("-", "_")
    if step.kind == "data-parallel":
        gradient = {"value": 4, "assumed": "as reduced in single precision"}
        document["data_parallel"] = {"gradient_bytes": gradient}
        if kind != "data_parallel":
            del document[kind]
    if step.kind == "pipeline-parallel":
        values = {"tensor": 1, "stages": step.stages, "microbatches": step.microbatches}
        for field, value in values.items():
            document[kind][field]["value"] = value
    shortened = [document["forward_flops"], document.get(kind, {}).get("tokens")]
    for number in filter(None, shortened):
        number["value"] = round(number["value"] * step.sample_share)
    return document


# ------------------------------------------------------------------ what fits, what it brings


def _fitting(kind: str, problem: Problem) -> Iterator[Figure]:
    """Count pairs of jobs on one interface, and jobs of links, that fit without contention."""
    instance = problem.instance
    interface = Link(name="interface", capacity=min(link.capacity for link in instance.links))
    pairs = [[(job, 1) for job in pair] for pair in combinations(instance.jobs, 2)]
    alone = [_crossing(instance, interface, pair) for pair in pairs]
    fit = sum(map(_fits, alone))
    yield Figure(f"{kind}: pairs that fit on an interface", fit, f"of {len(pairs)}")
    shared = {
        link: [(instance.jobs[index], instance.jobs[index].links[link.name]) for index in found]
        for link in instance.links
        if len(found := instance.jobs_on[link.name]) > 1
    }
    fit = sum(_fits(_crossing(instance, link, jobs)) for link, jobs in shared.items())
    yield Figure(f"{kind}: links whose jobs fit", fit, f"of {len(shared)}")


def _crossing(instance: Instance, link: Link, jobs: list[tuple[Job, int]]) -> Instance:
    """Return the instance of one link that some jobs put so many flows on."""
    crossing = tuple(job.model_copy(update={"links": {link.name: flows}}) for job, flows in jobs)
    return instance.replace(links=(link,), jobs=crossing)


def _fits(instance: Instance) -> bool:
    """Return whether jobs fit at their periods, as far as a time limit lets that be known."""
    return find_fit(instance, time_limit=_DECIDE_S).offsets is not None


def _outcomes(kind: str, results: Mapping[str, Result]) -> Iterator[Figure]:
    """Yield contention and slowdowns as simulated, by how links are shared."""
    for name, result in results.items():
        contention = float(result.evaluation.contention)
        yield Figure(f"{kind}, {name}: contention", contention, "weight x Mbit/s")
        for sharing, slowdown in _slowdowns(result).items():
            yield Figure(f"{kind}, {name}: slowdown, {sharing}", slowdown, "")


def _slowdowns(result: Result) -> dict[str, float]:
    free = result.schedule.solver in ("unshifted", "random")
    plan = Plan(result.offsets) if free else Plan.of(result.instance, result.schedule)
    values: dict[str, float] = {}
    for sharing in SAFE:
        player = Player(result.instance, plays(1000, 4, (sharing,)), workers=4)
        values[sharing] = player.value(player.slowdowns(plan))
    return values


def _rows(problem: Problem, result: Result) -> pd.DataFrame:
    times, flows = Times.of(result), problem.deployment.parts
    return pd.DataFrame(
        {
            "model": entry.traffic.job.model,
            "traffic": _origin(entry.traffic),
            "parallelism": _source(entry.traffic).kind,
            "workers": entry.traffic.job.workers,
            "batch": entry.traffic.job.batch or _step(entry.traffic).batch,
            "rate_mbps": float(max(burst.rate for burst in entry.exact.bursts)),
            "compute_ms": float(entry.exact.compute),
            "sent_mb": float(flows.get(entry.traffic.job.name, 1) * entry.exact.volume / 8),
            "iteration_ms": float(entry.exact.duration),
            "bursts": len(entry.exact.bursts),
            "duty_cycle": _duty_cycle(entry),
            "period_ms": entry.rounded.period * entry.rounded.slot_ms,
            "bursts_in_slots": len(entry.rounded.phases),
            "grid_error_percent": float(
                100 * (entry.rounded.busy * entry.rounded.slot_ms / entry.exact.duration - 1)
            ),
            "idle_error_percent": float(100 * entry.rounded.idle_error),
            "unshifted_ms": float(times.before[entry.traffic.job.name]),
            "solved_ms": float(times.after[entry.traffic.job.name]),
        }
        for entry in problem.traffic
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


def _duty_cycle(entry: PlacedTraffic) -> float:
    """Return the share of an iteration in which a worker sends, with the network to itself."""
    return float(sum(burst.duration for burst in entry.exact.bursts) / entry.exact.duration)


# ------------------------------------------------------------------ the picture


def _picture(problems: Mapping[str, Problem]) -> MplFigure:
    """Draw an iteration of each model as measured, and below it as computed."""
    looks = dict(zip(_KINDS, ((style.BLUE, 0.42), ("#E69F00", 0.42)), strict=True))
    entries = [problem.traffic for problem in problems.values()]
    device = _step(entries[0][0].traffic).device
    picture = new_figure(10, 7.4, f"An iteration with the network to itself; device: {device}")
    axes = picture.subplots()
    rows = list(zip(*entries, strict=True))
    for row, pair in enumerate(rows):
        longest = max(entry.exact.duration for entry in pair)
        for place, (entry, (colour, height)) in enumerate(zip(pair, looks.values(), strict=True)):
            y = row + (place - 1) * height
            length = float(entry.exact.duration / longest)
            axes.broken_barh([(0, length)], (y, 0.9 * height), facecolor=style.PAPER)
            axes.broken_barh(_spans(entry, longest), (y, 0.9 * height), facecolor=colour)
            axes.text(
                1.01,
                y + 0.45 * height,
                f"{counted(len(entry.exact.bursts), 'burst')}, {_duty_cycle(entry):.0%} of "
                f"{float(entry.exact.duration) / 1000:.2f} s",
                va="center",
                fontsize=style.SMALL,
            )
    axes.set_yticks(
        range(len(rows)),
        [f"{m.traffic.job.model}, {m.traffic.job.workers} workers" for m, _ in rows],
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


def _spans(entry: PlacedTraffic, longest: Fraction) -> list[tuple[float, float]]:
    """Return begin and length of each burst as shares of `longest`."""
    spans, end = [], Fraction(0)
    for burst in entry.exact.bursts:
        begin = end + burst.after
        spans.append((float(begin / longest), float(burst.duration / longest)))
        end = begin + burst.duration
    return spans
