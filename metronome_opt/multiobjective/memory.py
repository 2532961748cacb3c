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
        return [
            *self._notes,
            (
                f"{self._path}: that {parts} no further points is remembered from an earlier run, "
                "not proved again; remove the file to prove it anew"
            ),
        ]

    def recall(self, part: str, jobs: Sequence[str]) -> GroupFront | None:
        """Return what is known of a part, None if nothing is."""
        known = self._parts.get(part)
        if known is None or known["jobs"] != list(jobs):
            return None
        if known["complete"]:
            self._remembered.add(part)
        return GroupFront(tuple(map(tuple, known["schedules"])), known["complete"])

    def keep(self, part: str, jobs: Sequence[str], front: GroupFront) -> None:
        """Remember what was found, and write the file."""
        self._parts[part] = {
            "jobs": list(jobs),
            "schedules": [list(map(int, offsets)) for offsets in front.schedules],
            "complete": front.complete,
        }
        make_folder(self._path.parent)
        document = {
            "format": PROGRESS_FORMAT,
            "problem": self._problem,
            "digest": _digest([self._problem, self._parts]),
            "parts": self._parts,
        }
        write_text(self._path, dump_document(document))

    def _read(self) -> dict[str, Any]:
        try:
            document = read_document(self._path)
        except InputError as error:
            self._notes.append(f"{error}; begun anew")
            return {}
        if document.get("problem") != self._problem:
            return {}
        parts = document.get("parts")
        if (
            document.get("format") != PROGRESS_FORMAT
            or document.get("digest") != _digest([self._problem, parts])
            or not isinstance(parts, dict)
            or not all(self._is_front(part) for part in parts.values())
        ):
            self._notes.append(f"{self._path}: is not what an earlier run wrote; begun anew")
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


def _digest(said: Any) -> str:
    """Return what tells a problem, or what is known of one, from others."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
