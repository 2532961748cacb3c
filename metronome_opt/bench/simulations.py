"""A simulation: one policy on one scenario of a study, as a task and as a record of its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass as plain_dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from metronome_opt.bench.process import Limits, Outcome, Task
from metronome_opt.records import FrozenMap, NonNegative, Positive
from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.study import Cell, Setting, Study

WORKER = "metronome_opt.bench.simulation_worker"
FILE = "simulations.jsonl"

_RESULTS = ("jobs", "links", "samples", "makespan_s", "events", "runtime_s")

Kind = Literal["done", "out_of_time", "out_of_memory", "crash", "refused"]
Value = int | float | str | bool | None
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Columns = FrozenMap[str, Annotated[tuple[Value, ...], Field(strict=False)]]
Key = tuple[str, frozenset[tuple[str, Setting]], int, str, str]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class SimulationRecord:
    """One simulation and what came of it.

    Attributes
    ----------
    kind
        ``done``; ``out_of_time``, ``out_of_memory``: the limits ended it; ``crash``: an exception
        or a signal ended it; ``refused``: the input cannot be simulated, see `error`.
    study, study_sha256
        Its name, and the checksum of what it says of scenarios.
    cell, seed, policy, conditions
        What was simulated; a cell is its settings by name, in the order of the study.
    time_limit_s, memory_limit_mb
        What it was allowed; memory None for no limit.
    jobs, links, samples
        The tables of the `Run`, each a list by the name of the column, None for what is not known;
        None if it was not done.
    makespan_s, events
        Simulated seconds; how many events there were.
    notes
        What the simulator had to say.
    error
        Why it was not done.
    wall_s, runtime_s, peak_memory_mb
        From the start of the process to its end; simulating alone, None if it was not done; the
        largest memory of its processes that was seen.
    started, machine, versions, commit
        When (UTC), where and what ran; ``+`` ends the commit of a changed checkout.
    """

    format: Literal["metronome-simulation/1"] = "metronome-simulation/1"
    kind: Kind
    study: str
    study_sha256: str
    cell: FrozenMap[str, Setting]
    seed: NonNegative
    policy: str
    conditions: Conditions
    time_limit_s: Seconds
    memory_limit_mb: Positive | None
    jobs: Columns | None
    links: Columns | None
    samples: Columns | None
    makespan_s: Seconds | None
    events: NonNegative | None
    notes: tuple[str, ...]
    error: str | None
    wall_s: Seconds
    runtime_s: Seconds | None
    peak_memory_mb: Seconds | None
    started: str
    machine: FrozenMap[str, str | int | None]
    versions: FrozenMap[str, str]
    commit: str | None

    @property
    def key(self) -> Key:
        """What tells this simulation from every other one."""
        return _key(self.study_sha256, self.cell, self.seed, self.policy, self.conditions)

    @property
    def title(self) -> str:
        """Which simulation it was, for people."""
        return _title(self.study, self.cell, self.seed, self.policy)

    @property
    def went_well(self) -> bool:
        """Whether it was done."""
        return self.kind == "done"

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""
        if not self.went_well:
            return f"{self.kind.replace('_', ' ')} ({self.error})"
        return (
            f"{self.makespan_s:,.0f} s simulated in {self.runtime_s:.2f} s, {self.events:,} events"
        )


@plain_dataclass(frozen=True, eq=False)
class Scene:
    """The scenario of one cell and seed, which all policies share.

    Attributes
    ----------
    study, study_sha256
        Where it comes from, and the checksum of what the study says of scenarios.
    cell, seed
        Which one of the study's.
    conditions
        What disturbs it.
    """

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
        document: dict[str, Any] = to_plain(scenario)
        if scenario.workloads is not None:  # a worker runs in a folder of its own
            document["workloads"] = str(Path(scenario.workloads).resolve())
        return document


@plain_dataclass(frozen=True)
class Simulation:
    """One case of a campaign of simulations.

    Attributes
    ----------
    scene, policy
        What is simulated.
    limits
        Enforced from outside.
    module
        The process it runs in.
    """

    scene: Scene
    policy: str
    limits: Limits
    module: str = WORKER

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
        end = outcome.said("end")
        results: dict[str, Any] = {name: end.get(name) for name in _RESULTS}
        kind, error = self._ending(outcome)
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
            error=error,
            **results,
            **outcome.circumstances,
        )

    def _ending(self, outcome: Outcome) -> tuple[Kind, str | None]:
        """Return what became of it, and why if it is not done."""
        if outcome.said("end"):
            return "done", None
        error = outcome.said("error")
        text = error.get("text") or outcome.how_it_ended(self.limits)
        limited: dict[str, Kind] = {"time": "out_of_time", "memory": "out_of_memory"}
        return limited.get(outcome.ending) or error.get("kind", "crash"), text


def latest(records: Iterable[SimulationRecord]) -> list[SimulationRecord]:
    """Return the last record of each simulation, which is the one that counts."""
    return list({record.key: record for record in records}.values())


def to_plain(value: Any) -> Any:
    """Return a record as plain values that read back as the same record.

    A fraction becomes an integer, a decimal number, or text such as ``4:3`` where neither is exact.
    """
    if isinstance(value, BaseModel):
        return {name: to_plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: to_plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner) for inner in value]
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
