"""Exact schedules for the periodic traffic of training jobs on shared links.

>>> from metronome_opt import solve
>>> result = solve("paper-24", time_limit=5)
>>> result.to_frame()
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # to type checkers it is true; importing typing takes as long as the gate
if TYPE_CHECKING:
    from typing import Any

    from metronome_opt.api import allocate as allocate
    from metronome_opt.api import compare as compare
    from metronome_opt.api import load as load
    from metronome_opt.api import pareto as pareto
    from metronome_opt.api import simulate as simulate
    from metronome_opt.api import solve as solve
    from metronome_opt.errors import InputError as InputError
    from metronome_opt.errors import MetronomeError as MetronomeError
    from metronome_opt.errors import MissingBackendError as MissingBackendError
    from metronome_opt.errors import PluginError as PluginError
    from metronome_opt.errors import SolverError as SolverError
    from metronome_opt.model import Model as Model
    from metronome_opt.problem.instance import Instance as Instance
    from metronome_opt.problem.instance import Job as Job
    from metronome_opt.problem.instance import Link as Link
    from metronome_opt.problem.instance import Phase as Phase
    from metronome_opt.problem.instance import read_instance as read_instance
    from metronome_opt.problem.instance import write_instance as write_instance
    from metronome_opt.problem.result import CustomSolverError as CustomSolverError
    from metronome_opt.problem.result import Level as Level
    from metronome_opt.problem.result import ProgressEvent as ProgressEvent
    from metronome_opt.problem.result import Result as Result
    from metronome_opt.problem.result import StopReason as StopReason
    from metronome_opt.problem.schedule import Schedule as Schedule
    from metronome_opt.problem.schedule import Status as Status
    from metronome_opt.problem.schedule import read_schedule as read_schedule
    from metronome_opt.problem.schedule import write_schedule as write_schedule
    from metronome_opt.problem.stopping import MaxIterations as MaxIterations
    from metronome_opt.problem.stopping import MaxRuntime as MaxRuntime
    from metronome_opt.problem.stopping import NoImprovement as NoImprovement
    from metronome_opt.scenario import build_scenario as build_scenario
    from metronome_opt.scenario import read_scenario as read_scenario
    from metronome_opt.solvers import SOLVERS as SOLVERS
    from metronome_opt.solvers.multiobjective.front import Front as Front
    from metronome_opt.verify import evaluate as evaluate
    from metronome_opt.verify import verify_schedule as verify_schedule

_HOME = {
    "api": ("allocate", "compare", "load", "pareto", "simulate", "solve"),
    "errors": ("MissingBackendError", "InputError", "MetronomeError", "PluginError", "SolverError"),
    "problem.instance": ("Instance", "Job", "Link", "Phase", "read_instance", "write_instance"),
    "model": ("Model",),
    "solvers.multiobjective.front": ("Front",),
    "problem.result": ("CustomSolverError", "ProgressEvent", "Level", "Result", "StopReason"),
    "scenario": ("build_scenario", "read_scenario"),
    "problem.schedule": ("Schedule", "Status", "read_schedule", "write_schedule"),
    "solvers": ("SOLVERS",),
    "problem.stopping": ("MaxIterations", "MaxRuntime", "NoImprovement"),
    "verify": ("verify_schedule", "evaluate"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = list(_MODULE)


def __getattr__(name: str) -> Any:
    """Import a name when it is used: compiled kernels and solvers load late."""
    if name not in _MODULE:
        raise AttributeError(f"module 'metronome_opt' has no attribute {name!r}")
    return getattr(import_module(f"metronome_opt.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _register_with_ipython() -> None:
    """Let a notebook show results and fronts as `metronome_opt.notebook` writes them."""
    from metronome_opt.bar import notebook

    if (shell := notebook()) is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        home = "metronome_opt.notebook"
        for module, name in (
            ("metronome_opt.problem.result", "Result"),
            ("metronome_opt.solvers.multiobjective.front", "Front"),
        ):
            show = f"show_{name.lower()}"
            formatter.for_type_by_name(
                module, name, lambda shown, show=show: getattr(import_module(home), show)(shown)
            )


if "IPython" in sys.modules:
    _register_with_ipython()
