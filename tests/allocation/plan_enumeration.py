"""Small clusters with few jobs: places, gates and classes, tried one by one.

`python -m tests.allocation.plan_enumeration 300` compares `allocate` and the plan of its places
with the best of all places, and of all plans of a coarse grid of slots there.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

from metronome_opt.allocation.placement_search import PlacementSearch, Places
from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions, groups, search_plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import evaluate
from tests.allocation.enumeration import all_places, draw_scenario, spots_of

_STRETCH = Fraction(1, 5)  # of a period, that is tried
_POSITIONS = {2: 16, 3: 8, 4: 4}  # of the offsets of gated jobs, by how many they are
_LOSS = 0.02
_SEEN, _LONG, _UNSEEN = range(70_000, 70_004), range(71_000, 71_024), range(72_000, 72_048)
_KEPT = 12  # plans of short simulations that are tried in long ones


def all_gates(part: Instance) -> Iterator[Plan]:
    """Yield plans in which some jobs are gated: all bases of periods, offsets of a coarse grid.

    As a schedule has to, gated jobs together ask for no more than a link carries.
    """
    free = Plan(part.unshifted)
    for count in range(2, len(part.jobs) + 1):
        for some in combinations(part.jobs, count):
            tried = set()
            longest = max(job.period for job in some)
            for base in range(2, int(longest * (1 + _STRETCH)) + 1):
                periods = tuple(-(-job.period // base) * base for job in some)
                stretched = zip(periods, some, strict=True)
                if periods in tried or any(p > j.period * (1 + _STRETCH) for p, j in stretched):
                    continue
                tried.add(periods)
                positions = _POSITIONS.get(count, 3)
                for steps in product(range(positions), repeat=count - 1):
                    shares = zip(some, (0, *steps), periods, strict=True)
                    offsets = {job.name: step * p // positions for job, step, p in shares}
                    kept = {job.name: p for job, p in zip(some, periods, strict=True)}
                    stretch = {job.name: kept[job.name] - job.period for job in some}
                    gated = part.replace(jobs=some)
                    found = evaluate(gated, offsets, stretch, stretch_limit=_STRETCH)
                    if not any(link.unserved for link in found.links):
                        yield Plan({**free.offsets, **offsets}, kept)


def all_classes(part: Instance, count: int) -> Iterator[dict[str, int]]:
    """Yield all weak orders of the jobs in several classes."""
    names = [job.name for job in part.jobs]
    for chosen in product(range(min(count, len(names))), repeat=len(names)):
        if 1 < len(set(chosen)) == max(chosen) + 1:
            yield dict(zip(names, chosen, strict=True))


def best_of_all(part: Instance, count: int) -> Plan:
    """Return the best plan of a group in which no job loses more than 2 % against no gates."""
    free = Plan(part.unshifted)
    short = PlanSimulator(part, _SEEN, starts_in_slots=False)
    base = short.slowdowns(free)

    def screened(plan: Plan) -> float:
        slowdowns = short.slowdowns(plan)
        loss = float((slowdowns / base).max()) - 1 - _LOSS
        return short.value(slowdowns) + 10 * max(0.0, loss)

    gates = sorted(all_gates(part), key=screened)[:_KEPT]
    orders = list(all_classes(part, count))
    classed = [plan.in_classes(order) for plan in (free, *gates) for order in orders]
    kept = sorted([*gates, *classed], key=screened)[:_KEPT]
    long = PlanSimulator(part, _LONG, periods=200, starts_in_slots=False)
    base, best = long.slowdowns(free), free
    least = long.value(base)
    for plan in kept:
        slowdowns = long.slowdowns(plan)
        if (slowdowns <= (1 + _LOSS) * base).all() and long.value(slowdowns) < least:
            best, least = plan, long.value(slowdowns)
    return best


def slowdown(instance: Instance, plan: Plan) -> float:
    """Return the weighted mean slowdown in long simulations that no search has seen."""
    simulator = PlanSimulator(instance, _UNSEEN, periods=200, starts_in_slots=False)
    return simulator.value(simulator.slowdowns(plan))


def instance_at(scenario: Scenario, places: Places) -> Instance:
    """Return the instance of jobs at some places."""
    return PlacementSearch(scenario).problem_at(places).instance


def compare(scenario: Scenario) -> tuple[float, float] | None:
    """Return what `allocate` and the search for a plan reach, and the best of all that is tried.

    None if not all jobs have room.
    """
    count = scenario.cluster.traffic_classes
    options = SlotSearchOptions(classes=count)
    problem, _ = allocate(scenario, Budget(60))
    if problem.waiting or problem.places is None:
        return None
    search, few = PlacementSearch(scenario), SlotSearchOptions(classes=count, max_events=1)
    reached = slowdown(problem.instance, search_plan(problem.instance, options, Budget()).plan)
    places_found = spots_of(problem)
    least, best_places = reached, places_found
    value = search.values_with_slots(best_places, few, Budget())[0]
    for places in all_places(scenario):
        if value <= 1:
            break
        found = search.values_with_slots(places, few, Budget())[0]
        if found < value:
            value, best_places = found, places
    for places in (places_found, best_places)[: 1 + (best_places is not places_found)]:
        instance = instance_at(scenario, places)
        plan = Plan(instance.unshifted)
        for part in groups(instance):
            if len(part.jobs) > 1:
                plan = plan.joined(best_of_all(part, count))
        least = min(least, slowdown(instance, plan))
    return reached, least


def scenarios(cases: int) -> Iterator[Scenario]:
    """Yield small clusters, every other one with four traffic classes."""
    for seed in range(cases):
        drawn = draw_scenario(seed)
        classes = {"traffic_classes": 1 + 3 * (seed % 2)}
        yield drawn.model_copy(update={"cluster": drawn.cluster.model_copy(update=classes)})


def report(pairs: Sequence[tuple[float, float]]) -> None:
    """Print how far values that are reached are from the best ones."""
    worse = sorted(reached / least - 1 for reached, least in pairs)
    lossy = sum(least > 1.001 for _, least in pairs)
    largest = ", ".join(f"{100 * each:.2f}" for each in worse[-8:])
    sys.stdout.write(
        f"{len(worse)} cases, {lossy} with losses at best: mean difference "
        f"{100 * statistics.mean(worse):.3f} %, {sum(each <= 0.005 for each in worse)} within "
        f"0.5 %; largest in %: {largest}\n"
    )


def main(cases: int) -> None:
    """Print how far `allocate` and the search for plans are from the best that is tried."""
    pairs = [pair for pair in map(compare, scenarios(cases)) if pair is not None]
    report(pairs)


if __name__ == "__main__":
    main(int(sys.argv[1]))
