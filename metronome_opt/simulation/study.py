"""Study documents: scenarios, conditions and seeds of a comparison of policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Positive,
    R,
    Record,
    explain,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import FullCluster
from metronome_opt.scenario.job_traffic import Sources
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, Folder, in_folder
from metronome_opt.scenario.workload import data_folder
from metronome_opt.simulation.generators import Draw
from metronome_opt.simulation.generators.context import GeneratorContext
from metronome_opt.simulation.generators.jobs import Given
from metronome_opt.simulation.generators.traces import Trace
from metronome_opt.simulation.policies import BUILTIN_POLICIES, check_policy

STUDY_FORMAT = "metronome-study/1"
STUDIES = Path("benchmarks") / "studies"
MAX_CELLS = 10_000
_CLUSTER = "cluster"  # the parameter of a grid


def _known_policy(text: str) -> str:
    try:
        check_policy(text)
    except InputError as error:
        raise PydanticCustomError("policy", "{error}", {"error": str(error)}) from None
    return text


PolicyName = Annotated[str, AfterValidator(_known_policy)]
Setting = bool | int | float | str


def _setting(value: Any) -> Any:
    """Accept values that fit in a table and a command line."""
    if isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value)):
        return value
    raise PydanticCustomError("setting", "must be a number, text, true or false")


Settings = Annotated[tuple[Annotated[Any, BeforeValidator(_setting)], ...], Field(strict=False)]


@dataclass(frozen=True)
class Cell:
    """One combination of the values of a grid.

    Attributes
    ----------
    settings
        The value of each parameter, in the order of the grid; can be hashed.
    """

    settings: Mapping[str, Setting]

    @property
    def label(self) -> str:
        """The settings as text, such as ``load=0.8, mix=any``."""
        words = (
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.settings.items()
        )
        return ", ".join(words) or "all"


class Study(Record):
    """Scenarios of one kind: all cells of a grid, drawn with several seeds.

    Parameters
    ----------
    name, about
        Its name, and its question in a sentence or two.
    cluster, slot_ms, hyperperiod_ms, workloads, measured
        As in a `Scenario`.
    clusters
        Clusters by name; a parameter ``cluster`` of the grid names one for each cell, instead of
        `cluster`.
    draw
        The generator of the jobs, with the parameters that are equal in all cells.
    grid
        Values of parameters of the generator, or of fields of `Conditions`, that differ between
        cells. The cells are all combinations, the last parameter changing fastest.
    conditions
        Conditions of all cells, except parameters of the grid.
    policies
        Policies to compare; all of this package by default.
    seeds
        Number of seeds, counted from 0.
    """

    format: Literal["metronome-study/1"] = "metronome-study/1"
    name: Name
    about: str = ""
    cluster: FullCluster | None = None
    clusters: FrozenMap[Name, FullCluster] = FrozenDict()
    slot_ms: Positive
    hyperperiod_ms: Positive | None = None
    workloads: Folder | None = None
    measured: Folder | None = None
    draw: Draw
    grid: FrozenMap[Name, Settings] = FrozenDict()
    conditions: Conditions = Conditions()
    policies: Annotated[tuple[PolicyName, ...], Field(strict=False)] = BUILTIN_POLICIES
    seeds: Positive = 10

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hyperperiod_ms is not None and self.hyperperiod_ms % self.slot_ms:
            refuse(
                "hyperperiod_ms",
                f"{self.hyperperiod_ms}: must be a multiple of slot_ms, {self.slot_ms}",
            )
        if not self.policies:
            refuse("policies", "empty; name at least one, or leave it out for all")
        _refuse_repetition("policies", self.policies)
        if prod(map(len, self.grid.values())) > MAX_CELLS:
            refuse("grid", f"has more than {MAX_CELLS} cells; make several studies of it")
        for name, values in self.grid.items():
            if not values:
                refuse(f"grid.{name}", "empty; give it a value, or leave it out")
            _refuse_repetition(f"grid.{name}", values)
            for index, value in enumerate(values):
                self._check_value(name, value, f"grid.{name}[{index}]")
        if self.cluster is None and _CLUSTER not in self.grid:
            refuse("cluster", "missing; or name some of clusters in grid.cluster")
        return self

    def _check_value(self, name: str, value: Setting, place: str) -> None:
        """Refuse an unknown parameter of the grid, or an invalid value."""
        if name == _CLUSTER:
            if value not in self.clusters:
                known = ", ".join(self.clusters) or "none"
                refuse(place, f"{quote(value)} is none of clusters: {known}")
            return
        generator = self.draw.generator
        owner: Record = generator if name in type(generator).model_fields else self.conditions
        if name not in type(owner).model_fields:
            known = ", ".join([*type(generator).model_fields, *Conditions.model_fields, _CLUSTER])
            refuse(f"grid.{name}", f"unknown parameter; known are {known}")
        try:
            _with(owner, {name: value})
        except InputError as error:
            refuse(place, str(error).removeprefix(f"{name}: "))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Build a study from a document; its folders of models are relative to `folder`."""
        return parse_record(cls, in_folder(data, folder), STUDY_FORMAT)

    @classmethod
    def of_scenario(cls, scenario: Scenario) -> Self:
        """Return the study of one scenario, where the seed changes disturbances only."""
        return cls(
            name=scenario.name,
            cluster=scenario.cluster,
            slot_ms=scenario.slot_ms,
            hyperperiod_ms=scenario.hyperperiod_ms,
            workloads=scenario.workloads,
            measured=scenario.measured,
            draw=Draw(given=Given(work=scenario.jobs)),
        )

    def of_trace(self, file: str) -> Self:
        """Return the study with the arrivals of a trace, from a file."""
        generator = self.draw.generator
        trace = generator if isinstance(generator, Trace) else Trace()
        return self.model_copy(update={"draw": Draw(trace=_with(trace, {"file": file}))})

    def with_iterations(self, iterations: int) -> Self:
        """Return the study whose given jobs run `iterations`; itself if one states a number."""
        generator = self.draw.generator
        if not isinstance(generator, Given) or any(job.iterations for job in generator.work):
            return self
        work = tuple(job.model_copy(update={"iterations": iterations}) for job in generator.work)
        return self.model_copy(update={"draw": Draw(given=Given(work=work))})

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All combinations of the values of the grid; one without settings if there is no grid."""
        return tuple(
            Cell(FrozenDict(zip(self.grid, values, strict=True)))
            for values in product(*self.grid.values())
        )

    @property
    def is_one_scenario(self) -> bool:
        """Return True if the jobs are given, so that seeds change disturbances only."""
        return isinstance(self.draw.generator, Given) and not self.grid

    def scenario(self, cell: Cell, seed: int) -> Scenario:
        """Return the scenario of a cell and a seed, equal for all policies and conditions.

        Raises
        ------
        InputError
            If no jobs can be drawn for these parameters.
        """
        cluster = self.cluster_of(cell)
        context, generator = self._context(cluster), self.draw.generator
        is_hashed = cluster.spines > 1 and cluster.routing != "spray"
        try:
            jobs = _with(generator, _own(generator, cell)).jobs(context, seed)
        except InputError as error:
            raise InputError(f"{self.name}: draw.{self.draw.name}.{error}") from None
        try:
            return Scenario.model_validate(
                {
                    "name": f"{self.name}-{seed}",
                    "slot_ms": self.slot_ms,
                    "hyperperiod_ms": self.hyperperiod_ms,
                    "workloads": self.workloads,
                    "measured": self.measured,
                    "cluster": cluster.model_copy(
                        update={"hash_seed": cluster.hash_seed + seed * is_hashed}
                    ),
                    "jobs": jobs,
                }
            )
        except ValidationError as error:
            raise InputError(f"{self.name}: {explain(error)}") from None

    def conditions_of(self, cell: Cell) -> Conditions:
        """Return the conditions of a cell."""
        return _with(self.conditions, _own(self.conditions, cell))

    def cluster_of(self, cell: Cell) -> Cluster:
        """Return the cluster of a cell."""
        wanted = cell.settings.get(_CLUSTER)
        return self.clusters[str(wanted)] if self.cluster is None or wanted else self.cluster

    @cached_property
    def _contexts(self) -> dict[Cluster, GeneratorContext]:
        return {}

    def _context(self, cluster: Cluster) -> GeneratorContext:
        """Return what jobs are drawn for; it takes a while to make."""
        if cluster not in self._contexts:
            hyperperiod = self.hyperperiod_ms and self.hyperperiod_ms // self.slot_ms
            sources = Sources(self.workloads)
            self._contexts[cluster] = GeneratorContext(cluster, self.slot_ms, hyperperiod, sources)
        return self._contexts[cluster]


def _refuse_repetition(place: str, values: Sequence[Setting]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            refuse(f"{place}[{index}]", f"{quote(value)} is named twice")


def _own(record: Record, cell: Cell) -> dict[str, Setting]:
    """Return the settings of a cell that belong to a record."""
    fields = type(record).model_fields
    return {name: value for name, value in cell.settings.items() if name in fields}


def _with(record: R, settings: Mapping[str, Setting]) -> R:
    """Return a record with some fields replaced, validated like those of a file."""
    try:
        return type(record).model_validate({**dict(record), **settings})
    except ValidationError as error:
        raise InputError(explain(error)) from None


def read_study(path: str | Path) -> Study:
    """Read a study, or a scenario as the study of itself; errors name file, location and value."""
    folder = Path(path).parent

    def make(document: dict[str, Any]) -> Study:
        if document.get("format") == SCENARIO_FORMAT:
            return Study.of_scenario(Scenario.from_dict(document, folder=folder))
        return Study.from_dict(document, folder=folder)

    return read_document_as(path, make)


def shipped_folder(name: str) -> Path:
    """Return a folder of ``benchmarks`` that is shipped with the package, or in its checkout."""
    installed = data_folder() / name
    return installed if installed.is_dir() else data_folder().parent / "benchmarks" / name


def find_study(wanted: str | Path) -> Study:
    """Return a study by file, or by the name of a shipped study or scenario.

    An `InputError` lists the names.
    """
    if Path(wanted).is_file():
        return read_study(wanted)
    folders = (data_folder() / "scenarios", shipped_folder("studies"))
    known = {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}
    if str(wanted) in known:
        return read_study(known[str(wanted)])
    raise InputError(
        f"study: {quote(str(wanted))} is not known: it is not a file; choose from "
        f"{', '.join(known)}"
    )
