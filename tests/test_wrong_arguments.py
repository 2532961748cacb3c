"""Whatever is passed to a public function, an `InputError` says what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import metronome_opt as package
from metronome_opt.errors import InputError
from tests.builders import job, network

INSTANCE = network(job("a", 8, (0, 3, 60)), job("b", 8, (0, 3, 60)))
RESULT = package.solve(INSTANCE, "greedy", time_limit=1)
SCHEDULE = RESULT.schedule


class Thing:
    """Something that no function takes."""


WRONG: list[Any] = [
    *(None, True, False, 0, -1, 2.5, float("nan"), float("inf"), 10**400, -(10**400)),
    *("", "x", "a\0", "\ud800", "x" * 5000, b"x", b"\xff", Fraction(1, 3), 1j, Path("missing")),
    *([], [None], ["x"], [[]], (), ("x", 1), {}, {"x": 1}, {1: 2}, {"x": None}, {1}, range(3)),
    *(Thing(), ..., INSTANCE, RESULT, SCHEDULE),
]
JOB = {"name": "a", "period": 5, "phases": [(0, 1, 1)], "links": ["u"]}


def add_link(**given: Any) -> None:
    package.Model().add_link(given.pop("name"), **given).instance()


def add_job(**given: Any) -> None:
    model = package.Model().add_link("u", capacity=9)
    model.add_job(given.pop("name"), **given).instance()


CALLS: dict[str, tuple[Callable[..., object], dict[str, Any], str]] = {
    "load": (package.load, {}, "problem"),
    "solve": (
        package.solve,
        {"problem": INSTANCE, "time_limit": 0},
        "problem solver objective time_limit stop seed threads warm_start cushion_slots",
    ),
    "allocate": (
        package.allocate,
        {"scenario": INSTANCE, "time_limit": 0},
        "scenario solver objective network stretch_limit max_loss time_limit stop seed threads",
    ),
    "pareto": (
        package.pareto,
        {"problem": INSTANCE, "time_limit": 0},
        "problem objectives network max_loss time_limit seed threads cushion_slots callback",
    ),
    "pareto of slowdown": (
        package.pareto,
        {"problem": INSTANCE, "time_limit": 0, "objectives": ("slowdown", "delay")},
        "network max_loss time_limit seed threads cushion_slots callback",
    ),
    "simulate": (
        package.simulate,
        {"problem": RESULT, "iterations": 2},
        "problem policy iterations seed conditions",
    ),
    "compare": (package.compare, {}, "results"),
    "verify_schedule": (
        package.verify_schedule,
        {"instance": INSTANCE, "schedule": SCHEDULE},
        "instance schedule",
    ),
    "evaluate": (
        package.evaluate,
        {"instance": INSTANCE, "offsets": dict(SCHEDULE.offsets)},
        "instance offsets stretch cushion_slots stretch_limit",
    ),
    "Instance.from_dict": (package.Instance.from_dict, {}, "document"),
    "Schedule.from_dict": (package.Schedule.from_dict, {}, "document"),
    "read_instance": (package.read_instance, {}, "path"),
    "read_schedule": (package.read_schedule, {}, "path"),
    "read_scenario": (package.read_scenario, {}, "path"),
    "build_scenario": (package.build_scenario, {}, "scenario"),
    "write_instance": (
        package.write_instance,
        {"instance": INSTANCE, "path": "written.json"},
        "instance path",
    ),
    "write_schedule": (
        package.write_schedule,
        {"schedule": SCHEDULE, "path": "written.json"},
        "schedule path",
    ),
    "Schedule": (
        package.Schedule,
        {name: getattr(SCHEDULE, name) for name in package.Schedule.model_fields},
        " ".join(package.Schedule.model_fields),
    ),
    "Model": (lambda **given: package.Model(**given).instance(), {}, "name slot_ms"),
    "add_link": (add_link, {"name": "l", "capacity": 1}, "name capacity"),
    "add_job": (add_job, JOB, "name period phases links weight ready no_such_field"),
    "MaxIterations": (package.MaxIterations, {}, "iterations"),
    "MaxRuntime": (package.MaxRuntime, {}, "seconds"),
    "NoImprovement": (package.NoImprovement, {}, "iterations"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_taken_or_refused_in_one_printable_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, others, parameters = CALLS[name]
    for parameter in parameters.split():
        is_first = parameter in ("document", "path", "scenario") and not others
        for value in WRONG:
            line = "taken"
            try:
                call(value) if is_first else call(**{**others, parameter: value})
            except InputError as error:
                line = str(error)
            assert line.isprintable(), parameter
            assert line, parameter
