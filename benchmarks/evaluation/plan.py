"""The parts of the evaluation, and the commands that make their records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from metronome_opt.bench.simulations import FILE
from metronome_opt.errors import InputError
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Positive,
    Record,
    explain,
    read_document_as,
)
from metronome_opt.simulation.study import STUDIES, Setting

HOME = Path(__file__).parents[2]
PLAN = Path(__file__).parent / "plan.yaml"
SMALL_SEEDS = 2

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
    small
        Cells of a small evaluation.
    """

    study: Name
    policies: _Texts
    seeds: Positive
    set: FrozenMap[Name, Setting] = FrozenDict()
    cells: _Texts = ("",)
    trace: str | None = None
    small: _Texts

    def commands(self, *, seeds: int, small: bool) -> Iterator[tuple[str, ...]]:
        """Yield commands without the options that name places on a machine."""
        conditions = ",".join(f"{name}={value}" for name, value in self.set.items())
        for cells in self.small if small else self.cells:
            yield (
                *("metronome", "simulate", self.study, "--estimate", "--replications", str(seeds)),
                *("--policies", ",".join(self.policies)),
                *(("--cells", cells) if cells else ()),
                *(("--conditions", conditions) if conditions else ()),
                *(("--trace", self.trace) if self.trace else ()),
            )


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

    def command(self, *, small: bool) -> tuple[str, ...]:
        """Return the command without the options that name places on a machine."""
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
    words = race.command(small=small)
    _run([*words[1:], "--output", str(path), *(("--resume",) if path.exists() else ())])
    return [" ".join(words)]


def run_part(
    part: Part, folder: Path, *, seeds: int, small: bool, traces: Path | None, width: int
) -> list[str]:
    """Run what is not there yet of a part, with so many seeds; return the commands.

    Parameters
    ----------
    folder
        For the simulations.
    traces
        The folder of arrivals.
    width
        Simulations at once.
    """
    lines = []
    for words in part.commands(seeds=seeds, small=small):
        lines.append(" ".join(words))
        study, *options = words[2:]
        if part.trace and traces:
            options = [str(traces / each) if each == part.trace else each for each in options]
        _run(
            [
                *("simulate", str(STUDIES / f"{study}.yaml"), *options, "--processes", str(width)),
                *("--output", str(folder), *(("--resume",) if (folder / FILE).exists() else ())),
            ]
        )
    return lines


def _run(words: list[str]) -> None:
    command = [sys.executable, "-m", "metronome_opt", *words]
    ended = subprocess.run(command, cwd=HOME, check=False, stdout=subprocess.DEVNULL)
    # Exit status 1 says that some cases were not done; their records say why.
    if ended.returncode not in (0, 1):
        raise InputError(f"{' '.join(words)}: ended with exit status {ended.returncode}")
