"""The fronts of parts in a file, so that an interrupted search for a front can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metronome_opt.documents import make_folder, read_document, write_text
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.partfronts import GroupFront
from metronome_opt.records import dump_document

PROGRESS_FORMAT = "metronome-front-progress/1"


class FrontMemory:
    """What is known of the fronts of the parts of one problem, kept in a file.

    The file is written anew after every part. One of another problem (another instance, other
    objectives, another reserve) is not read; the first part that is kept replaces it.

    Parameters
    ----------
    path
        The file; it and its folder are made when the first part is kept.
    instance, objectives, cushion_slots
        The problem, as `pareto` is given it.

    Attributes
    ----------
    notes
        What the user should know of the file, a line each.
    """

    def __init__(
        self, path: str | Path, instance: Instance, objectives: Sequence[str], cushion_slots: int
    ) -> None:
        self._path = Path(path)
        self._problem = _digest(instance, objectives, cushion_slots)
        self._periods = {job.name: job.period for job in instance.jobs}
        self.notes: list[str] = []
        self._parts = self._read() if self._path.exists() else {}

    def recall(self, part: str, jobs: Sequence[str]) -> GroupFront | None:
        """Return what is known of a part, None if nothing is."""
        known = self._parts.get(part)
        if known is None or known["jobs"] != list(jobs):
            return None
        return GroupFront(
            tuple(tuple(offsets) for offsets in known["schedules"]), known["complete"]
        )

    def keep(self, part: str, jobs: Sequence[str], front: GroupFront) -> None:
        """Remember what was found, and write the file."""
        self._parts[part] = {
            "jobs": list(jobs),
            "schedules": [list(map(int, offsets)) for offsets in front.schedules],
            "complete": front.complete,
        }
        make_folder(self._path.parent)
        document = {"format": PROGRESS_FORMAT, "problem": self._problem, "parts": self._parts}
        write_text(self._path, dump_document(document))

    def _read(self) -> dict[str, Any]:
        try:
            document = read_document(self._path)
        except InputError as error:
            self.notes.append(f"{error}; begun anew")
            return {}
        if document.get("problem") != self._problem:
            return {}
        parts = document.get("parts")
        if (
            document.get("format") != PROGRESS_FORMAT
            or not isinstance(parts, dict)
            or not all(self._is_front(part) for part in parts.values())
        ):
            self.notes.append(f"{self._path}: is not what an earlier run wrote; begun anew")
            return {}
        return parts

    def _is_front(self, part: Any) -> bool:
        """Return whether a part of the document is a front of jobs of the instance."""
        if not isinstance(part, dict) or part.keys() != {"jobs", "schedules", "complete"}:
            return False
        jobs, schedules = part["jobs"], part["schedules"]
        return (
            isinstance(part["complete"], bool)
            and isinstance(jobs, list)
            and all(isinstance(job, str) and job in self._periods for job in jobs)
            and isinstance(schedules, list)
            and bool(schedules)
            and all(self._is_schedule(jobs, offsets) for offsets in schedules)
        )

    def _is_schedule(self, jobs: Sequence[str], offsets: Any) -> bool:
        return (
            isinstance(offsets, list)
            and len(offsets) == len(jobs)
            and all(
                type(offset) is int and 0 <= offset < self._periods[job]
                for job, offset in zip(jobs, offsets, strict=True)
            )
        )


def _digest(instance: Instance, objectives: Sequence[str], cushion_slots: int) -> str:
    """Return what tells a problem from others."""
    problem = [instance.to_dict(), list(objectives), cushion_slots]
    return hashlib.sha256(json.dumps(problem, sort_keys=True).encode()).hexdigest()
