"""Arguments of `solve`, `allocate` and `pareto`: read, checked, and problems with placements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance, Sharing
from metronome_opt.problem.result import Result
from metronome_opt.problem.stopping import MaxRuntime, RuleMonitor, StoppingRule
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import locate, read_source
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT, Exact
from metronome_opt.solvers.registry import Solver

_OLD_NAMES = {"strict": "lexicographic"}  # of objectives, for one release
_NETWORKS = (*get_args(Sharing), "gated")
_PLACES = "metronome_opt.allocation.joint_model:place_by_model"

ALLOCATION_SOLVERS = {
    solver.name: solver
    for solver in (
        Solver(
            "auto",
            "placements by costs of pairs and by simulation, then gated jobs, periods and offsets",
            "metronome_opt.allocation.scenario_search:allocate",
        ),
        Solver(
            "greedy",
            "nearest placements, one job after the other, then the rotation heuristic",
            "metronome_opt.allocation.slots.greedy:rotate_greedily",
            seeded=False,
        ),
        Solver("cpsat", "placements by a joint model; then as auto", _PLACES, ("ortools",)),
        Solver("milp", "placements by the joint model with HiGHS", _PLACES, ("scipy",)),
    )
}
"""Solvers of allocation by name."""


class ScenarioError(InputError):
    """A scenario cannot be placed; the text begins with the location in it."""


Problem = Instance | PlacedInstance | Scenario | Result | str | Path


def read_problem(problem: object) -> PlacedInstance | Scenario:
    """Return an instance with its placements, if any, or a scenario."""
    if isinstance(problem, Result):
        problem = problem.instance
    if isinstance(problem, str | Path):
        problem = read_source(problem)
    if isinstance(problem, Instance):
        problem = PlacedInstance(problem)
    if not isinstance(problem, PlacedInstance | Scenario):
        raise InputError(
            f"problem: must be an Instance, a Scenario, a PlacedInstance, which `load` returns, "
            f"or a file, got {type(problem).__name__}"
        )
    return problem


def check_network(network: str) -> None:
    """Refuse a network that `solve` does not know."""
    if network not in _NETWORKS:
        raise InputError(
            f"network: {quote(network)} is not known; choose from {', '.join(_NETWORKS)}"
        )


def find_source(problem: object, network: str | None) -> PlacedInstance | Scenario:
    """Return the problem, with links shared in a given way if there is one."""
    source = read_problem(problem)
    if network is not None:
        check_network(network)
    if network in (None, "gated"):
        return source
    if isinstance(source, PlacedInstance):
        return replace(source, instance=source.instance.replace(network=network))
    cluster = source.cluster.model_copy(update={"network": network})
    return source.model_copy(update={"cluster": cluster})


def weights_of(source: PlacedInstance | Scenario) -> Mapping[str, int]:
    """Return the weights of the jobs, by name."""
    if isinstance(source, Scenario):
        return {job.name: job.priority for job in source.jobs}
    return {job.name: job.weight for job in source.instance.jobs}


@contextmanager
def naming_problem(problem: object) -> Iterator[None]:
    """Prefix errors in placing jobs with the file's name, if there is one."""
    try:
        yield
    except InputError as error:
        if isinstance(problem, str | Path):
            raise error.within(locate(problem)) from None
        raise ScenarioError(error.lines[0], error.lines[1:]) from None


def place_jobs(source: PlacedInstance | Scenario) -> PlacedInstance:
    """Return the problem with all jobs placed, those without nodes at the nearest ones."""
    if isinstance(source, PlacedInstance):
        return source
    if source.is_placed:
        return build_scenario(source)
    from metronome_opt.allocation.scenario_search import nearest

    return nearest(source)


def find_iterations(source: PlacedInstance | Scenario) -> Mapping[str, float]:
    """Return the number of iterations of each job, by name; an `InputError` where unknown."""
    if isinstance(source, Scenario):
        known = {job.name: job.iterations for job in source.jobs}
    else:
        known = dict.fromkeys((job.name for job in source.instance.jobs), None)
        known |= {traffic.job.name: traffic.job.iterations for traffic in source.traffic}
    found = {}
    for index, (name, iterations) in enumerate(known.items()):
        if iterations is None:
            raise InputError(
                f"jobs[{index}]: {name}: its number of iterations is not known, which completion "
                "needs; state it in the scenario, or minimise slowdown"
            )
        found[name] = iterations
    return found


def hyperperiod_of(source: PlacedInstance | Scenario) -> int | None:
    """Return the slots that all periods have to divide; None for any periods."""
    return getattr(
        getattr(source, "cluster", None), "hyperperiod", None
    )  # of a cluster with a grid


def find_limits(
    time_limit: float | None, stop: StoppingRule | Sequence[StoppingRule]
) -> tuple[float | None, RuleMonitor | None]:
    """Return the time limit, that of rules if there is one, and what watches the other rules."""
    rules = [stop] if callable(stop) else stop
    if not isinstance(rules, Sequence) or not all(map(callable, rules)):
        raise InputError(f"stop: must be a rule or several, got {quote(stop)}")
    limits = [rule.seconds for rule in rules if isinstance(rule, MaxRuntime)]
    if limits and time_limit != DEFAULT_TIME_LIMIT:
        raise InputError("time_limit: conflicts with MaxRuntime; give one of the two")
    others = [rule for rule in rules if not isinstance(rule, MaxRuntime)]
    return min(limits, default=time_limit), RuleMonitor(others) if others else None


def find_names(
    objective: str | Sequence[str] | Mapping[str, Exact],
) -> tuple[tuple[str, ...], Mapping[str, Exact] | None]:
    """Return the objectives, and their weights if they are added up."""
    if isinstance(objective, Mapping):
        return (), objective
    names = [objective] if isinstance(objective, str) else objective
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InputError(f"objective: must be a name or several, got {quote(objective)}")
    return tuple(_OLD_NAMES.get(name, name) for name in names), None
