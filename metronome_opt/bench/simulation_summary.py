"""A campaign of simulations in a few lines: what each policy brings, all cells together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metronome_opt.bench.evaluation.measures import MEASURES, Measure
from metronome_opt.bench.evaluation.runs import parts_of
from metronome_opt.bench.simulations import SimulationRecord

SHOWN: tuple[Measure, ...] = tuple(
    MEASURES[name]
    for name in ("completion_mean_s", "completion_p99_s", "slowdown_mean", "utilisation_used")
)


@dataclass(frozen=True)
class Summary:
    """What one policy brings.

    Attributes
    ----------
    policy
        Its name.
    runs, unfinished
        How many runs were done, and how many jobs did not finish in them.
    means
        Means over the seeds of the measures that are `SHOWN`, by name; None where a mean is not
        known: where jobs did not finish, or no seed ran in all cells.
    """

    policy: str
    runs: int
    unfinished: int
    means: dict[str, float | None]


def summarise(records: Sequence[SimulationRecord]) -> list[Summary]:
    """Return a summary for each policy, in the order of the report.

    Raises
    ------
    InputError
        If the records are not of one study, or a simulation is there twice.
    """
    if not records:
        return []
    whole = parts_of(records)[0]
    summaries = []
    for policy in whole.policies:
        runs = whole.of(policy)
        found = {measure.name: whole.mean(policy, measure.of) for measure in SHOWN}
        means = {name: None if mean is None else mean.mean for name, mean in found.items()}
        unfinished = sum(run.unfinished for run in runs)
        summaries.append(Summary(policy, len(runs), unfinished, means))
    return summaries
