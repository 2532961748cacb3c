"""A search for a front that was interrupted goes on where it was, and takes nothing for granted."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import Front, FrontMemory, GroupFront
from metronome_opt.multiobjective.pareto import pareto
from tests.builders import job, network

NAMES = ("contention", "latency")


def two_parts() -> Instance:
    """Return two links, each with three jobs that do not fit side by side."""
    crowd = [
        job(f"{link}-{n}", 12, (0, 3 + n, 70 + 10 * n), weight=1 + 3 * (n % 2), links={link: 1})
        for link in ("link", "other")
        for n in range(3)
    ]
    return network(*crowd, other=90)


class Watched(FrontMemory):
    """A memory that counts."""

    def __init__(self, path: Path, instance: Instance, names: Sequence[str] = NAMES) -> None:
        super().__init__(path, instance, names, 0)
        self.recalled: list[str] = []
        self.kept: list[str] = []

    def recall(self, part: str, jobs: Sequence[str]) -> GroupFront | None:
        known = super().recall(part, jobs)
        if known is not None:
            self.recalled.append(part)
        return known

    def keep(self, part: str, jobs: Sequence[str], front: GroupFront) -> None:
        super().keep(part, jobs, front)
        self.kept.append(part)


def values(front: Front) -> list[object]:
    return [front.values(point) for point in front.points]


def test_a_second_run_goes_on_where_the_first_was_stopped(tmp_path: Path) -> None:
    instance, path = two_parts(), tmp_path / "new" / "front.json"
    first = Watched(path, instance)
    stopped = pareto(instance, NAMES, memory=first, callback=lambda event: event.done == 1)
    assert not stopped.complete
    assert len(first.kept) == 1
    assert first.notes == []
    second = Watched(path, instance)
    front = pareto(instance, NAMES, memory=second)
    assert front.complete
    assert first.kept[0] in second.recalled
    assert first.kept[0] not in second.kept
    assert len(second.kept) == 1
    assert values(front) == values(pareto(instance, NAMES))
    third = Watched(path, instance)
    assert values(pareto(instance, NAMES, memory=third)) == values(front)
    assert len(third.recalled) == 2
    assert third.kept == []
    # What nobody has proved in this run is said.
    (note,) = third.notes
    assert "2 parts have no further points is remembered from an earlier run" in note


@pytest.mark.parametrize("change", ["fewer points", "other points", "complete"])
def test_a_file_that_was_edited_proves_nothing(change: str, tmp_path: Path) -> None:
    instance, path = two_parts(), tmp_path / "front.json"
    names = ("contention", "wait")
    whole = pareto(instance, names, memory=FrontMemory(path, instance, names, 0))
    document = json.loads(path.read_text())
    for part in document["parts"].values():
        if change == "fewer points":
            assert len(part["schedules"]) > 1
            part["schedules"] = part["schedules"][:1]
        elif change == "other points":
            part["schedules"] = [[0] * len(part["jobs"])]
        else:
            part["complete"] = False
    path.write_text(json.dumps(document))
    edited = FrontMemory(path, instance, names, 0)
    front = pareto(instance, names, memory=edited)
    assert edited.notes == [f"{path}: is not what an earlier run wrote; begun anew"]
    assert front.complete
    assert values(front) == values(whole)


def test_what_was_not_finished_is_known_but_not_taken_for_all(tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    memory = FrontMemory(path, two_parts(), NAMES, 0)
    jobs = ["link-0", "link-1"]
    memory.keep("0", jobs, GroupFront(((0, 3), (1, 4)), complete=False))
    again = FrontMemory(path, two_parts(), NAMES, 0)
    assert again.recall("0", jobs) == GroupFront(((0, 3), (1, 4)), complete=False)
    assert again.recall("1", jobs) is None
    assert again.recall("0", ["link-0", "link-2"]) is None
    assert again.notes == []


def other_weight() -> Instance:
    instance = two_parts()
    heavier = instance.jobs[0].model_copy(update={"weight": 9})
    return instance.replace(jobs=(heavier, *instance.jobs[1:]))


@pytest.mark.parametrize(
    ("instance", "names", "cushion_slots"),
    [
        (other_weight(), NAMES, 0),
        (two_parts(), ("contention", "wait"), 0),
        (two_parts(), NAMES, 1),
    ],
    ids=["instance", "objectives", "reserve"],
)
def test_the_front_of_another_problem_is_not_mixed_in(
    instance: Instance, names: tuple[str, ...], cushion_slots: int, tmp_path: Path
) -> None:
    path = tmp_path / "front.json"
    FrontMemory(path, two_parts(), NAMES, 0).keep("0", ["link-0"], GroupFront(((0,),), True))
    other = FrontMemory(path, instance, names, cushion_slots)
    assert other.recall("0", ["link-0"]) is None
    other.keep("1", ["link-1"], GroupFront(((2,),), True))
    assert FrontMemory(path, two_parts(), NAMES, 0).recall("0", ["link-0"]) is None


WHOLE = {"jobs": ["link-0"], "schedules": [[0]], "complete": True}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        {"0": {**WHOLE, "complete": "yes"}},
        {"0": {**WHOLE, "jobs": ["nobody"]}},
        {"0": {**WHOLE, "schedules": []}},
        {"0": {**WHOLE, "schedules": [[0, 1]]}},
        {"0": {**WHOLE, "schedules": [[12]]}},
        {"0": {**WHOLE, "schedules": [[True]]}},
    ],
    ids=str,
)
def test_a_damaged_part_is_said_and_ignored(
    parts: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Even if its digest is right.
    monkeypatch.setattr(sys.modules[FrontMemory.__module__], "_digest", lambda _: "the same")
    path = tmp_path / "front.json"
    FrontMemory(path, two_parts(), NAMES, 0).keep("0", ["link-0"], GroupFront(((0,),), True))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "parts": parts}))
    damaged = FrontMemory(path, two_parts(), NAMES, 0)
    assert damaged.recall("0", ["link-0"]) is None
    assert damaged.notes == [f"{path}: is not what an earlier run wrote; begun anew"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\0", '{"format": "x", "format": "y"}'])
def test_a_file_that_cannot_be_read_is_said_and_ignored(text: str, tmp_path: Path) -> None:
    path = tmp_path / "front.json"
    path.write_text(text)
    memory = FrontMemory(path, two_parts(), NAMES, 0)
    (note,) = memory.notes
    assert note.startswith(f"{path}: ")
    assert note.endswith("; begun anew")
    assert "\n" not in note
    memory.keep("0", ["link-0"], GroupFront(((0,),), complete=True))
    assert FrontMemory(path, two_parts(), NAMES, 0).recall("0", ["link-0"]) is not None
