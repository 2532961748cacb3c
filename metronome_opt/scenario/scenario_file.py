"""Scenarios as files describe them: a cluster and jobs by model or by traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from metronome_opt.errors import InputError, check_path, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    Positive,
    Record,
    check_unique,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.problem.instance import INSTANCE_FORMAT, Instance
from metronome_opt.scenario.cluster import Paths
from metronome_opt.scenario.cluster_input import FullCluster
from metronome_opt.scenario.job_spec import COMPUTED, JobSpec
from metronome_opt.scenario.measured import MEASURED
from metronome_opt.scenario.placement_limits import NO_LIMITS, name_tiers, tier_of_racks
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.scenario.workload import find_files, published_files

SCENARIO_FORMAT = "metronome-scenario/1"

Folder = Annotated[str, Field(min_length=1)]

_TIMES = ("ready_ms", "max_stretch_ms", "fixed_offset_ms", "current_offset_ms")


class Scenario(Record):
    """A cluster and the jobs on it.

    Parameters
    ----------
    name
        Becomes the name of the instance.
    hyperperiod_ms
        Periods are lengthened to divisors of it, so that they repeat together; None for periods
        as they come.
    workloads
        Folder of workloads of one's own, relative to the scenario file.
    measured
        Folder of one's own records of training steps on any GPU, relative to the scenario file.
    patterns
        Traffic by name, which jobs share.
    """

    format: Literal["metronome-scenario/1"] = "metronome-scenario/1"
    name: Name
    slot_ms: Positive
    hyperperiod_ms: Positive | None = None
    workloads: Folder | None = None
    measured: Folder | None = None
    cluster: FullCluster
    patterns: FrozenMap[Name, Traffic] = Field(default_factory=FrozenDict)
    jobs: Annotated[tuple[JobSpec, ...], Field(strict=False)]

    @model_validator(mode="before")
    @classmethod
    def _share_patterns(cls, data: Any) -> Any:
        """Give the jobs that name a pattern its traffic; what is wrong with it is said of it."""
        jobs = data.get("jobs") if isinstance(data, Mapping) else None
        if not isinstance(jobs, (list, tuple)):
            return data
        patterns = data.get("patterns")
        known = patterns if isinstance(patterns, Mapping) else {}
        read = {name: _pattern(pattern) for name, pattern in known.items()}
        taken = (COMPUTED, *MEASURED, *published_files())
        for other in taken:
            if other in known:
                refuse(f"patterns.{other}", f"{quote(other)} is taken; rename the pattern")
        shared = []
        for index, job in enumerate(jobs):
            name = job.get("traffic") if isinstance(job, Mapping) else None
            if not isinstance(name, str) or name in taken:
                shared.append(job)
            elif name in known:
                shared.append({**job, "traffic": read[name]})
            else:
                there = f"there are {', '.join(map(str, known))}" if known else "write patterns"
                hint = f"{there}; published are {', '.join(published_files())}"
                refuse(f"jobs[{index}].traffic", f"there is no pattern {quote(name)}; {hint}")
        return {**data, "jobs": shared}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.jobs:
            refuse("jobs", "empty; there is nothing to schedule")
        if self.hyperperiod_ms is not None and self.hyperperiod_ms % self.slot_ms:
            refuse("hyperperiod_ms", self._off_grid(self.hyperperiod_ms))
        check_unique("jobs", [job.name for job in self.jobs])
        for index, job in enumerate(self.jobs):
            self._check_job(job, f"jobs[{index}]")
        pods: dict[tuple[str | None, str], str] = {}
        for index, job in enumerate(self.jobs):
            for number, pod in enumerate(job.pods or ()):
                where = f"jobs[{index}].pods[{number}]"
                other = pods.setdefault((job.namespace, pod), where)
                if other != where:
                    refuse(where, f"{quote(pod)} is also {other}; a pod is one task")
        return self

    def _check_job(self, job: JobSpec, where: str) -> None:
        """Refuse times beside the grid, unknown nodes, and paths that nothing chooses."""
        for field in _TIMES:
            value = getattr(job, field)
            if value is not None and value % self.slot_ms:
                refuse(f"{where}.{field}", self._off_grid(value))
        known = self.cluster.nodes_by_name
        for node in job.nodes or ():
            if node not in known:
                first, *_, last = (*known, *known)
                fault = f"there is no node {quote(node)}; there are {first} to {last}"
                refuse(f"{where}.nodes", fault)
        if job.nodes and (fault_ := NO_LIMITS.violation(self.cluster, job.nodes)):
            refuse(f"{where}.nodes", f"{fault_}, and has_core is false; choose others")
        if job.within and job.within not in tier_of_racks(self.cluster).values():
            fault = f"{job.within}: is no tier of the cluster; state one of"
            refuse(f"{where}.within", f"{fault} {name_tiers(self.cluster)}")
        if unknown := {*(job.allowed_nodes or ())} - known.keys() - self.cluster.uplinks.keys():
            fault = f"there is no node or rack {quote(min(unknown))}; name others"
            refuse(f"{where}.allowed_nodes", fault)
        if job.paths is not None and (self.cluster.spines == 1 or self.cluster.routing != "chosen"):
            refuse(f"{where}.paths", "are for clusters of several spines and routing: chosen")

    def at(
        self, places: Mapping[str, Sequence[str]], paths: Mapping[str, Paths] | None = None
    ) -> Self:
        """Return the scenario with its jobs on the nodes of `places`, without the other jobs.

        A job without paths in `paths` keeps its own.
        """
        jobs = tuple(
            job.model_copy(
                update={
                    "nodes": tuple(places[job.name]),
                    "paths": (paths or {}).get(job.name, job.paths),
                }
            )
            for job in self.jobs
            if job.name in places
        )
        return self.model_copy(update={"jobs": jobs})

    @property
    def is_placed(self) -> bool:
        """Whether all jobs say where they run, and by which paths where these can be chosen."""
        is_free = self.cluster.spines > 1 and self.cluster.routing == "chosen"
        return all((job.paths if is_free else job.nodes) is not None for job in self.jobs)

    @property
    def hyperperiod_slots(self) -> int | None:
        """The hyperperiod in slots, None where none is given."""
        return None if self.hyperperiod_ms is None else self.hyperperiod_ms // self.slot_ms

    def _off_grid(self, value: int) -> str:
        return f"{quote(value)}: must be a multiple of slot_ms, {self.slot_ms}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Build a scenario from a document; its folders of models are relative to `folder`.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        return parse_record(cls, in_folder(data, folder), SCENARIO_FORMAT)


def in_folder(data: Mapping[str, Any], folder: str | Path) -> Mapping[str, Any]:
    """Return a document whose folders of models are relative to the working directory."""
    given = {field: data.get(field) for field in ("workloads", "measured")}
    folders = {
        field: str(Path(folder) / name)
        for field, name in given.items()
        if isinstance(name, str) and name
    }
    return {**data, **folders}


def _pattern(value: Any) -> Traffic:
    """Read a pattern; instead of a wrong one, which its scenario refuses, any other one."""
    try:
        return Traffic.model_validate(value)
    except ValidationError:
        burst = {"start_ms": 0, "length_ms": 1, "rate_mbps": 1}
        return Traffic.model_validate({"period_ms": 1, "phases": [burst]})


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a YAML or JSON file, or a shipped one by its name.

    Raises
    ------
    InputError
        One line that names the file, the location in it and the value.
    """
    path = locate(path)
    return read_document_as(path, lambda document: Scenario.from_dict(document, folder=path.parent))


def read_source(path: str | Path) -> Scenario | Instance:
    """Read an instance or a scenario, whichever the file says it is."""
    path = locate(path)

    def parse(document: Mapping[str, Any]) -> Scenario | Instance:
        kind = document.get("format")
        if kind == SCENARIO_FORMAT:
            return Scenario.from_dict(document, folder=path.parent)
        if "format" in document and kind != INSTANCE_FORMAT:
            raise InputError(
                f"format: must be {quote(INSTANCE_FORMAT)} or {quote(SCENARIO_FORMAT)}, got "
                f"{quote(kind)}"
            )
        return Instance.from_dict(document)

    return read_document_as(path, parse)


def locate(path: str | Path) -> Path:
    """Return where a scenario is: a file, or one that comes with the package, by its name."""
    shipped, path = find_files("scenarios"), check_path(path)
    try:
        if path.exists():
            return path
    except OSError as error:
        raise InputError(f"{quote(str(path))}: cannot be read ({error.strerror})") from None
    if str(path) not in shipped and path.name == str(path) and not path.suffix:
        known = ", ".join(sorted(shipped))
        raise InputError(f"{path}: cannot be read (no such file); scenarios by name are {known}")
    return shipped.get(str(path), path)
