"""The figures of a report, drawn from the runs of a part of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from metronome_opt.bench.evaluation.estimates import BASELINE, Estimate, Estimates
from metronome_opt.bench.evaluation.marks import SUBJECT
from metronome_opt.bench.evaluation.measures import (
    Floats,
    completion,
    elongation,
    predicted_elongation,
)
from metronome_opt.bench.evaluation.runs import Part, SimulatedRun
from metronome_opt.bench.items import Drawing, Item
from metronome_opt.plot.simulation import (
    plot_completion,
    plot_gain,
    plot_grid,
    plot_prediction,
    plot_utilisation,
)

_GRIDS = {
    "completion_mean_s": "mean completion time",
    "completion_p99_s": "p99 completion time",
    "slowdown_mean": "mean iteration time",
}


def cell_drawings(part: Part) -> Iterator[Drawing]:
    """Yield the figures of times, which only runs of one cell have in common."""
    if not part.runs:
        return
    times = {policy: _joined([completion(run) for run in part.of(policy)]) for policy in _ran(part)}
    yield Drawing(
        f"{part.slug}-completion",
        f"{part.title}: completion times of all jobs with all seeds.",
        plot_completion(times, title=part.title),
    )
    samples = {
        policy: [
            (run.samples["time_s"], run.samples["utilisation"])
            for run in part.of(policy)
            if len(run.samples)
        ]
        for policy in _ran(part)
    }
    sampled = {policy: runs for policy, runs in samples.items() if runs}
    if sampled:
        yield Drawing(
            f"{part.slug}-utilisation",
            f"{part.title}: utilisation of all links over time.",
            plot_utilisation(sampled, title=part.title),
        )


def job_drawings(part: Part) -> Iterator[Item]:
    """Yield the figures with a point for each job, or why there is none."""
    scores, gains = _gains(part)
    if (np.isfinite(scores) & np.isfinite(gains)).any():
        yield Drawing(
            f"{part.slug}-gain",
            f"{part.title}: gain of {SUBJECT} over {BASELINE} by compatibility score.",
            plot_gain(scores, gains, title=part.title, policy=SUBJECT, against=BASELINE),
        )
    else:
        yield (
            f"Gain by compatibility is not drawn: no job has a score under {SUBJECT} and an "
            f"iteration under {BASELINE} too.\n"
        )
    elongations = {policy: elongations_of(part, policy) for policy in _ran(part)}
    predicting = {
        policy: both
        for policy, both in elongations.items()
        if (np.isfinite(both[0]) & np.isfinite(both[1])).any()
    }
    if predicting:
        yield Drawing(
            f"{part.slug}-prediction",
            f"{part.title}: elongation of iterations as predicted and as simulated.",
            plot_prediction(predicting, title=part.title),
        )
    else:
        yield "Predicted elongation is not drawn: nothing was predicted.\n"


def grid_drawings(cells: Sequence[Estimates], study: str) -> Iterator[Drawing]:
    """Yield the whole grid: what each policy changes in each cell."""
    policies = [
        policy
        for policy in dict.fromkeys(policy for each in cells for policy in each.part.policies)
        if policy != BASELINE
    ]
    for measure, words in _GRIDS.items():
        found = [[each.find(policy, measure, BASELINE) for policy in policies] for each in cells]
        changes = np.array([[_change(each) for each in row] for row in found], dtype=np.float64)
        if not np.isfinite(changes).any():
            continue
        yield Drawing(
            f"grid-{measure.replace('_', '-')}",
            f"Change of {words} against {BASELINE} in every cell.",
            plot_grid(
                changes,
                cells=[each.part.title for each in cells],
                policies=policies,
                title=f"{study}: {words}",
                what=f"change of {words} against {BASELINE}, mean over pairs of runs",
                certain=np.array([[_is_certain(each) for each in row] for row in found]),
            ),
        )


def elongations_of(part: Part, policy: str) -> tuple[Floats, Floats]:
    """Return predicted and simulated elongations of all jobs, as shares of ideal iterations."""
    runs = part.of(policy)
    return _joined(map(predicted_elongation, runs)), _joined(map(elongation, runs))


def _ran(part: Part) -> tuple[str, ...]:
    return tuple(policy for policy in part.policies if part.of(policy))


def _gains(part: Part) -> tuple[Floats, Floats]:
    """Return scores and gains of all jobs of all pairs of runs."""
    pairs = [
        (run, part.runs[run.cell, run.seed, BASELINE])
        for run in part.of(SUBJECT)
        if (run.cell, run.seed, BASELINE) in part.runs
    ]
    scores = _joined(run.jobs["score"].to_numpy(dtype=np.float64) for run, _ in pairs)
    return scores, _joined(1 - _iteration(run) / _iteration(other) for run, other in pairs)


def _iteration(run: SimulatedRun) -> Floats:
    return run.jobs["iteration_mean_ms"].to_numpy(dtype=np.float64)


def _joined(arrays: Iterable[Floats]) -> Floats:
    return np.concatenate([np.empty(0), *arrays])


def _change(estimate: Estimate | None) -> float:
    if estimate is None or estimate.interval is None:
        return np.nan
    return estimate.interval.mean - 1.0


def _is_certain(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.interval is not None and 1.0 not in estimate.interval
