"""Cases of simulations: one policy on one scenario of a study.

The identity of a simulation does not include its limits: a crashed simulation is repeated, a
simulation that met its limits is repeated under wider ones, and the last record counts.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from metronome_opt.bench.campaign import Case, CaseRecord, Seconds
from metronome_opt.bench.process import Limits, Send, Task, TaskOutcome
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import FrozenDict, FrozenMap, NonNegative, explain
from metronome_opt.scenario import Scenario
from metronome_opt.simulation.study import Cell, Setting, Study

if TYPE_CHECKING:
    import pandas as pd

FILE = "simulations.jsonl"

Value = int | float | str | bool | None
Columns = FrozenMap[str, Annotated[tuple[Value, ...], Field(strict=False)]]
Kind = Literal["done", "out_of_time", "out_of_memory", "crash", "refused"]

_WARM_UP_SCENARIO = Path(__file__).parent / "templates" / "warm.yaml"
_RESULTS = ("jobs", "links", "makespan_s", "events", "estimate", "groups")
_START_S = 0.001
_SELECTION = {"about", "grid", "conditions", "policies", "seeds"}


@pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class SimulationRecord(CaseRecord):
    """One simulation and its outcome; see `CaseRecord` for the other attributes.

    Attributes
    ----------
    kind
        ``done``; ``out_of_time``, ``out_of_memory``: the limits ended it; ``crash``: an exception
        or a signal ended it; ``refused``: the input cannot be simulated, see `error`.
    study, study_sha256
        Name of the study, and checksum of the parts that determine scenarios.
    cell, policy, conditions
        The case; a cell is its settings by name, in the order of the study.
    jobs, links, makespan_s, events, estimate, groups
        As of a `SimulationResult`, tables as lists by the names of columns, with None for unknown
        values; None if it was not done.
    """

    IDENTITY: ClassVar[tuple[str, ...]] = ("study_sha256", "cell", "seed", "policy", "conditions")

    format: Literal["metronome-simulation/1"] = "metronome-simulation/1"
    kind: Kind
    study: str
    study_sha256: str
    cell: FrozenMap[str, Setting]
    policy: str
    conditions: Conditions
    jobs: Columns | None
    links: Columns | None
    makespan_s: Seconds | None
    events: NonNegative | None
    estimate: float | None = None
    groups: FrozenMap[str, int] | None = None

    @property
    def outcome(self) -> str:
        """The outcome in a few words."""
        if not self.succeeded:
            return f"{self.kind.replace('_', ' ')} ({self.error})"
        return (
            f"{self.makespan_s:,.0f} s simulated in {self.runtime_s:.2f} s, {self.events:,} events"
        )

    def is_worth_repeating(self, limits: Limits) -> bool:
        """Return whether it crashed, or was killed for limits that are wider now."""
        memory, limited = limits.memory_mb or math.inf, self.memory_limit_mb or math.inf
        return (
            self.kind == "crash"
            or (self.kind == "out_of_time" and limits.time_s > self.time_limit_s)
            or (self.kind == "out_of_memory" and memory > limited)
        )


def _run_simulation(send: Send, *, scenario: Scenario, policy: str, **options: Any) -> None:
    """Simulate a scenario and send its tables, or the reason for which it is refused.

    The clock starts when everything that happens once per process is over, after `_warm_up`.
    """
    from metronome_opt.simulation import simulate

    try:
        _warm_up(policy, options["conditions"])
        send("ready")
        begin = time.perf_counter()
        run = simulate(scenario, policy, **options)
    except InputError as error:
        send("error", kind="refused", text=str(error))
        return
    send(
        "end",
        runtime_s=round(time.perf_counter() - begin, 6),
        jobs=to_columns(run.jobs),
        links=to_columns(run.links),
        makespan_s=float(run.makespan_s),
        events=int(run.events),
        estimate=run.estimate,
        groups=run.groups and run.groups._asdict(),
    )


def _warm_up(policy: str = "metronome", conditions: Conditions | None = None) -> None:
    """Simulate two jobs, so that imports are done and kernels are loaded."""
    from metronome_opt.scenario import read_scenario
    from metronome_opt.simulation import simulate

    simulate(read_scenario(_WARM_UP_SCENARIO), policy, conditions=conditions)


def to_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table as lists by column, with None for unknown values."""
    return {
        str(name): [None if value != value else value for value in column.tolist()]
        for name, column in frame.items()
    }


def _results(outcome: TaskOutcome) -> dict[str, Any]:
    end = outcome.first("end")
    failure = "out_of_time" if outcome.ending == "time" else outcome.error_kind
    return {"kind": "done" if end else failure, **{name: end.get(name) for name in _RESULTS}}


# ------------------------------------------------------------------ cases


def plan(
    study: Study,
    cells: Iterable[Cell],
    policies: Iterable[str],
    *,
    seeds: int | None,
    limits: Limits,
    overrides: Mapping[str, Any] = FrozenDict(),
    estimated: bool = False,
) -> list[Case[SimulationRecord]]:
    """Return the simulations of a campaign, without repetition.

    Cases that are compared come together, seed by seed, so that an interrupted campaign has whole
    seeds.

    Parameters
    ----------
    study, cells, policies
        The study, and its cells and policies that are simulated.
    seeds
        Number of seeds; None for that of the study, or for one if it is a scenario without
        disturbances, in which all seeds are equal.
    limits
        Bounds on the time and memory of a simulation.
    overrides
        Conditions that replace those of the study.
    estimated
        As of `simulate`.

    Raises
    ------
    InputError
        If a condition is not known, out of range, or varied by the study.
    """
    conditions = [(cell, _conditions_of(study, cell, overrides)) for cell in cells]
    chance = any(
        under.random or (under.sharing or study.cluster_of(cell).network) == "tcp"
        for cell, under in conditions
    )
    default = study.seeds if chance or not study.is_one_scenario else 1
    known = {"study": study.name, "study_sha256": checksum(study)}

    def case(cell: Cell, seed: int, policy: str, under: Conditions) -> Case[SimulationRecord]:
        options: dict[str, Any] = {"policy": policy, "seed": seed, "conditions": under}

        def task() -> Task:
            scenario = _with_whole_paths(study.scenario(cell, seed))
            return partial(_run_simulation, scenario=scenario, estimated=estimated, **options)

        fields = {**known, "cell": cell.settings, **options}
        label = [cell.label] if cell.settings else []
        title = " ".join([study.name, *label, policy, f"seed {seed}"])
        return Case(title, SimulationRecord, fields, limits, task, _results, _warm_up)

    return [
        case(cell, seed, policy, under)
        for seed in range(seeds or default)
        for cell, under in conditions
        for policy in dict.fromkeys(policies)
    ]


def _with_whole_paths(scenario: Scenario) -> Scenario:
    """Return a scenario whose files are found from any working directory."""
    paths = {name: getattr(scenario, name) for name in ("workloads", "measured")}
    whole = {name: str(Path(path).resolve()) for name, path in paths.items() if path is not None}
    return scenario.model_copy(update=whole)


_TRAFFIC_MODEL = 2  # an iteration is computing plus collectives, as fast as the placement allows


def checksum(study: Study) -> str:
    """Return the SHA-256 of the parts of a study that determine scenarios.

    The grid and other parts that select cases do not count, so that a study can be extended and its
    campaign goes on. Workloads of the study and a trace count by their content. The number of the
    traffic model counts, since simulations of another one are not comparable.
    """
    document: dict[str, Any] = study.model_dump(mode="json", exclude=_SELECTION)
    document["traffic_model"] = _TRAFFIC_MODEL
    folder = document.get("workloads")
    if folder is not None:
        files = sorted(path for path in Path(folder).glob("*") if path.is_file())
        document["workloads"] = {path.name: _sha256(path) for path in files}
    trace = document["draw"].get("trace")
    if trace and Path(trace["file"] or "").is_file():  # reading refuses a missing file
        trace["file"] = _sha256(Path(trace["file"]))
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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


def check_records(
    records: Iterable[SimulationRecord], study: Study, overrides: Mapping[str, Any]
) -> None:
    """Refuse records of a folder that are of another study, or of other conditions.

    Parameters
    ----------
    records
        Records of the folder of the campaign.
    study, overrides
        The study, and the conditions that replace those of the study.

    Raises
    ------
    InputError
        With what differs, and the remedy.
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
                "give the same --conditions, or name another --output"
            )


def check_scenarios(study: Study, cells: Iterable[Cell]) -> None:
    """Refuse scenarios that no policy can simulate: start the first one of each cell."""
    from metronome_opt.simulation import simulate

    start = Conditions(horizon_s=_START_S)
    for cell in cells:
        simulate(study.scenario(cell, 0), "ideal", conditions=start)


def choose_cells(study: Study, wanted: Mapping[str, str]) -> tuple[Cell, ...]:
    """Return the cells of a study that have all of some settings, values as typed, by name.

    A parameter or a value that is not in the grid of the study is an `InputError`.
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
    """Return a typed value as a Boolean, None, a number, or else text."""
    named: dict[str, bool | None] = {"true": True, "false": False, "none": None}
    if text.lower() in named:
        return named[text.lower()]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


# ------------------------------------------------------------------ records


def keep_latest(records: Iterable[SimulationRecord]) -> list[SimulationRecord]:
    """Return the last record of each simulation, which counts."""
    return list({record.key: record for record in records}.values())


def sort_records(records: Iterable[SimulationRecord], study: Study) -> list[SimulationRecord]:
    """Return the last record of each simulation, sorted by cell, policy and seed.

    Cells and policies are in the order of the study; others follow alphabetically.
    """
    cells = {cell.settings: rank for rank, cell in enumerate(study.cells)}
    policies = {policy: rank for rank, policy in enumerate(study.policies)}

    def rank(record: SimulationRecord) -> tuple[Any, ...]:
        cell = cells.get(record.cell, len(cells)), Cell(record.cell).label
        policy = policies.get(record.policy, len(policies)), record.policy
        return *cell, *policy, record.seed

    return sorted(keep_latest(records), key=rank)
