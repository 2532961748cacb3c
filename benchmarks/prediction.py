"""How much longer iterations are predicted to be, and how much longer they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.best_known import HOME, read_best_known
from benchmarks.figures import keep_figure
from benchmarks.registry import Figure, benchmark
from benchmarks.stored import SUITES
from metronome_opt import solve
from metronome_opt.bench.suites import Member, read_suite
from metronome_opt.plot.simulation import correlation, plot_prediction
from metronome_opt.schedule import read_schedule
from metronome_opt.simulate import Conditions, play

_LARGEST_FABRIC = 256  # nodes
_HYPERPERIODS = 100
_ALIKE = 0.01  # of an iteration: a prediction no farther off is taken for right
_SHARING: tuple[Literal["strict", "fair"], ...] = ("strict", "fair")


@benchmark("How well does the judge predict how much longer iterations become?")
def prediction(small: bool) -> Iterator[Figure]:
    """Play the best known schedules and compare each job's mean iteration with the prediction.

    The judge looks at a schedule that nothing moves, serves heavier jobs first on every link, and
    adds up what a job lacks on its links. What really happens is looked at in three ways. A job
    that is *not held* begins its next iteration when the last one is over, so that jobs slide
    against one another. Those *in step* wait for one another. To wait is not to be slowed down by
    links, and so their iterations are looked at *without waiting*, too: this is what the judge
    describes.
    """
    found = [_elongations(member) for member in _members(small)]
    predicted = np.concatenate([one["predicted"] for one in found])
    yield Figure("jobs", len(predicted), "")
    yield Figure("predicted to be held up", int((predicted > 0).sum()), "jobs")
    yield Figure("predicted, mean", 100 * predicted.mean(), "% of an iteration")
    panels = {}
    for label in [name for name in found[0] if name != "predicted"]:
        simulated = np.concatenate([one[label] for one in found])
        panels[label] = predicted, simulated
        both = correlation(predicted, simulated)
        for name, value in (("Pearson", both.pearson), ("Spearman", both.spearman)):
            if value is not None:
                yield Figure(f"{label}: {name}", value, "")
        yield Figure(f"{label}: simulated, mean", 100 * simulated.mean(), "% of an iteration")
        yield Figure(
            f"{label}: mean absolute error",
            100 * np.abs(predicted - simulated).mean(),
            "% of an iteration",
        )
        right = np.abs(predicted - simulated) <= _ALIKE
        yield Figure(f"{label}: right to {_ALIKE:.0%} of an iteration", int(right.sum()), "jobs")
        more, less = predicted > simulated, predicted < simulated
        yield Figure(f"{label}: overestimated", int((more & ~right).sum()), "jobs")
        yield Figure(f"{label}: underestimated", int((less & ~right).sum()), "jobs")
    figure = plot_prediction(panels, title="best known schedules of stored instances")
    keep_figure(figure, "prediction.svg", small)


def _members(small: bool) -> Iterator[Member]:
    """Yield the test instances of three families, or one of each for tuning."""
    for family in ("paper", "fabric", "single"):
        members = (
            member
            for member in read_suite(SUITES / family).members("tune" if small else "test")
            if member.entry.parameters.get("nodes", 0) <= _LARGEST_FABRIC
        )
        yield from [next(members)] if small else members


def _offsets(member: Member) -> Mapping[str, int]:
    """Return the best known offsets; those of `greedy` where none are stored."""
    entry = read_best_known().instances.get(member.entry.name)
    if entry is None:
        return solve(member.instance, "greedy", "contention").schedule.offsets
    return read_schedule(HOME / entry.schedule.file).offsets


def _elongations(member: Member) -> dict[str, NDArray[np.float64]]:
    """Return the elongation of each job as a share of its period, predicted and simulated.

    Everybody runs for as long: a job that ended early would make room for others.
    """
    instance, offsets = member.instance, _offsets(member)
    periods = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
    starts = np.array([float(offsets[job.name] * instance.slot_ms) for job in instance.jobs])
    horizon_ms = _HYPERPERIODS * max(instance.hyperperiods.values()) * instance.slot_ms
    found = {}
    for sharing, enforce in product(_SHARING, (False, True)):
        jobs = play(
            instance,
            offsets,
            iterations=math.ceil(horizon_ms / periods.min()),
            conditions=Conditions(sharing=sharing, horizon_s=horizon_ms / 1000),
            enforce=enforce,
        ).jobs
        found["predicted"] = jobs["predicted_ms"].to_numpy() / periods
        mean = jobs["iteration_mean_ms"].to_numpy()
        found[f"{sharing}, {'in step' if enforce else 'not held'}"] = mean / periods - 1
        if enforce:
            waited = (1000 * jobs["waited_s"].to_numpy() - starts) / jobs["iterations"].to_numpy()
            found[f"{sharing}, in step, without waiting"] = (mean - waited) / periods - 1
    return found
