"""Headlines of other systems, as published and as here: one table.

``python -m benchmarks.headline FOLDER`` simulates `headline.yaml` into a folder, where records
stay, and writes the table. A mean here is one over seeds, of means over cells, with its 95 %
interval; ``up to`` is the largest value of a single run, as headlines say it.

Utilisation is what jobs get done by one moment: the last arrival, or the first departure under any
policy if that is later. Jobs are taken to go on steadily. `computing` is the share of the time of
all GPUs that jobs have computed for until then; `traffic` is what all workers of a job send where
they are on as many nodes as they can be, so that it does not fall when places take traffic off
links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer

from benchmarks.evaluation.plan import Part, read_plan, run_part
from benchmarks.program import run_program
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import Interval, mean_interval
from metronome_opt.files.documents import write_text
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.simulation.study import Cell, find_study

PLAN = Path(__file__).with_suffix(".yaml")
AGAINST = ("default", "exclusive", "nearest")


class Headline(NamedTuple):
    """A published number, and what stands for it here."""

    part: str  # of the plan
    system: str
    published: str
    measure: str
    policies: tuple[str, ...]


_OWN = "metronome"
HEADLINES = (
    Headline(_OWN, "Metronome", "completion up to 19.50 % shorter", "completion", (_OWN,)),
    Headline(_OWN, "Metronome", "bandwidth utilisation up to 23.20 % higher", "traffic", (_OWN,)),
    Headline("cassini", "CASSINI", "mean completion up to 1.6x", "times", ("cassini", _OWN)),
    Headline("cassini", "CASSINI", "tail completion up to 2.5x", "tail", ("cassini", _OWN)),
    Headline("mltcp", "MLTCP", "mean iteration up to 2x", "iteration", ("mltcp", _OWN)),
    Headline("mltcp", "MLTCP", "p99 of iterations up to 4x", "iteration_p99", ("mltcp", _OWN)),
    Headline("crux", "Crux", "GPU utilisation 8.3 to 14.8 points", "computing", ("crux", _OWN)),
)

UNKNOWN: Mapping[str, str] = {
    "metronome": "cluster, batches, arrivals, scenarios and schedulers compared",
    "cassini": "racks, batches, iterations, traces; Themis and Pollux are not here",
    "mltcp": "jobs, batches, and how many shared a link",
    "crux": "traffic, batches, topology, places; priorities of PCIe links are not here",
}
"""What of a set-up is not public as far as we know, by part."""

_UNITS = {"completion": "%", "traffic": "%", "computing": "points"}  # others are factors


@cache
def _demands(study: str, cell: Cell, seed: int) -> dict[str, tuple[float, float]]:
    """Return of each job the GPU-ms of computing, and the Mbit of all workers, in an iteration."""
    scenario = find_study(study).scenario(cell, seed)
    found = {}
    for traffic in read_traffic(scenario):
        place = max(traffic.transports, key=lambda each: each.nodes)
        sent = float(traffic.isolated(place).volume * place.nodes)
        found[traffic.job.name] = float(traffic.step.compute_ms) * traffic.job.gpus, sent
    return found


def measures(records: Sequence[SimulationRecord]) -> pd.DataFrame:
    """Return the measures of runs, a row for each; runs of one scenario share their moment."""
    runs: dict[tuple[Cell, int], list[SimulationRecord]] = {}
    for record in records:
        if record.succeeded:
            runs.setdefault((Cell(record.cell), record.seed), []).append(record)
    return pd.DataFrame(
        row for (cell, seed), group in runs.items() for row in _scenario(cell, seed, group)
    )


def _scenario(
    cell: Cell, seed: int, records: Sequence[SimulationRecord]
) -> Iterator[dict[str, object]]:
    tables = {record.policy: pd.DataFrame(dict(record.jobs or {})) for record in records}
    demands = _demands(records[0].study, cell, seed)
    gpus = sum(find_study(records[0].study).cluster_of(cell).gpus_of.values())
    ends = [float(table["end_s"].min()) for table in tables.values()]
    arrivals = [float(table["arrival_s"].max()) for table in tables.values()]
    moment = max(*arrivals, min(ends))
    for policy, jobs in tables.items():
        begun = (moment - jobs["start_s"]) / (jobs["end_s"] - jobs["start_s"])
        done = jobs["iterations"] * begun.clip(0.0, 1.0)
        computing, sent = np.array([demands[name] for name in jobs["job"]]).T
        slowdown = jobs["iteration_mean_ms"] / jobs["ideal_ms"]
        yield {
            "cell": cell.label,
            "seed": seed,
            "policy": policy,
            "completion": jobs["completion_s"].mean(),
            "times": jobs["completion_s"].mean(),
            "tail": jobs["completion_s"].quantile(0.99),
            "iteration": slowdown.mean(),
            "iteration_p99": (jobs["iteration_p99_ms"] / jobs["ideal_ms"]).mean(),
            "computing": (done * computing).sum() / (1000 * gpus * moment),
            "traffic": (done * sent).sum(),
        }


def compare(
    runs: pd.DataFrame, measure: str, policy: str, against: str
) -> tuple[Interval, float] | None:
    """Return by how much a policy is better than another one: over seeds, and in its best run.

    Completion and traffic in per cent, computing in points, all else as a factor.
    """
    wide = runs.pivot(index=["cell", "seed"], columns="policy", values=measure)
    if not {policy, against} <= set(wide):
        return None
    own, other = wide[policy], wide[against]
    better = {
        "completion": 100 * (1 - own / other),
        "traffic": 100 * (own / other - 1),
        "computing": 100 * (own - other),
    }.get(measure, other / own)
    by_seed = better.groupby(level="seed").mean()
    return mean_interval(by_seed.tolist()), float(better.max())


def table(runs: Mapping[str, pd.DataFrame]) -> str:
    """Return the table in Markdown, from the measures of each part."""
    heads = " | ".join(f"against `{each}`: mean, up to" for each in AGAINST)
    lines = [
        f"| published | here: policy | {heads} | not public |",
        f"|---|---|{'--:|' * len(AGAINST)}---|",
    ]
    for line in HEADLINES:
        for policy in line.policies:
            cells = (
                _text(line.measure, compare(runs[line.part], line.measure, policy, against))
                for against in AGAINST
            )
            row = [f"{line.system}: {line.published}", f"`{policy}`", *cells, UNKNOWN[line.part]]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _text(measure: str, found: tuple[Interval, float] | None) -> str:
    if found is None:
        return "-"
    mean, most = found
    unit, digits = _UNITS.get(measure, "x"), 1 if measure in _UNITS else 2
    values = [mean.mean, *(end for end in (mean.low, mean.high) if end is not None), most]
    shown = [f"{value:.{digits}f}" for value in values]
    interval = f" ({shown[1]} to {shown[2]})" if len(shown) == 4 else ""
    return f"{shown[0]}{interval}, {shown[-1]} {unit}"


def main(
    folder: Annotated[Path, typer.Argument(help="Records; simulations that are missing are run.")],
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds.", show_default="of the plan")
    ] = None,
) -> None:
    """Simulate what is missing, and print the table."""
    runs = {}
    for name, part in read_plan(PLAN).items():
        assert isinstance(part, Part)
        count = seeds or part.seeds
        records = run_part(
            name, part, folder / name, seeds=count, small=False, traces=None, width=1
        )
        runs[name] = measures(records)
    write_text(folder / "headline.md", table(runs))
    typer.echo(table(runs))


if __name__ == "__main__":
    run_program(main)
