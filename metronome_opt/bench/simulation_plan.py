"""What a campaign of simulations consists of, and what of it is left to do.

A simulation is known by what is simulated, not by its limits. One that crashed is run again, one
that was killed for its limits is under wider ones, and its last record is the one that counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from metronome_opt.bench.process import Limits
from metronome_opt.bench.simulations import (
    WORKER,
    Scene,
    Simulation,
    SimulationRecord,
    latest,
)
from metronome_opt.errors import InputError, show
from metronome_opt.records import explain
from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.study import Cell, Study

H = TypeVar("H", bound=Hashable)

_BEGINNING_S = 0.001
_NOT_OF_SCENARIOS = {"about", "grid", "conditions", "policies", "seeds"}


def plan(
    study: Study,
    cells: Iterable[Cell],
    policies: Iterable[str],
    *,
    seeds: int,
    limits: Limits,
    overrides: Mapping[str, Any] | None = None,
    module: str = WORKER,
) -> list[Simulation]:
    """Return the simulations of a campaign, each one once.

    What is compared with each other comes together, seed by seed, so that a campaign that is
    interrupted has whole seeds to show.

    Parameters
    ----------
    overrides
        Conditions that are other than the study says.

    Raises
    ------
    InputError
        If the conditions cannot be these.
    """
    sha256 = checksum(study)
    conditions = [(cell, conditions_of(study, cell, overrides or {})) for cell in cells]
    scenes = (
        Scene(study, sha256, cell, seed, under)
        for seed in range(seeds)
        for cell, under in conditions
    )
    chosen = tuple(dict.fromkeys(policies))
    return [Simulation(scene, policy, limits, module) for scene in scenes for policy in chosen]


def checksum(study: Study) -> str:
    """Return the SHA-256 of what a study says of scenarios and of what is sampled.

    Its grid and the rest that says which of them are simulated is left out, so that a study can be
    widened and its campaign goes on. Workloads of its own count by their content.
    """
    document: dict[str, Any] = study.model_dump(mode="json", exclude=_NOT_OF_SCENARIOS)
    folder = document.get("workloads")
    if folder is not None:
        files = sorted(path for path in Path(folder).glob("*") if path.is_file())
        document["workloads"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def conditions_of(study: Study, cell: Cell, overrides: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a cell with some of them changed.

    Raises
    ------
    InputError
        If one is not known, not of its range, or what the grid of the study is about.
    """
    for name in overrides:
        if name not in Conditions.model_fields:
            raise InputError(
                f"{show(name)} is not a condition; choose from {', '.join(Conditions.model_fields)}"
            )
        if name in cell.settings:
            raise InputError(f"{name}: is varied by the study; choose cells by it instead")
    try:
        return Conditions.model_validate(study.conditions_of(cell).model_dump() | dict(overrides))
    except ValidationError as error:
        raise InputError(explain(error)) from None


def to_run(cases: Iterable[Simulation], records: Iterable[SimulationRecord]) -> list[Simulation]:
    """Return the cases without a record, and those that another attempt may bring to an end."""
    held = {record.key: record for record in records}
    return [case for case in cases if case.key not in held or _may_end(case, held[case.key])]


def check_own(
    records: Iterable[SimulationRecord], study: Study, overrides: Mapping[str, Any]
) -> None:
    """Refuse records that cannot be reported together with those of a campaign.

    Raises
    ------
    InputError
        If they are of another study, or of the same one under other conditions.
    """
    sha256 = checksum(study)
    conditions = {cell.settings: conditions_of(study, cell, overrides) for cell in study.cells}
    for record in records:
        if record.study_sha256 != sha256:
            raise InputError(
                f"holds simulations of the study {show(record.study)}, which is another or has "
                "changed; name another --output"
            )
        expected = conditions.get(record.cell, record.conditions)
        if expected != record.conditions:
            raise InputError(
                "holds simulations under other conditions "
                f"({_difference(record.conditions, expected)}); "
                "give the same --set, or name another --output"
            )


def choose_cells(study: Study, wanted: Mapping[str, str]) -> tuple[Cell, ...]:
    """Return the cells of a study that have all of some settings.

    Parameters
    ----------
    wanted
        Values by name as they are typed: ``0.8``, ``any``, ``true``.

    Raises
    ------
    InputError
        If the study's grid has no such parameter or value.
    """
    for name, value in wanted.items():
        if name not in study.grid:
            raise InputError(
                f"{show(name)} is not in the grid of {study.name}, "
                f"which has {', '.join(study.grid) or 'one cell'}"
            )
        if read_value(value) not in study.grid[name]:
            known = ", ".join(map(str, study.grid[name]))
            raise InputError(f"{name}: {show(value)} is not in the grid, which has {known}")
    return tuple(
        cell
        for cell in study.cells
        if all(cell.settings[name] == read_value(value) for name, value in wanted.items())
    )


def read_value(text: str) -> int | float | str | bool | None:
    """Return what a typed value means: a truth value, none, a number, or else text."""
    named: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def check_scenarios(study: Study, cells: Iterable[Cell]) -> None:
    """Refuse what no policy can simulate: the first scenario of each cell is begun.

    Raises
    ------
    InputError
        If it cannot be drawn or begun.
    """
    from metronome_opt.simulate import simulate

    beginning = Conditions(horizon_s=_BEGINNING_S)
    for cell in cells:
        simulate(study.scenario(cell, 0), "ideal", conditions=beginning)


def in_order(records: Iterable[SimulationRecord], study: Study) -> list[SimulationRecord]:
    """Return the last record of each simulation, sorted by cell, policy and seed.

    Cells and policies come in the order of the study, then others in that of the alphabet.
    """
    last = latest(records)
    others = sorted((record.cell for record in last), key=lambda cell: Cell(cell).label)
    cells = _places([*(cell.settings for cell in study.cells), *others])
    policies = _places([*study.policies, *sorted(record.policy for record in last)])
    return sorted(
        last,
        key=lambda record: (cells[record.cell], policies[record.policy], record.seed),
    )


def _may_end(case: Simulation, record: SimulationRecord) -> bool:
    """Return whether a case may go better than it did."""
    memory, limited = case.limits.memory_mb or math.inf, record.memory_limit_mb or math.inf
    wider = {
        "crash": True,
        "out_of_time": case.limits.time_s > record.time_limit_s,
        "out_of_memory": memory > limited,
    }
    return wider.get(record.kind, False)


def _difference(held: Conditions, wanted: Conditions) -> str:
    """Return the first condition that is another."""
    then, now = held.model_dump(), wanted.model_dump()
    name = next(name for name in then if then[name] != now[name])
    return f"{name} was {show(then[name])}, now it is {show(now[name])}"


def _places(values: Iterable[H]) -> dict[H, int]:
    """Return which of the distinct values each one is."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}
