"""Exact schedules for the periodic traffic of training jobs on shared links.

>>> from metronome_opt import solve
>>> result = solve("paper-24", time_limit=5)
>>> result.to_frame()
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # to type checkers it is true; importing typing takes as long as the gate
if TYPE_CHECKING:
    from typing import Any

    from metronome_opt.errors import InputError, MetronomeError, MissingBackendError, SolverError
    from metronome_opt.instance import (
        Instance,
        Job,
        Link,
        Phase,
        read_instance,
        write_instance,
    )
    from metronome_opt.model import Model
    from metronome_opt.multiobjective.front import Front
    from metronome_opt.multiobjective.pareto import pareto
    from metronome_opt.result import Event, Level, Result, Stop, compare
    from metronome_opt.scenario import build_scenario, load, read_scenario
    from metronome_opt.schedule import Schedule, Status, read_schedule, write_schedule
    from metronome_opt.solvers import SOLVERS
    from metronome_opt.solving import solve
    from metronome_opt.stopping import MaxIterations, MaxRuntime, NoImprovement
    from metronome_opt.verify import check, evaluate

_HOME = {
    "errors": ("MissingBackendError", "InputError", "MetronomeError", "SolverError"),
    "instance": ("Instance", "Job", "Link", "Phase", "read_instance", "write_instance"),
    "model": ("Model",),
    "multiobjective.front": ("Front",),
    "multiobjective.pareto": ("pareto",),
    "result": ("Event", "Level", "Result", "Stop", "compare"),
    "scenario": ("build_scenario", "load", "read_scenario"),
    "schedule": ("Schedule", "Status", "read_schedule", "write_schedule"),
    "solvers": ("SOLVERS",),
    "solving": ("solve",),
    "stopping": ("MaxIterations", "MaxRuntime", "NoImprovement"),
    "verify": ("check", "evaluate"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [  # noqa: RUF022 (in the order of use)
    "load",
    "read_instance",
    "read_scenario",
    "build_scenario",
    "Instance",
    "Job",
    "Link",
    "Phase",
    "Model",
    "solve",
    "MaxRuntime",
    "MaxIterations",
    "NoImprovement",
    "pareto",
    "Front",
    "SOLVERS",
    "Result",
    "Event",
    "Level",
    "Stop",
    "compare",
    "Status",
    "Schedule",
    "evaluate",
    "check",
    "read_schedule",
    "write_schedule",
    "write_instance",
    "MetronomeError",
    "InputError",
    "MissingBackendError",
    "SolverError",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is used: compiled kernels and solvers load late."""
    if name not in _MODULE:
        raise AttributeError(f"module 'metronome_opt' has no attribute {name!r}")
    return getattr(import_module(f"metronome_opt.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
