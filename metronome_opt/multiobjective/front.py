"""Fronts: schedules of which none is as good as another in everything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from metronome_opt.documents import make_folder, read_document, write_text
from metronome_opt.errors import InputError, MissingBackendError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.goals import Exact, exact
from metronome_opt.objectives import find_objective
from metronome_opt.records import dump_document
from metronome_opt.result import Stop
from metronome_opt.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd

_PROGRESS_FORMAT = "metronome-front-progress/1"

Offsets = tuple[int, ...]
Values = tuple[Fraction, ...]
Row = tuple[dict[str, int], dict[str, int]]
"""Offsets and stretches by job name."""


@dataclass(frozen=True)
class Candidate:
    """A schedule of some groups of jobs and what it costs.

    Attributes
    ----------
    values
        One per objective, all to be minimised; see `objectives.to_minimise`.
    parts
        What it is made of: offsets and stretches of each group by job name, in the order of the
        groups.
    """

    values: Values
    parts: tuple[Row, ...]


def nondominated(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that no other is at least as good as, the least first value first.

    Of candidates of equal values the first is kept.
    """
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.values):
        if not any(_covers(other.values, candidate.values) for other in reversed(kept)):
            kept.append(candidate)
    return kept


def _covers(values: Values, others: Values) -> bool:
    return all(mine <= other for mine, other in zip(values, others, strict=True))


def minkowski(names: Sequence[str], fronts: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Return the front of the whole from those of groups that are decided apart.

    Objectives add up over groups, but for a cushion, which is the least of all groups. A value of
    the whole never falls when one of a group rises, so non-dominated parts are enough.
    """
    added: list[Callable[[Fraction, Fraction], Fraction]] = [
        (lambda a, b: a + b) if find_objective(name).adds_up else max for name in names
    ]

    def both(ones: Sequence[Candidate], others: Sequence[Candidate]) -> list[Candidate]:
        return nondominated(
            Candidate(
                tuple(op(a, b) for op, a, b in zip(added, one.values, other.values, strict=True)),
                (*one.parts, *other.parts),
            )
            for one in ones
            for other in others
        )

    return reduce(both, fronts[1:], list(fronts[0])) if fronts else []


@dataclass(frozen=True, repr=False)
class Front:
    """Schedules of an instance of which none is as good as another in all of some objectives.

    Attributes
    ----------
    objectives
        Their names; the points ascend in the first (a cushion descends).
    points
        Schedules with the values of all objectives, as the judge computed them.
    complete
        Whether it is proved that nothing is missing.
    stop
        Why the search ended.
    """

    instance: Instance
    objectives: tuple[str, ...]
    points: tuple[Schedule, ...]
    complete: bool
    stop: Stop
    runtime_s: float
    notes: tuple[str, ...] = ()

    def values(self, schedule: Schedule) -> tuple[Fraction | None, ...]:
        """Return the objectives of one point."""
        return tuple(schedule.objectives[name] for name in self.objectives)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point: its number from 1 on and its objectives as floats."""
        import pandas as pd

        rows = [
            {
                name: None if value is None else float(value)
                for name, value in zip(self.objectives, self.values(point), strict=True)
            }
            for point in self.points
        ]
        frame = pd.DataFrame(rows, columns=list(self.objectives))
        frame.index = pd.RangeIndex(1, len(rows) + 1, name="point")
        return frame

    def __repr__(self) -> str:
        found = f"{len(self.points)} points of {', '.join(self.objectives)}"
        known = "complete" if self.complete else "perhaps not all"
        return (
            f"<Front {self.instance.name}, {found}: {known}, {self.runtime_s:.2f} s ({self.stop})>"
        )

    def hypervolume(
        self, reference: Mapping[str, Exact], points: Sequence[Schedule] | None = None
    ) -> float:
        """Return the share of the box from 0 to a reference point that the front dominates.

        Parameters
        ----------
        reference
            A value of each objective that is as bad as matters; of a cushion, the slots that would
            be as good as matters.
        points
            Other schedules that have the objectives, instead of those of the front.

        Raises
        ------
        InputError
            If an objective has no reference, or one that is not positive.
        MissingBackendError
            If moocore is not installed.

        Notes
        -----
        Computed by moocore: Fonseca, Paquete and López-Ibáñez, "An improved dimension-sweep
        algorithm for the hypervolume indicator", CEC 2006.
        """
        try:
            import moocore
        except ImportError:
            raise MissingBackendError(
                "the hypervolume needs moocore, which is not installed: pip install moocore"
            ) from None
        import numpy as np

        scale = {}
        for name in self.objectives:
            if name not in reference:
                raise InputError(f"reference: {name} is missing; give it a value")
            scale[name] = exact(f"reference.{name}", reference[name])
            if scale[name] <= 0:
                raise InputError(f"reference.{name}: must be positive, got {reference[name]}")
        rows = []
        for point in self.points if points is None else points:
            row = []
            for name, value in zip(self.objectives, self.values(point), strict=True):
                share = Fraction(1) if value is None else min(value / scale[name], Fraction(1))
                row.append(float(1 - share if find_objective(name).maximised else share))
            rows.append(row)
        if not rows:
            return 0.0
        return float(moocore.hypervolume(np.array(rows), ref=np.ones(len(self.objectives))))

    def _repr_html_(self) -> str:
        kind = "complete" if self.complete else "not proved complete"
        head = f"front of {', '.join(self.objectives)}: {len(self.points)} points, {kind}"
        return f"<p>{head}</p>{self.to_frame().to_html(float_format='{:.6g}'.format)}"


# ------------------------------------------------------------------ what is known of parts


@dataclass(frozen=True)
class FrontEvent:
    """A step of `pareto`.

    Attributes
    ----------
    elapsed_s
        Seconds since the call.
    done, parts
        How many of the parts of the instance have their fronts.
    points
        Schedules on the fronts of those parts.
    """

    elapsed_s: float
    done: int
    parts: int
    points: int


@dataclass(frozen=True)
class GroupFront:
    """Offsets, in the order of the jobs, of which none are as good as others in everything."""

    schedules: tuple[Offsets, ...]
    complete: bool


class _Known(BaseModel, strict=True, extra="forbid"):
    """What the file says of a part."""

    jobs: list[str]
    schedules: list[list[int]]
    complete: bool

    def is_of(self, periods: Mapping[str, int]) -> bool:
        """Return whether there are schedules, all of jobs with such periods."""
        return bool(self.schedules) and all(
            len(offsets) == len(self.jobs)
            and all(
                0 <= offset < periods.get(job, 0)
                for job, offset in zip(self.jobs, offsets, strict=True)
            )
            for offsets in self.schedules
        )


class FrontMemory:
    """What is known of the fronts of the parts of one problem, kept in a file.

    The file is written anew after every part, with a digest of all it says. One of another problem
    (another instance, other objectives, another reserve) is not read, nor one that was changed; the
    first part that is kept replaces it. Schedules are judged again by whoever recalls them. That a
    front has no others is remembered only: `notes` say so.

    Parameters
    ----------
    path
        The file; it and its folder are made when the first part is kept.
    instance, objectives, cushion_slots
        The problem, as `pareto` is given it.
    """

    def __init__(
        self, path: str | Path, instance: Instance, objectives: Sequence[str], cushion_slots: int
    ) -> None:
        self._path = Path(path)
        self._problem = _digest([instance.to_dict(), list(objectives), cushion_slots])
        self._periods = {job.name: job.period for job in instance.jobs}
        self._notes: list[str] = []
        self._remembered: set[str] = set()
        self._parts = self._read() if self._path.exists() else {}

    @property
    def notes(self) -> list[str]:
        """What the user should know of the file, a line each."""
        count = len(self._remembered)
        if not count:
            return self._notes
        parts = f"{count} parts have" if count > 1 else "1 part has"
        note = (
            f"{self._path}: that {parts} no further points is remembered from an earlier run, not "
            "proved again; remove the file to prove it anew"
        )
        return [*self._notes, note]

    def recall(self, part: str, jobs: Sequence[str]) -> GroupFront | None:
        """Return what is known of a part, None if nothing is."""
        known = self._parts.get(part)
        if known is None or known.jobs != list(jobs):
            return None
        if known.complete:
            self._remembered.add(part)
        return GroupFront(tuple(map(tuple, known.schedules)), known.complete)

    def keep(self, part: str, jobs: Sequence[str], front: GroupFront) -> None:
        """Remember what was found, and write the file."""
        schedules = [list(map(int, offsets)) for offsets in front.schedules]
        self._parts[part] = _Known(jobs=list(jobs), schedules=schedules, complete=front.complete)
        parts = {name: known.model_dump() for name, known in self._parts.items()}
        make_folder(self._path.parent)
        document = {
            "format": _PROGRESS_FORMAT,
            "problem": self._problem,
            "digest": _digest([self._problem, parts]),
            "parts": parts,
        }
        write_text(self._path, dump_document(document))

    def _read(self) -> dict[str, _Known]:
        try:
            document = read_document(self._path)
        except InputError as error:
            self._notes.append(f"{error}; begun anew")
            return {}
        if document.get("problem") != self._problem:
            return {}
        said = document.get("parts")
        try:
            parts = TypeAdapter(dict[str, _Known]).validate_python(said)
        except ValidationError:
            parts = None
        if (
            parts is None
            or document.get("format") != _PROGRESS_FORMAT
            or document.get("digest") != _digest([self._problem, said])
            or not all(part.is_of(self._periods) for part in parts.values())
        ):
            self._notes.append(f"{self._path}: is not what an earlier run wrote; begun anew")
            return {}
        return parts


def _digest(said: Any) -> str:
    """Return what tells a problem, or what is known of one, from others."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
