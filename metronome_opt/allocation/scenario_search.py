"""Placements for the jobs of a scenario without nodes, and the plan of their windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metronome_opt.allocation.placement_search import PlacementSearch, Places
from metronome_opt.allocation.slots.evaluator import is_better
from metronome_opt.allocation.slots.plan_search import (
    PlanResult,
    SlotSearchOptions,
    minimum_time,
    search_plan,
)
from metronome_opt.errors import pluralise
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

_ENUMERATED = 1000  # placements of all jobs that are all compared
_INSERTION = 3.0  # times as long as the nearest placements take: greedy insertion by cost
_SEARCHING = 0.5  # of the time, for placements of low cost, and again for a list of all
_IMPROVING = 0.4  # of the rest, for placements that are simulated
_GATED = 0.2  # of the rest, for placements of low cost with windows, and again for paths
_NEAREST = "jobs without nodes are on the nearest nodes, one job after the other"


def allocate(
    scenario: Scenario,
    budget: Budget,
    *,
    solver: str = "auto",
    seed: int = 0,
    options: SlotSearchOptions | None = None,
) -> tuple[PlacedInstance, PlanResult | None]:
    """Return the instance of a scenario, whose jobs without nodes are given some, and its plan.

    Nodes that jobs name are kept. By ``auto``, placements of low cost are compared by simulation
    with the nearest ones, with no job gated, and the better ones are taken: less weight waits, or
    else iterations are shorter. Some jobs are then moved, and the same comparison decides. Where
    paths can be chosen, they are chosen with placements. At last plans are searched at these
    placements, at the nearest ones, and at those that cost little with windows. The best plan
    decides, in simulations that no search has seen, and is returned with its placements.

    By ``cpsat`` or ``milp``, a joint model of all jobs decides, by ``greedy`` the nearest
    placement of one job after the other, without plans.

    Parameters
    ----------
    scenario
        Jobs that find no room wait; they are no part of the instance.
    solver
        A solver of allocation.
    options
        Limits of plans, weights in means, and threads, also for the solver of a joint model.

    Returns
    -------
    tuple
        The instance, and its plan, None where no plan was searched.

    Raises
    ------
    InputError
        If nodes that are named do not have room, a job is larger than the cluster or its links
        allow, or as of `build_scenario`.
    """
    options = options or SlotSearchOptions()
    options = replace(options, classes=scenario.cluster.traffic_classes)
    search = PlacementSearch(scenario, options.mean_weights)
    if scenario.is_placed:
        return build_scenario(scenario), None
    began = budget.elapsed
    near = search.find_nearest()
    choices = [near]
    if len(near) < len(scenario.jobs):
        choices.append(search.find_packed())
    if solver == "greedy":
        return search.problem_at(search.keep_fewest_waiting(choices)[0], _NEAREST), None
    if solver != "auto" and not budget.stopped:
        from metronome_opt.allocation.joint_model import choose_places  # other solvers need none

        part = budget.fraction(_SEARCHING)
        return choose_places(search, choices, solver, part, seed, options.threads), None
    if _has_time(budget, _INSERTION * (budget.elapsed - began)):
        choices.append(search.find_cheapest(budget.fraction(_SEARCHING), seed))
    choices = search.keep_fewest_waiting(choices)
    near, best = choices[0], choices[-1]
    if not (_has_time(budget, 0.0) and _has_time(budget, 2 * len(choices) * search.seconds(best))):
        return search.problem_at(best, _NEAREST if best == near else ""), None
    part = budget.fraction(_SEARCHING)
    every = search.find_all(_ENUMERATED, part) if len(near) == len(scenario.jobs) else []
    if not _has_time(budget, 2 * len(every) * search.seconds(best)):
        every = []
    best = search.improve(
        search.choose_ungated([*choices, *every]), budget.fraction(_IMPROVING), seed
    )
    # Where windows fit, no job has to be preferred: priorities do, whatever the means.
    by_priority = PlacementSearch(scenario)
    tried = [near, best, by_priority.find_cheapest(budget.fraction(_GATED), seed, gated=True)]
    if search.has_paths:
        tried.append(choices[-1])
        tried.append(search.improve_paths(best, options, budget.fraction(_GATED)))
    return _choose_by_plan(search, search.keep_fewest_waiting(tried), options, budget)


def _choose_by_plan(
    search: PlacementSearch, choices: Sequence[Places], options: SlotSearchOptions, budget: Budget
) -> tuple[PlacedInstance, PlanResult | None]:
    """Return the instance at the best of some choices with its plan, the first of equal ones."""
    near = choices[0]
    if not _has_time(budget, len(choices) * minimum_time(search.instance_at(near))):
        return search.problem_at(search.choose_ungated(choices)), None
    plans = []
    for index, places in enumerate(choices):
        part = budget.fraction(1 / (len(choices) - index))
        plans.append(search_plan(search.instance_at(places), options, part))
    best, values = 0, search.plan_values(near, plans[0])
    for index, (places, plan) in enumerate(zip(choices, plans, strict=True)):
        if is_better(found := search.plan_values(places, plan), values):
            best, values = index, found
    return search.problem_at(choices[best]), plans[best]


def reasons(scenario: Scenario, places: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return why each job that has no placement waits, given the placements of the others."""
    resources = FreeResources(scenario.cluster)
    for job in scenario.jobs:
        resources.take(places.get(job.name, ()), job.each)
    found = {}
    for job in scenario.jobs:
        if job.name not in places:
            fit = int(resources.task_counts(job.each).sum())
            needs = f"{job.workers:,} tasks of {pluralise(job.each.gpus, 'GPU')}"
            room_for = f"{needs}, and there is room for {fit:,}"
            narrow = " on nodes whose links are too narrow for the hyperperiod"
            if limits := job.limits.describe(scenario.cluster):
                narrow = f" that does not allow it: {limits}"
            found[job.name] = room_for + narrow * (fit >= job.workers)
    return found


def nearest(scenario: Scenario) -> PlacedInstance:
    """Return the instance of a scenario at the nearest placements, one job after the other."""
    return allocate(scenario, Budget(0.0), solver="greedy")[0]


def _has_time(budget: Budget, seconds: float) -> bool:
    """Return whether a budget has more than some seconds left."""
    return not budget.stopped and (budget.remaining is None or budget.remaining > seconds)
