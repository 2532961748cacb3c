"""Places for the jobs of a scenario that do not say where they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from metronome_opt.allocation.candidates import FreeResources
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.slots.evaluator import MAX_LOSS
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
from metronome_opt.errors import pluralise
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.cluster import ANY_COST
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

_PRICED = 3.0  # times as long as the nearest places takes it to find those of lowest price once
_SEARCH = 0.5  # of the time, for places by prices
_IMPROVING = 0.4  # of the rest, for those that are simulated
_GATING = 0.2  # of the rest, for places of jobs in slots, and for slots to compare places by
_NEAREST = "jobs without nodes are at the nearest places"


def allocate(
    scenario: Scenario,
    budget: Budget,
    *,
    seed: int = 0,
    levels: MeanWeights | None = None,
    stretch_limit: Fraction | None = None,
    max_loss: Fraction | None = MAX_LOSS,
    solver: str = "auto",
    threads: int = 1,
) -> PlacedInstance:
    """Return the instance of a scenario, whose jobs without nodes are given some.

    Nodes that jobs name are kept. By ``auto``, what `assign` finds is compared by simulation with
    the nearest placements, with no job gated, and the better of the two is taken: less weight
    waits, or else iterations are shorter. Some jobs are then moved, judged in the same way. Where
    there are several spines and they can be chosen, paths of flows are chosen with places. At last
    slots are chosen at these places, at the nearest ones, and at those whose prices are low with
    slots, and the best is taken in simulations that no search has seen.

    By ``cpsat`` or ``milp``, a joint model of all jobs decides, by ``greedy`` the nearest
    placement of one job after the other.

    Parameters
    ----------
    scenario
        Jobs that find no room wait; they are no part of the instance.
    threads
        Of the solver of a joint model.
    levels
        Weights of jobs in means of slowdowns that are minimised, one after the other; None for
        their priorities, in one mean.
    stretch_limit, max_loss
        As of `SlotSearchOptions`.

    Raises
    ------
    InputError
        If nodes that are named do not have room, a job is larger than the cluster or its links
        allow, or as of `build_scenario`.
    """
    search = PlacementSearch(scenario, levels)
    if scenario.is_placed:
        return build_scenario(scenario)
    options = SlotSearchOptions(
        stretch_limit=stretch_limit,
        max_loss=max_loss,
        levels=levels,
        classes=scenario.cluster.traffic_classes,
    )
    began = budget.elapsed
    near = search.nearest()
    choices = [near]
    if len(near) < len(scenario.jobs):
        choices.append(search.packed())
    if solver == "greedy":
        return search.problem(search.with_most(choices)[0], _NEAREST)
    if solver != "auto" and not budget.stopped:
        from metronome_opt.allocation.joint_model import choose_places  # other solvers need none

        return choose_places(search, choices, solver, budget.fraction(_SEARCH), seed, threads)
    if _has_time(budget, _PRICED * (budget.elapsed - began)):
        choices.append(search.assigned(budget.fraction(_SEARCH), seed))
    choices = search.with_most(choices)
    near, best, comparison = choices[0], choices[-1], ""
    if _has_time(budget, 0.0) and _has_time(budget, 2 * len(choices) * search.seconds(best)):
        best = search.better(choices)
        best = search.improved(best, budget.fraction(_IMPROVING), seed)
        # Where slots fit, no job has to be preferred: priorities do, whatever the means.
        kept = PlacementSearch(scenario).assigned(budget.fraction(_GATING), seed, gated=True)
        tried = [near, best, kept]
        if search.has_paths:
            tried += [choices[-1], *search.repathed(best, options, budget.fraction(_GATING))]
        best, comparison = search.gated(tried, options, budget.fraction(_GATING))
    elif best == near:
        comparison = _NEAREST
    return search.problem(best, comparison)


def reasons(scenario: Scenario, places: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return why each job that has no place waits, given the places of the others."""
    room = FreeResources(scenario.cluster)
    for job in scenario.jobs:
        room.take(places.get(job.name, ()), job.each)
    found = {}
    for job in scenario.jobs:
        if job.name not in places:
            fit = int(room.tasks(job.each).sum())
            needs = f"{job.workers:,} tasks of {pluralise(job.each.gpus, 'GPU')}"
            room_for = f"{needs}, and there is room for {fit:,}"
            narrow = " on nodes whose links are too narrow for the hyperperiod"
            if job.max_network_cost < ANY_COST:
                narrow = f" on nodes between which costs are above {job.max_network_cost}"
            found[job.name] = room_for + narrow * (fit >= job.workers)
    return found


def nearest(scenario: Scenario) -> PlacedInstance:
    """Return the instance of a scenario at the nearest placements, one job after the other."""
    return allocate(scenario, Budget(0.0), solver="greedy")


def _has_time(budget: Budget, seconds: float) -> bool:
    """Return whether a budget has more than some seconds left."""
    remaining = budget.remaining
    return not budget.stopped and (remaining is None or remaining > seconds)
