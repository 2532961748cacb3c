"""What a run is worth in one number, and what a pair of runs of one scenario is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from metronome_opt.bench.evaluation.runs import Number, SimulatedRun
from metronome_opt.bench.shown import three_digits

Floats = NDArray[np.float64]
Chosen = Callable[[pd.DataFrame], "pd.Series[bool]"]
"""Which jobs of a run are meant."""

UNKNOWN = math.nan


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Attributes
    ----------
    name, heading
        For files, for people with the unit.
    of
        The number; NaN where it is not known.
    show
        How it is written.
    higher
        Whether more is better.
    """

    name: str
    heading: str
    of: Callable[[SimulatedRun], Number]
    show: Callable[[float], str] = three_digits
    higher: bool = False


def completion(run: SimulatedRun) -> Floats:
    """Return the seconds from arrival to end of each job; NaN where a job did not finish."""
    jobs = run.jobs
    return _floats(jobs["completion_s"].where(jobs["finished"]))


def slowdown(run: SimulatedRun) -> Floats:
    """Return each job's mean iteration over the one it would have with the network to itself.

    NaN for a job without a whole iteration.
    """
    return _floats(run.jobs["iteration_mean_ms"] / run.jobs["ideal_ms"])


def placement_factor(run: SimulatedRun) -> Floats:
    """Return what of each job's slowdown its placement costs: an iteration alone in it over ideal.

    NaN where the slowdown is not known.
    """
    return np.where(np.isfinite(slowdown(run)), _alone(run) / _floats(run.jobs["ideal_ms"]), np.nan)


def sharing_factor(run: SimulatedRun) -> Floats:
    """Return what of each job's slowdown is due to others: its mean iteration over one alone.

    Being held back for a slot is in it.
    """
    return _floats(run.jobs["iteration_mean_ms"]) / _alone(run)


def elongation(run: SimulatedRun) -> Floats:
    """Return by how much the mean iteration of each job was longer, as a share of the ideal one."""
    return slowdown(run) - 1.0


def predicted_elongation(run: SimulatedRun) -> Floats:
    """Return by how much an iteration of each job was predicted to be longer, likewise."""
    return _floats(run.jobs["predicted_ms"] / run.jobs["ideal_ms"])


# ------------------------------------------------------------------ of a run


def _completion_mean(run: SimulatedRun) -> Number:
    return float(np.mean(completion(run)))


def _completion_median(run: SimulatedRun) -> Number:
    return float(np.median(completion(run)))


def _completion_p99(run: SimulatedRun) -> Number:
    return float(np.percentile(completion(run), 99))


def _queueing(run: SimulatedRun) -> Number:
    return float(np.mean(_floats(run.jobs["queueing_s"])))


def _makespan(run: SimulatedRun) -> Number:
    return UNKNOWN if run.unfinished else run.makespan_s


def _iterations(run: SimulatedRun) -> Number:
    return float(run.jobs["iterations"].sum())


def _slowdown_mean(run: SimulatedRun) -> Number:
    return _mean_of_known(slowdown(run))


def _slowdown_p99(run: SimulatedRun) -> Number:
    return _p99_of_known(slowdown(run))


def _placement(run: SimulatedRun) -> Number:
    return _mean_of_known(placement_factor(run))


def _sharing(run: SimulatedRun) -> Number:
    return _mean_of_known(sharing_factor(run))


def _late_iterations(run: SimulatedRun) -> Number:
    return _mean_of_known(_floats(run.jobs["iteration_p99_ms"] / run.jobs["ideal_ms"]))


def _utilisation_used(run: SimulatedRun) -> Number:
    links = run.links
    return _share(
        1000 * links["carried_gbit"].sum(), (links["capacity_mbps"] * links["used_s"]).sum()
    )


def _utilisation(run: SimulatedRun) -> Number:
    links = run.links
    return _share(1000 * links["carried_gbit"].sum(), links["capacity_mbps"].sum() * run.makespan_s)


def _contended(run: SimulatedRun) -> Number:
    return _share(run.links["contended_s"].sum(), run.links["used_s"].sum())


def _rephasings(run: SimulatedRun) -> Number:
    return _rephased(run, run.jobs)


def _rephasings_highest(run: SimulatedRun) -> Number:
    jobs = run.jobs
    return _rephased(run, jobs[jobs["priority"] == jobs["priority"].max()])


def _rephased(run: SimulatedRun, jobs: pd.DataFrame) -> Number:
    """Return how often some of the jobs were re-phased, per hour that one of them ran."""
    started = jobs["start_s"].notna()
    ends = jobs["end_s"].where(jobs["finished"], run.makespan_s)
    return _share(3600 * jobs["rephasings"].sum(), (ends - jobs["start_s"])[started].sum())


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _factor(value: float) -> str:
    return f"{value:.3f}"


TIMES = (
    Measure("completion_mean_s", "mean completion (s)", _completion_mean),
    Measure("completion_median_s", "median completion (s)", _completion_median),
    Measure("completion_p99_s", "p99 completion (s)", _completion_p99),
    Measure("queueing_mean_s", "mean queueing (s)", _queueing),
    Measure("makespan_s", "makespan (s)", _makespan),
    Measure("iterations", "iterations done", _iterations, higher=True),
)
TRAFFIC = (
    Measure("slowdown_mean", "slowdown, mean over jobs", _slowdown_mean, _factor),
    Measure("slowdown_placement", "of it by placement", _placement, _factor),
    Measure("slowdown_sharing", "of it by others", _sharing, _factor),
    Measure("slowdown_p99", "slowdown, p99 over jobs", _slowdown_p99, _factor),
    Measure("slowdown_late", "slowdown of the p99 iteration, mean", _late_iterations, _factor),
    Measure(
        "utilisation_used", "utilisation, links in use", _utilisation_used, _percent, higher=True
    ),
    Measure("utilisation", "utilisation, all links", _utilisation, _percent, higher=True),
    Measure("contended", "used time in contention", _contended, _percent),
    Measure("rephasings_per_job_h", "re-phasings per job-hour", _rephasings),
    Measure(
        "rephasings_highest_per_job_h",
        "re-phasings per job-hour, highest class",
        _rephasings_highest,
    ),
)
MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in (*TIMES, *TRAFFIC)}


# ------------------------------------------------------------------ of a pair of runs


def ratio(measure: Measure) -> Callable[[SimulatedRun, SimulatedRun], Number]:
    """Return the function that relates a measure of one run to that of another."""

    def related(one: SimulatedRun, other: SimulatedRun) -> Number:
        return _ratio(measure.of(one), measure.of(other))

    return related


def slowdown_ratio(one: SimulatedRun, other: SimulatedRun) -> Number:
    """Relate the mean slowdowns of those jobs that iterated in both runs."""
    return _over_both(slowdown(one), slowdown(other), _mean)


def slowdown_p99_ratio(one: SimulatedRun, other: SimulatedRun) -> Number:
    """Relate the p99 slowdowns of those jobs that iterated in both runs."""
    return _over_both(slowdown(one), slowdown(other), _p99)


def finished_ratio(one: SimulatedRun, other: SimulatedRun) -> Number:
    """Relate the mean completion times of those jobs that finished in both runs."""
    return _over_both(completion(one), completion(other), _mean)


def lengthening(one: SimulatedRun, other: SimulatedRun, chosen: Chosen) -> dict[str, float]:
    """Return by how many seconds completion is longer in one run than in another, and why.

    Means over those of the chosen jobs that finished in both: waiting for GPUs, being held back for
    a slot, and what is left, which is iterations that take longer. These are longer because of the
    placement, even if nobody else were there, and because of others; NaN where that is not known.
    """
    both = np.isfinite(completion(one)) & np.isfinite(completion(other)) & chosen(one.jobs)

    def more(mine: Floats, others: Floats) -> float:
        return float(np.mean(mine[both] - others[both])) if both.any() else UNKNOWN

    queueing, held = (
        more(_floats(one.jobs[name]), _floats(other.jobs[name]))
        for name in ("queueing_s", "waited_s")
    )
    placement = more(_time_alone(one), _time_alone(other))
    total = more(completion(one), completion(other))
    iterating = total - queueing - held
    return {
        "queueing": queueing,
        "held": held,
        "iterating": iterating,
        "placement": placement,
        "others": iterating - placement,
    }


# ------------------------------------------------------------------ of a group of jobs


def group_slowdown(chosen: Chosen) -> Callable[[SimulatedRun], Number]:
    """Return the mean slowdown of some jobs of a run; None if it has none of them."""

    def of(run: SimulatedRun) -> Number:
        mine = chosen(run.jobs).to_numpy()
        return _mean_of_known(slowdown(run)[mine]) if mine.any() else None

    return of


def group_completion(chosen: Chosen) -> Callable[[SimulatedRun, SimulatedRun], Number]:
    """Return the mean, over some jobs that finished in both runs, of the ratio of completions."""
    return _jobwise(chosen, completion)


def group_iteration(chosen: Chosen) -> Callable[[SimulatedRun, SimulatedRun], Number]:
    """Return the mean, over some jobs, of the ratio of their mean iterations in two runs."""
    return _jobwise(chosen, lambda run: _floats(run.jobs["iteration_mean_ms"]))


def _jobwise(
    chosen: Chosen, times: Callable[[SimulatedRun], Floats]
) -> Callable[[SimulatedRun, SimulatedRun], Number]:
    def of(one: SimulatedRun, other: SimulatedRun) -> Number:
        mine = chosen(one.jobs).to_numpy()
        return _mean_of_known((times(one) / times(other))[mine]) if mine.any() else None

    return of


# ------------------------------------------------------------------ parts


def _alone(run: SimulatedRun) -> Floats:
    """Return the ms of an iteration if nobody else were there; NaN where that is not known."""
    if "alone_ms" not in run.jobs:
        return np.full(len(run.jobs), np.nan)
    return _floats(run.jobs["alone_ms"])


def _time_alone(run: SimulatedRun) -> Floats:
    """Return the seconds that the iterations of each job would take if nobody else were there."""
    return _floats(run.jobs["iterations"]) * _alone(run) / 1000


def _floats(series: pd.Series[float]) -> Floats:
    return np.asarray(series, dtype=np.float64)


def _mean(values: Floats) -> float:
    return float(np.mean(values))


def _p99(values: Floats) -> float:
    return float(np.percentile(values, 99))


def _mean_of_known(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.mean(known)) if len(known) else UNKNOWN


def _p99_of_known(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return _p99(known) if len(known) else UNKNOWN


def _share(part: float, whole: float) -> Number:
    return float(part) / float(whole) if whole else None


def _ratio(value: Number, other: Number) -> Number:
    if value is None or other is None:
        return None
    if value == other:
        return 1.0  # 0 and 0 too
    return value / other if other else UNKNOWN


def _over_both(one: Floats, other: Floats, summary: Callable[[Floats], float]) -> Number:
    both = np.isfinite(one) & np.isfinite(other)
    return _ratio(summary(one[both]), summary(other[both])) if both.any() else UNKNOWN
