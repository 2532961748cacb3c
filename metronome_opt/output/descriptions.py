"""Results and fronts in lines and tables, for a terminal or a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.allocation.scenario_search import reasons
from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.allocation.slots.obstacles import explain_obstacles
from metronome_opt.errors import pluralise
from metronome_opt.files.records import FrozenDict
from metronome_opt.output.tables import (
    gain_text,
    jobs_legend,
    jobs_table,
    objectives_table,
    plain_table,
    select_jobs,
)
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import find_objective
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.scenario import Scenario
from metronome_opt.solvers.multiobjective.front import Front
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from rich.table import Table

    from metronome_opt.scenario.placed_instance import Deployment

_SIMULATED_DIGITS, _MAX_DIGITS = 3, 6
_ENDS = {
    StopReason.FINISHED: ": {} has nothing left to try",
    StopReason.TIME_LIMIT: ": a longer time limit may find more",
}


def describe_jobs(
    result: Result,
    times: IterationTimes,
    placed: Deployment | None = None,
    elsewhere: Mapping[str, Mapping[str, Fraction]] = FrozenDict(),
) -> Iterator[Table | str]:
    """Yield the table of jobs and its legend."""
    instance, jobs = result.instance, select_jobs(result.instance, times)
    yield jobs_table(instance, result.schedule, times, placed, jobs, elsewhere)
    if len(jobs) < len(instance.jobs):
        count = pluralise(len(instance.jobs), "job")
        yield f"{len(jobs)} of {count}, most affected; all with --output or --json"
    yield jobs_legend(instance, result.schedule, times)


def describe_gain(
    result: Result, source: Scenario | Instance, times: IterationTimes
) -> Iterator[Table | str]:
    """Yield what was gained and why not more, and what is proved."""
    instance, cushion_slots = result.instance, result.schedule.cushion_slots
    yield gain_text(instance, result.schedule, times)
    yield from _obstacles(result, source, times)
    yield result.summary() + _ENDS.get(result.stop_reason, "").format(result.schedule.solver)
    if not _is_stated(result):
        for number, level in enumerate(result.levels, start=1):
            yield f"{number}. {level}"
    if cushion_slots:
        yield f"all values are those of longer bursts, by {pluralise(cushion_slots, 'slot')}"
    by_simulation = find_objective(result.schedule.primary_objective).simulated
    if not by_simulation and result.evaluation is not None:
        # The unshifted values; unknown where jobs have to be stretched first.
        before = None
        if not instance.needs_stretch:
            before = evaluate(instance, instance.unshifted, cushion_slots=cushion_slots)
        yield objectives_table(before, result.evaluation)


def _obstacles(result: Result, source: Scenario | Instance, times: IterationTimes) -> Iterator[str]:
    """Yield why jobs wait, or are slower than alone, and what to try."""
    schedule, stated = result.schedule, False
    if isinstance(source, Scenario):
        stated = schedule.places is None
        waiting = reasons(source, schedule.places or {}) if schedule.waiting else {}
        for name, reason in waiting.items():
            yield f"{name} waits: {reason}"
    yield from explain_obstacles(result.instance, schedule, times.after, stated_nodes=stated)


def _is_stated(result: Result) -> bool:
    """Return True if the summary has the value of the one objective, and that it is proved."""
    stated = (result.schedule.primary_objective, result.status is Status.OPTIMAL)
    return [(level.name, level.proved) for level in result.levels] == [stated]


def describe_front(front: Front, files: Sequence[Path] = ()) -> Iterator[Table | str]:
    """Yield what is known of a front, and the table of its points with their files, if any."""
    kind = "complete" if front.complete else "not proved complete"
    yield (
        f"{front.instance.name}: front of {', '.join(front.objectives)}: "
        f"{pluralise(len(front.points), 'point')}, {kind}, "
        f"{front.runtime_s:.2f} s ({front.stop})"
    )
    if slots := front.points[0].cushion_slots:
        yield f"all values are those of longer bursts, by {pluralise(slots, 'slot')}"
    yield front_table(front, [str(file) for file in files])


def front_table(front: Front, files: Sequence[str]) -> Table:
    """Return one row per point of a front: number, values and file.

    Values have as many digits as it takes to see the smallest difference, up to six.

    Parameters
    ----------
    files
        Files of the points, in their order; none, and no column, if they are not written.
    """
    columns = [
        _distinct(name, [point.objectives[name] for point in front.points])
        for name in front.objectives
    ]
    numbers = map(str, range(1, len(front.points) + 1))
    headings = (
        *("point", *(f"{name}\n({find_objective(name).unit})" for name in front.objectives)),
        *(["schedule"] if files else []),
    )
    rows = zip(numbers, *columns, *([files] if files else []), strict=True)
    return plain_table(headings, rows, left=("schedule",))


def _distinct(name: str, values: Sequence[Fraction | None]) -> list[str]:
    """Return values as text, with enough digits that two of the smallest difference show."""
    objective = find_objective(name)
    known = sorted({value * (100 if objective.percent else 1) for value in values if value})
    steps = [float(after - before) for before, after in pairwise(known)]
    digits = max(1, 1 - math.floor(math.log10(min(steps)))) if steps else 1
    digits = max(digits, _SIMULATED_DIGITS if objective.simulated else 1)
    return [objective.format(value, min(digits, _MAX_DIGITS)) for value in values]
