"""The runs of a study, and those of them that are reported together.

All policies meet the same scenario in a cell with a seed, which is what makes them comparable in
pairs. A part of a study is one cell or all of them; a seed is then worth its mean over the cells,
since cells may share their draws, and only seeds are independent of each other.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING

from metronome_opt.bench.intervals import Interval, mean_interval
from metronome_opt.bench.items import with_distinct_slugs
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.errors import InputError, show
from metronome_opt.plot.simulation import in_order
from metronome_opt.simulate.study import Cell

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, Sequence[object]]
Number = float | None
"""NaN where it is not known, None where it does not apply: a class without jobs, say."""

DONE = "done"
ALL_CELLS = "all cells"
_LONGEST_SLUG = 80
_WORDS = {"job", "model", "link"}
_TRUTHS = {"finished"}


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """A simulation that was done, with its tables.

    Attributes
    ----------
    cell
        What it is of, as people read it.
    jobs, links
        One row each, by name, in the order of the names.
    samples
        One row for each moment at which a sample was taken.
    makespan_s
        Seconds that were simulated.
    """

    cell: str
    seed: int
    policy: str
    jobs: pd.DataFrame
    links: pd.DataFrame
    samples: pd.DataFrame
    makespan_s: float

    @property
    def unfinished(self) -> int:
        """How many jobs did not finish."""
        return int((~self.jobs["finished"]).sum())


@dataclass(frozen=True, eq=False)
class Part:
    """Runs that are reported together.

    Attributes
    ----------
    title, slug
        For people, for the names of files.
    cells, seeds, policies
        All that were asked for, whether each run was done or not.
    runs
        Those that were done, by cell, seed and policy.
    kinds
        How the runs of each policy ended, and how many of each.
    """

    title: str
    slug: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    runs: Mapping[tuple[str, int, str], SimulatedRun]
    kinds: Mapping[str, Mapping[str, int]]

    def of(self, policy: str) -> tuple[SimulatedRun, ...]:
        """Return the runs of a policy that were done."""
        return tuple(
            self.runs[cell, seed, policy]
            for cell in self.cells
            for seed in self.seeds
            if (cell, seed, policy) in self.runs
        )

    @cached_property
    def unfinished(self) -> int:
        """How many jobs did not finish, in all runs together."""
        return sum(run.unfinished for run in self.runs.values())

    def mean(self, policy: str, value: Callable[[SimulatedRun], Number]) -> Interval | None:
        """Return the mean of a value over the seeds at which a policy ran in all cells.

        None where there is no such seed, or the value of a run is not known: the mean of the others
        would be one of the easier runs.
        """
        return self._interval((policy,), lambda runs: value(*runs))

    def paired(
        self, policy: str, against: str, value: Callable[[SimulatedRun, SimulatedRun], Number]
    ) -> Interval | None:
        """Return the mean of a value of pairs of runs, of one scenario each, as `mean` does."""
        return self._interval((policy, against), lambda runs: value(*runs))

    def complete(self, interval: Interval) -> bool:
        """Return whether a mean is one over all seeds."""
        return interval.count == len(self.seeds)

    def _interval(
        self, policies: tuple[str, ...], value: Callable[[Sequence[SimulatedRun]], Number]
    ) -> Interval | None:
        by_seed = [self._of_seed(seed, policies, value) for seed in self.seeds]
        known = [each for each in by_seed if each is not None]
        if not known or any(map(math.isnan, known)):
            return None
        return mean_interval(known)

    def _of_seed(
        self,
        seed: int,
        policies: tuple[str, ...],
        value: Callable[[Sequence[SimulatedRun]], Number],
    ) -> Number:
        values = []
        for cell in self.cells:
            runs = [self.runs.get((cell, seed, policy)) for policy in policies]
            done = [run for run in runs if run is not None]
            if len(done) < len(runs):
                return None
            values.append(value(done))
        applying = [each for each in values if each is not None]
        return fmean(applying) if applying else None


def parts_of(records: Sequence[SimulationRecord]) -> tuple[Part, ...]:
    """Return the whole study, if it has several cells, and then each cell.

    Raises
    ------
    InputError
        If there are no records, they are of several studies, or a run is there twice.
    """
    _check(records)
    runs = [run_of(record) for record in records if record.went_well]
    _check_pairs(runs)
    cells = tuple(dict.fromkeys(map(_label, records)))
    parts = [_part(cell, (cell,), records, runs) for cell in cells]
    if len(cells) > 1:
        parts.insert(0, _part(ALL_CELLS, cells, records, runs))
    return with_distinct_slugs(parts)


def _check(records: Sequence[SimulationRecord]) -> None:
    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    studies = list(dict.fromkeys(record.study for record in records))
    if len(studies) > 1:
        raise InputError(
            f"records: are of the studies {', '.join(map(show, studies))}; report one at a time"
        )
    keys = Counter((_label(record), record.seed, record.policy) for record in records)
    (cell, seed, policy), count = keys.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"records: {policy} with seed {seed} in {show(cell)} is there {count} times; "
            "report the records of one campaign"
        )


def _check_pairs(runs: Iterable[SimulatedRun]) -> None:
    scenarios: dict[tuple[str, int], SimulatedRun] = {}
    for each in runs:
        first = scenarios.setdefault((each.cell, each.seed), each)
        if not each.jobs.index.equals(first.jobs.index):
            raise InputError(
                f"records: {each.policy} and {first.policy} did not simulate the same jobs in "
                f"{show(each.cell)} with seed {each.seed}; simulate them again"
            )


def _part(
    title: str,
    cells: tuple[str, ...],
    records: Iterable[SimulationRecord],
    runs: Iterable[SimulatedRun],
) -> Part:
    mine = [record for record in records if _label(record) in cells]
    policies = in_order({record.policy for record in mine})
    return Part(
        title=title,
        slug="-".join(re.findall(r"[a-z0-9.]+", title.lower()))[:_LONGEST_SLUG] or "cell",
        cells=cells,
        seeds=tuple(sorted({record.seed for record in mine})),
        policies=policies,
        runs={(each.cell, each.seed, each.policy): each for each in runs if each.cell in cells},
        kinds={
            policy: Counter(record.kind for record in mine if record.policy == policy)
            for policy in policies
        },
    )


def _label(record: SimulationRecord) -> str:
    return Cell(record.cell).label if record.cell else record.study


def run_of(record: SimulationRecord) -> SimulatedRun:
    """Return what a record of a simulation that was done holds, as tables.

    Raises
    ------
    InputError
        If it has no results.
    """
    if record.jobs is None or record.links is None or record.makespan_s is None:
        raise InputError(
            f"records: {record.policy} with seed {record.seed} in {show(_label(record))} is done "
            "and has no results; simulate it again"
        )
    return SimulatedRun(
        cell=_label(record),
        seed=record.seed,
        policy=record.policy,
        jobs=_frame(record.jobs).set_index("job").sort_index(),
        links=_frame(record.links).set_index("link"),
        samples=_frame(record.samples or {}),
        makespan_s=float(record.makespan_s),
    )


def _frame(columns: Columns) -> pd.DataFrame:
    """Return columns as a table; what is not known in one of numbers is NaN."""
    import pandas as pd

    kinds = {name: bool if name in _TRUTHS else float for name in columns if name not in _WORDS}
    return pd.DataFrame({name: list(column) for name, column in columns.items()}).astype(kinds)
