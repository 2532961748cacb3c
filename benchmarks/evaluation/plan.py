"""The parts of the evaluation, and the commands that make their records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from metronome_opt.bench.campaign import local_pool
from metronome_opt.bench.process import Limits
from metronome_opt.bench.simulations import (
    FILE,
    SimulationRecord,
    check_records,
    choose_cells,
    keep_latest,
    plan,
)
from metronome_opt.bench.suites import find_suites
from metronome_opt.cli.campaigns import run_remaining
from metronome_opt.cli.options import read_pairs
from metronome_opt.errors import InputError, error_context
from metronome_opt.files.documents import make_folder
from metronome_opt.files.journal import Journal
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Positive,
    Record,
    explain,
    read_document_as,
)
from metronome_opt.simulation.study import STUDIES, Cell, Setting, read_study

HOME = Path(__file__).parents[2]
PLAN = Path(__file__).parent / "plan.yaml"
SMALL_SEEDS = 2
RUN_S = (0.5, 4.0)
"""About how many seconds a simulation of 200 jobs takes, under `metronome` the second number."""
_LIMIT_S, _MEMORY_MB = 1800, 4096

_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class Part(Record):
    """A simulated study, and what of it is run.

    Parameters
    ----------
    study
        Its name.
    policies
        With the one that others are compared with, ``nearest`` or else ``default``.
    seeds
        How many.
    set
        Conditions that replace those of the study.
    cells
        Settings of cells, each ``NAME=VALUE,...``; all cells if left out.
    trace
        File of arrivals, below a folder that the command names.
    estimate
        Whether to estimate the least time that jobs run at their placements.
    small
        Cells of a small evaluation.
    """

    study: Name
    policies: _Texts
    seeds: Positive
    set: FrozenMap[Name, Setting] = FrozenDict()
    cells: _Texts = ("",)
    trace: str | None = None
    estimate: bool = False
    small: _Texts

    def chosen(self, *, small: bool = False) -> tuple[Cell, ...]:
        """Return the cells of the study, or of a small evaluation, without repetition.

        Raises
        ------
        InputError
            If one names a parameter or value that the study does not have.
        """
        study = read_study(_path(self.study))
        texts = self.small if small else self.cells
        named = (read_pairs("cells", [text] if text else None) for text in texts)
        return tuple(dict.fromkeys(cell for each in named for cell in choose_cells(study, each)))

    @property
    def is_by_placement(self) -> bool:
        """True if iterations depend on placements, so that those of `ideal` are no measure."""
        return self.trace is not None

    def planned(self, *, small: bool = False) -> int:
        """Return the number of simulations."""
        seeds = SMALL_SEEDS if small else self.seeds
        return seeds * len(self.policies) * len(self.chosen(small=small))

    def estimated_s(self) -> float:
        """Return about how many seconds of a core they take, by `RUN_S`."""
        a_seed = sum(RUN_S[policy.startswith("metronome")] for policy in self.policies)
        return a_seed * self.seeds * len(self.chosen())


class Race(Record):
    """Stored suites, and the solvers that run on them.

    Parameters
    ----------
    suites, solvers
        Names; a solver may be a function in a file.
    time_limit
        Seconds for each case.
    small
        Suites of a small evaluation.
    """

    suites: _Texts
    solvers: _Texts
    time_limit: Positive
    small: _Texts

    def planned(self) -> int:
        """Return the number of cases."""
        suites = find_suites(",".join(self.suites))
        return len(self.solvers) * sum(len(suite.entries("test")) for suite in suites)

    def command(self, *, small: bool) -> tuple[str, ...]:
        """Return the command without the options that name paths of a machine."""
        return (
            *("metronome", "bench", "run", "--threads", "1"),
            *("--suite", ",".join(self.small if small else self.suites)),
            *("--solvers", ",".join(self.solvers), "--time-limit", str(self.time_limit)),
        )


def read_plan(path: Path = PLAN) -> Mapping[str, Part | Race]:
    """Return the parts by name; one with solvers is a race.

    Raises
    ------
    InputError
        If the file cannot be read, or a part has no valid fields.
    """
    return read_document_as(path, lambda document: dict(map(_part, document, document.values())))


def _part(name: str, fields: object) -> tuple[str, Part | Race]:
    kind = Race if isinstance(fields, dict) and "solvers" in fields else Part
    try:
        return name, kind.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{name}.{explain(error)}") from None


def run_race(race: Race, path: Path, *, small: bool) -> list[str]:
    """Run what is not there yet, one case after the other; return the command."""
    make_folder(path.parent)
    words = race.command(small=small)
    _run([*words[1:], "--output", str(path), *(("--resume",) if path.exists() else ())])
    return [" ".join(words)]


def run_part(
    name: str,
    part: Part,
    folder: Path,
    *,
    seeds: int,
    small: bool,
    traces: Path | None,
    width: int,
) -> list[SimulationRecord]:
    """Run what is not there yet of a part, with so many seeds; return all records.

    Parameters
    ----------
    folder
        For the simulations.
    traces
        The folder of arrivals.
    width
        Simulations at once.

    Raises
    ------
    InputError
        If records are there already that are of another study, or of other conditions.
    """
    study = read_study(_path(part.study))
    if part.trace and traces:
        study = study.of_trace(str(traces / part.trace))
    cases = plan(
        study,
        part.chosen(small=small),
        part.policies,
        seeds=seeds,
        limits=Limits(_LIMIT_S, _MEMORY_MB, grace_s=1.0),
        overrides=part.set,
        estimated=part.estimate,
    )
    make_folder(folder)
    with Journal(folder / FILE, SimulationRecord, resume=True) as file:
        with error_context(name):
            check_records(file.records, study, part.set)
        if run_remaining(cases, file, local_pool(width), folder) is None:
            raise KeyboardInterrupt
        return keep_latest(file.records)


def _path(study: str) -> Path:
    return HOME / STUDIES / f"{study}.yaml"


def _run(words: list[str]) -> None:
    command = [sys.executable, "-m", "metronome_opt", *words]
    ended = subprocess.run(command, cwd=HOME, check=False, stdout=subprocess.DEVNULL)
    # Exit status 1 says that some cases were not done; their records say why.
    if ended.returncode not in (0, 1):
        raise InputError(f"{' '.join(words)}: ended with exit status {ended.returncode}")
