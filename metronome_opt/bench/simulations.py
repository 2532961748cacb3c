"""A campaign of simulations: each one policy on one scenario of a study, as a task and as a record.

A simulation is known by what is simulated, not by its limits. One that crashed is run again, one
that was killed for its limits is under wider ones, and its last record is the one that counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.campaign import CaseRecord, Seconds
from metronome_opt.bench.process import Limits, Outcome, Task
from metronome_opt.errors import InputError, quote
from metronome_opt.records import FrozenMap, NonNegative, explain
from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.study import Cell, Setting, Study

FILE = "simulations.jsonl"

Value = int | float | str | bool | None
Columns = FrozenMap[str, Annotated[tuple[Value, ...], Field(strict=False)]]
Key = tuple[str, frozenset[tuple[str, Setting]], int, str, str]
Kind = Literal["done", "out_of_time", "out_of_memory", "crash", "refused"]
H = TypeVar("H", bound=Hashable)

_WORKER = "metronome_opt.bench.worker simulation"
_RESULTS = ("jobs", "links", "samples", "makespan_s", "events", "runtime_s")
_BEGINNING_S = 0.001
_NOT_OF_SCENARIOS = {"about", "grid", "conditions", "policies", "seeds"}


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class SimulationRecord(CaseRecord):
    """One simulation and what came of it; see `CaseRecord` for what all campaigns record.

    Attributes
    ----------
    kind
        ``done``; ``out_of_time``, ``out_of_memory``: the limits ended it; ``crash``: an exception
        or a signal ended it; ``refused``: the input cannot be simulated, see `error`.
    study, study_sha256
        Its name, and the checksum of what it says of scenarios.
    cell, policy, conditions
        What was simulated; a cell is its settings by name, in the order of the study.
    jobs, links, samples
        The tables of the `Run`, each a list by the name of the column, None for what is not known;
        None if it was not done.
    makespan_s, events
        Simulated seconds; how many events there were.
    """

    format: Literal["metronome-simulation/1"] = "metronome-simulation/1"
    kind: Kind
    study: str
    study_sha256: str
    cell: FrozenMap[str, Setting]
    policy: str
    conditions: Conditions
    jobs: Columns | None
    links: Columns | None
    samples: Columns | None
    makespan_s: Seconds | None
    events: NonNegative | None

    @property
    def key(self) -> Key:
        """What tells this simulation from every other one."""
        return _key(self.study_sha256, self.cell, self.seed, self.policy, self.conditions)

    @property
    def title(self) -> str:
        """Which simulation it was, for people."""
        return _title(self.study, self.cell, self.seed, self.policy)

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""
        if not self.went_well:
            return f"{self.kind.replace('_', ' ')} ({self.error})"
        return (
            f"{self.makespan_s:,.0f} s simulated in {self.runtime_s:.2f} s, {self.events:,} events"
        )


@dataclass(frozen=True, eq=False)
class _Scene:
    """The scenario of one cell and seed, which all policies share, and what disturbs it."""

    study: Study
    study_sha256: str
    cell: Cell
    seed: int
    conditions: Conditions

    @cached_property
    def document(self) -> dict[str, Any]:
        """The scenario as plain values, drawn at the first look.

        Raises
        ------
        InputError
            If there is none for this cell and seed.
        """
        scenario = self.study.scenario(self.cell, self.seed)
        document: dict[str, Any] = _plain(scenario)
        for folder in ("workloads", "measured"):  # a worker runs in a folder of its own
            if document.get(folder) is not None:
                document[folder] = str(Path(document[folder]).resolve())
        return document


@dataclass(frozen=True)
class Simulation:
    """One case of a campaign of simulations; `module` is the process it runs in."""

    scene: _Scene
    policy: str
    limits: Limits
    module: str = _WORKER

    @property
    def key(self) -> Key:
        """What tells it from every other one, as in its record."""
        scene = self.scene
        settings = scene.cell.settings
        return _key(scene.study_sha256, settings, scene.seed, self.policy, scene.conditions)

    def __str__(self) -> str:
        scene = self.scene
        return _title(scene.study.name, scene.cell.settings, scene.seed, self.policy)

    def task(self) -> Task:
        """Return what a worker is to do."""
        document = {
            "scenario": self.scene.document,
            "policy": self.policy,
            "seed": self.scene.seed,
            "conditions": self.scene.conditions.model_dump(mode="json"),
            "sample_s": self.scene.study.sample_s,
        }
        return Task(self.module, document, self.limits)

    def record(self, outcome: Outcome) -> SimulationRecord:
        """Return what is recorded of `outcome`."""
        scene = self.scene
        end, error = outcome.said("end"), outcome.said("error")
        limited = {"time": "out_of_time", "memory": "out_of_memory"}
        failure = limited.get(outcome.ending) or error.get("kind", "crash")
        results: dict[str, Any] = {name: end.get(name) for name in _RESULTS}
        kind: Any = "done" if end else failure
        return SimulationRecord(
            kind=kind,
            study=scene.study.name,
            study_sha256=scene.study_sha256,
            cell=scene.cell.settings,
            seed=scene.seed,
            policy=self.policy,
            conditions=scene.conditions,
            time_limit_s=self.limits.time_s,
            memory_limit_mb=self.limits.memory_mb,
            notes=tuple(end.get("notes", ())),
            error=None if end else error.get("text") or outcome.how_it_ended(self.limits),
            **results,
            **outcome.circumstances,
        )

    def may_end_better(self, record: SimulationRecord) -> bool:
        """Return whether it crashed, or was killed for limits that are wider now."""
        memory, limited = self.limits.memory_mb or math.inf, record.memory_limit_mb or math.inf
        wider = {
            "crash": True,
            "out_of_time": self.limits.time_s > record.time_limit_s,
            "out_of_memory": memory > limited,
        }
        return wider.get(record.kind, False)


def _plain(value: Any) -> Any:
    """Return a record as plain values that read back as the same record.

    A fraction becomes an integer, a decimal number, or text such as ``4:3`` where neither is exact.
    """
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if not isinstance(value, Fraction):
        return value
    if value.denominator == 1:
        return int(value)
    decimal = float(value)
    exact = Fraction(repr(decimal)) == value
    return decimal if exact else f"{value.numerator}:{value.denominator}"


def _key(
    sha256: str, cell: Mapping[str, Setting], seed: int, policy: str, conditions: Conditions
) -> Key:
    return sha256, frozenset(cell.items()), seed, policy, conditions.model_dump_json()


def _title(study: str, cell: Mapping[str, Setting], seed: int, policy: str) -> str:
    words = (study, Cell(cell).label, policy) if cell else (study, policy)
    return f"{' '.join(words)} seed {seed}"


# ------------------------------------------------------------------ what there is to do


def plan(
    study: Study,
    cells: Iterable[Cell],
    policies: Iterable[str],
    *,
    seeds: int | None,
    limits: Limits,
    overrides: Mapping[str, Any] | None = None,
    module: str = _WORKER,
) -> list[Simulation]:
    """Return the simulations of a campaign, each one once.

    What is compared with each other comes together, seed by seed, so that a campaign that is
    interrupted has whole seeds to show.

    Parameters
    ----------
    seeds
        How many; None for those of the study, or for one if it is a scenario that nothing disturbs:
        then all seeds are alike.
    overrides
        Conditions that are other than the study says.

    Raises
    ------
    InputError
        If the conditions cannot be these.
    """
    sha256 = checksum(study)
    conditions = [(cell, _conditions_of(study, cell, overrides or {})) for cell in cells]
    chance = any(under.random or under.sharing == "tcp" for _, under in conditions)
    usual = study.seeds if chance or not study.is_one_scenario else 1
    scenes = (
        _Scene(study, sha256, cell, seed, under)
        for seed in range(seeds or usual)
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


def _conditions_of(study: Study, cell: Cell, overrides: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a cell with some of them changed."""
    for name in overrides:
        if name not in Conditions.model_fields:
            raise InputError(
                f"{quote(name)} is not a condition; choose from "
                f"{', '.join(Conditions.model_fields)}"
            )
        if name in cell.settings:
            raise InputError(f"{name}: is varied by the study; choose cells by it instead")
    try:
        return Conditions.model_validate(study.conditions_of(cell).model_dump() | dict(overrides))
    except ValidationError as error:
        raise InputError(explain(error)) from None


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
    conditions = {cell.settings: _conditions_of(study, cell, overrides) for cell in study.cells}
    for record in records:
        if record.study_sha256 != sha256:
            raise InputError(
                f"holds simulations of the study {quote(record.study)}, which is another or has "
                "changed; name another --output"
            )
        then = record.conditions.model_dump()
        now = conditions.get(record.cell, record.conditions).model_dump()
        other = next((name for name in then if then[name] != now[name]), None)
        if other is not None:
            raise InputError(
                "holds simulations under other conditions "
                f"({other} was {quote(then[other])}, now it is {quote(now[other])}); "
                "give the same --set, or name another --output"
            )


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
                f"{quote(name)} is not in the grid of {study.name}, "
                f"which has {', '.join(study.grid) or 'one cell'}"
            )
        if read_value(value) not in study.grid[name]:
            known = ", ".join(map(str, study.grid[name]))
            raise InputError(f"{name}: {quote(value)} is not in the grid, which has {known}")
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


# ------------------------------------------------------------------ what there is


def latest(records: Iterable[SimulationRecord]) -> list[SimulationRecord]:
    """Return the last record of each simulation, which is the one that counts."""
    return list({record.key: record for record in records}.values())


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


def _places(values: Iterable[H]) -> dict[H, int]:
    """Return which of the distinct values each one is."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}
