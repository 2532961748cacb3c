"""Figures beside published numbers of other systems.

``published-crux/as-published/crux/exclusive/computing`` is by how much `crux` is better than
`exclusive`: completion and traffic in per cent, computing in points, all else as a factor. It is
the mean over seeds of the mean over cells; ``.../most`` is the best single run, as publications
state it. Parts and measures are those of `PUBLISHED`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.evaluation.figures import Figure, Figures
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import StudyPart, mean_interval, split_study
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.simulation.study import Cell, Study, find_study

AGAINST = ("default", "exclusive", "nearest")


class Published(NamedTuple):
    """A published number, and the policies that stand for its system here."""

    part: str
    what: str
    number: str
    measure: str
    policies: tuple[str, ...]

    def key(self, policy: str, against: str) -> str:
        """Return the name of the figure beside it."""
        return f"{self.part}/as-published/{policy}/{against}/{self.measure}"


_METRONOME, _CASSINI = "published-metronome", "published-cassini"
_MLTCP, _CRUX = "published-mltcp", "published-crux"
_OWN = "metronome"
PUBLISHED = (
    Published(_METRONOME, "Metronome: completion", "up to 19.50 %", "completion", (_OWN,)),
    Published(_METRONOME, "Metronome: traffic", "up to 23.20 %", "traffic", (_OWN,)),
    Published(_CASSINI, "CASSINI: mean completion", "up to 1.6x", "times", ("cassini", _OWN)),
    Published(_CASSINI, "CASSINI: tail completion", "up to 2.5x", "tail", ("cassini", _OWN)),
    Published(_MLTCP, "MLTCP: mean iteration", "up to 2x", "iteration", ("mltcp", _OWN)),
    Published(_MLTCP, "MLTCP: p99 of iterations", "up to 4x", "iteration_p99", ("mltcp", _OWN)),
    Published(_CRUX, "Crux: computing GPUs", "8.3 to 14.8 points", "computing", ("crux", _OWN)),
)

UNKNOWN: Mapping[str, str] = {
    "Metronome": "cluster, batches, arrivals, scenarios and schedulers compared",
    "CASSINI": "racks, batches, iterations, traces; Themis and Pollux are not here",
    "MLTCP": "jobs, batches, and how many shared a link",
    "Crux": "traffic, batches, topology, placement; priorities of PCIe links are not here",
}
"""What of the set-up of a system is not public as far as we know."""

UNITS = {"completion": " %", "traffic": " %", "computing": " points"}
"""Units of measures; all others are factors."""

_COLUMNS = {
    "completion": "completion_mean_s",
    "traffic": "early_gbit",
    "times": "completion_mean_s",
    "tail": "completion_p99_s",
    "iteration": "slowdown_mean",
}


def published_figures(name: str, records: Sequence[SimulationRecord]) -> Figures:
    """Return the figures beside the published numbers of a part; none of other parts."""
    lines = [line for line in PUBLISHED if line.part == name]
    if not lines:
        return {}
    part = split_study(records)[0]
    found: Figures = {}
    for line in lines:
        values = _measure(line.measure, part, records).unstack("policy")
        for policy, against in product(line.policies, AGAINST):
            if {policy, against} <= set(values):
                better = _better(line.measure, values[policy], values[against])
                found |= _figures(line.key(policy, against), better)
    return found


def _measure(
    measure: str, part: StudyPart, records: Sequence[SimulationRecord]
) -> pd.Series[float]:
    """Return a measure of runs, by cell, seed and policy."""
    if measure == "iteration_p99":
        tails = part.jobs["iteration_p99_ms"] / part.jobs["ideal_ms"]
        return tails.groupby(level=part.jobs.index.names).mean()
    return (
        computing_share(part, records) if measure == "computing" else part.runs[_COLUMNS[measure]]
    )


def computing_share(part: StudyPart, records: Sequence[SimulationRecord]) -> pd.Series[float]:
    """Return the share of the time of all GPUs for which jobs compute until the first departure.

    All jobs arrive at 0. The first departure is that under any policy, so that all policies are
    measured over one time; jobs are taken to go on steadily.
    """
    study, cell = find_study(records[0].study), Cell(records[0].cell)
    jobs, gpus = part.jobs, sum(study.cluster_of(cell).gpus_of.values())
    end = jobs["completion_s"].groupby(level=["cell", "seed"]).transform("min")
    runs_s = jobs["completion_s"] - jobs["queueing_s"]
    done = jobs["iterations"] * ((end - jobs["queueing_s"]) / runs_s).clip(0.0, 1.0)
    computed = done * jobs["gpus"] * jobs["job"].map(_compute_s(study, cell))
    return (computed / (gpus * end)).groupby(level=jobs.index.names).sum(min_count=1)


def _compute_s(study: Study, cell: Cell) -> dict[str, float]:
    """Return how long an iteration computes, by job; jobs are the same for all seeds."""
    return {
        traffic.job.name: float(traffic.step.compute_ms) / 1000
        for traffic in read_traffic(study.scenario(cell, 0))
    }


def _better(measure: str, own: pd.Series[float], other: pd.Series[float]) -> pd.Series[float]:
    """Return by how much runs are better than the others of their scenarios."""
    match measure:
        case "completion":
            return 100 * (1 - own / other)
        case "traffic":
            return 100 * (own / other - 1)
        case "computing":
            return 100 * (own - other)
    return other / own


def _figures(key: str, better: pd.Series[float]) -> Figures:
    """Return the mean over seeds with all cells, and the best run; nothing of one seed."""
    whole = better.unstack("cell").replace([np.inf, -np.inf], np.nan).dropna()
    if len(whole) < 2:
        return {}
    mean = mean_interval(whole.mean(axis="columns").tolist())
    most = Figure(float(whole.to_numpy().max()))
    return {key: Figure(mean.mean, mean.low, mean.high), f"{key}/most": most}
