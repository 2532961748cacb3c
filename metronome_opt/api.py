"""The verbs of the package: read a problem, solve it, allocate, find fronts, simulate, compare.

All take the same problems: an instance, a scenario, the result of a verb, a file, or the name of a
shipped scenario. Arguments are checked before anything is computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from metronome_opt.allocation.arguments import (
    Problem,
    find_iterations,
    find_limits,
    find_names,
    find_source,
    hyperperiod_of,
    naming_problem,
    place_jobs,
    read_problem,
    weights_of,
)
from metronome_opt.bar import notebook_bar
from metronome_opt.errors import InputError, check_type, quote
from metronome_opt.pools import open_pool
from metronome_opt.problem.objectives import (
    COMPLETION,
    CONTENTION,
    SLOWDOWN,
    MeanWeights,
    are_simulated,
    simulated_levels,
)
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule
from metronome_opt.problem.stopping import RuleMonitor, StoppingRule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.arguments import (
    DEFAULT_TIME_LIMIT,
    Arguments,
    Exact,
    check_able,
    check_executor,
    check_numbers,
    check_reserve,
    check_share,
    check_start,
    interrupt_stops,
    make_goal,
)
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import Solver, SolverFunction, find_solver

if TYPE_CHECKING:
    import pandas as pd

    from metronome_opt.engine.conditions import Conditions
    from metronome_opt.simulation.result import SimulationResult
    from metronome_opt.solvers.multiobjective.front import Front, FrontEvent

DEFAULT_FRONT_LIMIT = 600.0

Objectives = str | Sequence[str] | Mapping[str, Exact]

_MEASURES = ("contention", "latency", "score_mean", "score_min")


def load(problem: Problem) -> PlacedInstance:
    """Read a problem; jobs without nodes are placed at the nearest ones.

    Parameters
    ----------
    problem
        A file, the name of a shipped scenario such as ``paper-24``, or an object.

    Raises
    ------
    InputError
        One line that names the file, the location in it and the value.
    """
    source = read_problem(problem)
    with naming_problem(problem):
        return place_jobs(source)


def solve(
    problem: Problem,
    solver: str | SolverFunction | Solver = "auto",
    objective: Objectives = CONTENTION,
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    stop: StoppingRule | Sequence[StoppingRule] = (),
    seed: int = 0,
    threads: int | None = None,
    warm_start: Schedule | None = None,
    cushion_slots: int = 0,
    executor: Executor | int | str | None = None,
) -> Result:
    """Choose offsets at given placements: an exact problem with value, bound and gap.

    Parameters
    ----------
    problem
        An instance, a scenario, what `load` or `solve` returned, a file, or the name of a shipped
        scenario. Jobs of a scenario that do not state nodes are placed at the nearest ones.
    solver
        A name of `metronome_opt.SOLVERS`, or a function of one `metronome_opt.solvers.SolverRun`.
    objective
        A name; or several, most important first, with the earlier ones held at their values; or
        exact weights by name, for a sum of objectives, which are divided by their natural sizes
        (`metronome_opt.problem.objectives.normal`). ``"all"`` stands for contention, stretch,
        latency, cushion, wait, moves. Every solver minimises contention or latency, ``auto`` all
        objectives. Jobs are stretched only if ``stretch`` is an objective, or if hyperperiods are
        too long otherwise.
    time_limit
        Seconds, for building models, searching and verifying, but not for reading the problem and
        loading kernels; None for no limit. The best schedule is returned.
    stop
        Further rules that end the run, see `metronome_opt.problem.stopping`: objects such as
        ``MaxIterations(100)``, or a function of a `ProgressEvent` that returns True to stop. A
        ``MaxRuntime`` replaces the time limit.
    seed
        Random seed.
    threads
        Threads of the back end; None for one per core, or for one beside an executor. A run is
        repeatable with one thread and no executor, if the time limit does not end any part of it.
    warm_start
        A schedule of the same jobs; for contention alone nothing worse is returned.
    cushion_slots
        Slots that are added to every burst. All values of the result are those of longer bursts.
    executor
        Where ``auto`` and ``elimination`` search subtrees of proofs of contention: a number of
        processes of this machine; the address of a Dask scheduler, ``tcp://HOST:PORT``; or an
        executor of `concurrent.futures`, or a ``distributed.Client``, which stay open. What a
        worker computed that died is computed again.

    Returns
    -------
    Result
        Always with a schedule. Ctrl-C returns the best one so far; `stop_reason` says so.

    Raises
    ------
    InputError
        If an argument is invalid, or the solver cannot minimise the objective.
    MissingBackendError
        If the solver's back end, or Dask, is not installed; the text says what to install.
    SolverError
        If the solver fails before it has a schedule; a `CustomSolverError` for a function or a
        plug-in, whose `result` is what it had found.
    """
    source = read_problem(problem)
    chosen = find_solver(solver)
    time_limit, watch = find_limits(time_limit, stop)
    check_numbers(time_limit, seed, threads)
    names, weights = find_names(objective)
    if are_simulated(names):
        raise InputError(f"objectives: {names[0]} is simulated; use `allocate`")
    # Drivers load when they run: what is loaded before the budget starts is not counted.
    from metronome_opt.allocation.driver import state_allocation
    from metronome_opt.solvers.contention import custom_solver_error, load_kernels
    from metronome_opt.solvers.multiobjective.solve import solve_goal

    goal = make_goal(names, weights)
    with naming_problem(problem):
        placed = place_jobs(source)
    instance = placed.instance
    check_start(instance, warm_start)
    check_reserve(instance, cushion_slots)
    instance.check_hyperperiods(may_stretch=True)
    check_able(chosen, goal, stretching=instance.needs_stretch)
    check_executor(chosen, goal, executor, cushion_slots)
    with nullcontext() if executor is None else open_pool(executor) as pool:
        if time_limit != 0:
            load_kernels(chosen)
            if pool is not None:
                pool.warm_up(load_kernels, chosen)
        with _run(f"solve: {chosen.name}", time_limit, watch) as budget:
            threads = threads or (1 if pool is not None else os.cpu_count() or 1)
            terms = (budget.note, warm_start, goal, cushion_slots, pool)
            result = solve_goal(Arguments(instance, chosen, budget, seed, threads, *terms))
    found = state_allocation(result, placed, None)
    if budget.failure is not None:
        raise custom_solver_error(chosen, budget.failure, found) from budget.failure
    return found


def allocate(
    scenario: Problem,
    solver: str = "auto",
    objective: str | Sequence[str] = SLOWDOWN,
    *,
    network: str | None = None,
    stretch_limit: Exact | None = None,
    max_loss: Exact | None = None,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    stop: StoppingRule | Sequence[StoppingRule] = (),
    seed: int = 0,
    threads: int | None = None,
) -> Result:
    """Choose where jobs run, which are gated, at which periods and when they send.

    The weighted mean slowdown is minimised: iteration time over the best iteration that a job can
    have in the empty cluster, as simulated on the network of the cluster, with computing times that
    vary by their jitter. Fewer waiting jobs, by weight times GPUs, come before it.

    Parameters
    ----------
    scenario
        As the problem of `solve`. Stated nodes are kept; of an instance windows alone are chosen.
    solver
        ``greedy``: the nearest placement of one job after the other, then the rotation heuristic;
        components of jobs that gain by it are gated. ``cpsat`` and ``milp``: the placements of
        least cost in a joint model of all jobs, which CP-SAT or HiGHS solves; `Result.pool` has the
        cost and its bound. Windows are chosen as by ``auto``, which chooses placements by the same
        costs and by simulations. Nothing worse than by ``greedy`` is returned.
    objective
        ``slowdown``; ``completion``, the weighted mean time until jobs leave, where a scenario
        states their iterations; or ``lexicographic``, the slowdown of the jobs of the largest
        weight, then of the next. ``delay``, the mean time by which iterations are longer than the
        best ones, without weights, may follow ``slowdown`` or ``lexicographic``.
    network
        How the network shares links: ``fair``, ``tcp``, ``weighted`` or ``strict`` by priority, or
        ``gated``, where gated jobs are served first. None for the network of the scenario.
    stretch_limit
        The largest share of its period by which a gated job is stretched, beside its `max_stretch`:
        ``"20%"``, or an exact number; 0 for no stretch, None for as far as it pays.
    max_loss
        The largest share by which a job may be slower than with no job gated; None for 2 %.
    time_limit, stop, seed, threads
        As of `solve`.

    Returns
    -------
    Result
        Its bound holds for all placements; where nodes are stated, for these.

    Raises
    ------
    InputError
        If an argument is invalid.
    MissingBackendError
        If the solver's back end is not installed; the text says what to install.
    """
    from metronome_opt.allocation.arguments import ALLOCATION_SOLVERS
    from metronome_opt.allocation.driver import allocate_jobs, load_allocation
    from metronome_opt.allocation.slots.evaluator import MAX_LOSS
    from metronome_opt.allocation.slots.plan_search import SlotSearchOptions

    source = find_source(scenario, network)
    chosen = find_solver(solver, ALLOCATION_SOLVERS)
    time_limit, watch = find_limits(time_limit, stop)
    check_numbers(time_limit, seed, threads)
    stretch_limit = check_share("stretch_limit", stretch_limit)
    max_loss = check_share("max_loss", max_loss)
    names, _ = find_names(objective)
    if not are_simulated(names):
        raise InputError(
            f"objective: must be slowdown, lexicographic or completion, got "
            f"{quote(','.join(names) or objective)}; `solve` minimises others at given placements"
        )
    iterations = find_iterations(source) if COMPLETION in names else None
    if time_limit != 0:
        load_allocation(chosen)
    options = SlotSearchOptions(
        stretch_limit=stretch_limit,
        max_loss=MAX_LOSS if max_loss is None else max_loss,
        network=network,
        hyperperiod=hyperperiod_of(source),
        mean_weights=simulated_levels(names, weights_of(source)),
        threads=threads or os.cpu_count() or 1,
    )
    with _run(f"allocate: {chosen.name}", time_limit, watch) as budget:
        terms = (source, chosen, budget, options)
        return allocate_jobs(scenario, *terms, seed=seed, names=names, iterations=iterations)


@contextmanager
def _run(title: str, time_limit: float | None, watch: RuleMonitor | None) -> Iterator[Budget]:
    """Yield the budget of a run, which Ctrl-C ends; a notebook shows a bar meanwhile."""
    with notebook_bar(title, time_limit) as show:
        if show is not None:
            rules = watch.rules if watch else ()
            watch = RuleMonitor([*rules, lambda event: show(event.describe())])
        budget = Budget(time_limit, watch=watch)
        with interrupt_stops(budget):
            yield budget


@contextmanager
def _front_bar(
    time_limit: float | None, callback: Callable[[FrontEvent], bool | None] | None
) -> Iterator[Callable[[FrontEvent], bool | None]]:
    """Yield what is called after every part of a front; a notebook shows a bar meanwhile."""
    with notebook_bar("pareto", time_limit) as show:

        def call(event: FrontEvent) -> bool | None:
            if show is not None:
                show(event.describe())
            return callback is not None and callback(event)

        yield call


def pareto(
    problem: Problem,
    objectives: Sequence[str] = ("contention", "latency"),
    *,
    network: str | None = None,
    max_loss: Exact | None = None,
    time_limit: float | None = DEFAULT_FRONT_LIMIT,
    seed: int = 0,
    threads: int | None = None,
    cushion_slots: int = 0,
    callback: Callable[[FrontEvent], bool | None] | None = None,
) -> Front:
    """Find the non-dominated schedules for two objectives.

    Parameters
    ----------
    problem
        As of `solve`. For slowdown and delay, jobs are placed for every point.
    objectives
        Two of contention, latency and stretch; or slowdown and delay.
    network, max_loss
        As of `allocate`; for slowdown and delay only.
    time_limit
        Seconds; None for no limit. The points found by then are returned; `complete` says whether
        these are all. For slowdown and delay some weighted sums are minimised in equal parts of it.
    seed, threads, cushion_slots
        As of `solve`.
    callback
        Called after every part; returns True to stop.

    Returns
    -------
    Front
        Its points are schedules of the same jobs at one placement.

    Raises
    ------
    InputError
        If an argument is invalid, or the objectives have no front.
    """
    source = find_source(problem, network)
    check_numbers(time_limit, seed, threads)
    if callback is not None and not callable(callback):
        raise InputError(f"callback: must be a function, got {quote(callback)}")
    objectives, sums = find_names(objectives)
    if sums is not None:
        raise InputError("objectives: must be two names, got a mapping")
    threads = threads or os.cpu_count() or 1
    solver = find_solver("auto")
    if not are_simulated(objectives):
        for name, value in (("network", network), ("max_loss", max_loss)):
            if value is not None:
                raise InputError(f"{name}: is for slowdown and delay; omit it")
        from metronome_opt.allocation.driver import notes_on, state_places
        from metronome_opt.solvers.multiobjective.pareto import check_front, find_front

        with naming_problem(problem):
            placed = place_jobs(source)
        names = check_front(placed.instance, objectives)
        check_reserve(placed.instance, cushion_slots)
        budget = Budget(time_limit)
        arguments = Arguments(
            placed.instance, solver, budget, seed, threads, cushion_slots=cushion_slots
        )
        with _front_bar(time_limit, callback) as call, interrupt_stops(budget):
            front = find_front(arguments, names, call)
        points = tuple(state_places(point, placed, None) for point in front.points)
        return replace(front, points=points, notes=(*notes_on(placed), *front.notes))
    from metronome_opt.allocation.driver import allocate_once
    from metronome_opt.allocation.slots.evaluator import MAX_LOSS
    from metronome_opt.allocation.slots.front import NAMES, slowdown_front
    from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
    from metronome_opt.allocation.slots.solve import warm_up_engine

    if cushion_slots:
        raise InputError("cushion_slots: is for contention, latency and stretch; omit it")
    if tuple(objectives) != NAMES:
        raise InputError(f"objectives: a front of simulated means is one of {', '.join(NAMES)}")
    loss = check_share("max_loss", max_loss)
    warm_up_engine()
    budget = Budget(time_limit)
    options = SlotSearchOptions(
        max_loss=MAX_LOSS if loss is None else loss,
        network=network,
        hyperperiod=hyperperiod_of(source),
        threads=threads or os.cpu_count() or 1,
    )

    def minimise(weights: MeanWeights, part: Budget) -> Result:
        chosen, mine = find_solver("auto"), replace(options, mean_weights=weights)
        return allocate_once(problem, source, chosen, part, mine, seed=seed, names=NAMES)

    with _front_bar(time_limit, callback) as call, interrupt_stops(budget):
        return slowdown_front(weights_of(source), minimise, budget, call)


def simulate(
    problem: Problem,
    policy: str | None = None,
    *,
    iterations: int = 200,
    seed: int = 0,
    conditions: Conditions | None = None,
) -> SimulationResult:
    """Simulate jobs under a policy, or the schedule of a result.

    Parameters
    ----------
    problem
        A scenario whose jobs state numbers of iterations, a file of one, or the name of a shipped
        scenario; or the result of `solve` or `allocate`, which is simulated as `allocate` does.
    policy
        A name of `metronome_opt.simulation.POLICIES`, ``metronome`` if None; not for a result.
    iterations
        Length of the simulation of a result, in periods of its longest job.
    seed
        Random seed, which does not depend on the policy.
    conditions
        Disturbances under a policy; none if None.

    Returns
    -------
    SimulationResult
        Tables of jobs, links and rates.

    Raises
    ------
    InputError
        If an argument is invalid.
    """
    from metronome_opt.simulation.run import simulate as simulate_policy
    from metronome_opt.simulation.run import simulate_result

    if isinstance(problem, Result):
        for name, value in (("policy", policy), ("conditions", conditions)):
            if value is not None:
                raise InputError(f"{name}: a result is simulated as it was evaluated; omit it")
        return simulate_result(problem, iterations=iterations, seed=seed)
    check_numbers(None, seed, None)
    source = read_problem(problem)
    if not isinstance(source, Scenario):
        raise InputError("problem: a policy places jobs of a scenario; for an instance, solve it")
    return simulate_policy(source, policy or "metronome", seed=seed, conditions=conditions)


def compare(results: Problem | Iterable[Problem]) -> pd.DataFrame:
    """Return one row per result: solver, objective and value, bound, gap, scores and seconds.

    A problem, such as the name of a shipped scenario, stands for its jobs starting when ready.

    Results of different objectives have no bound in common: there is then a column of bounds for
    each objective. Unknown values are missing (``<NA>``), not 0. Values are floats; the exact ones
    are in the results.
    """
    import pandas as pd

    rows, bounds = [], {}
    if isinstance(results, Problem):
        results = [results]
    check_type("results", results, Iterable)
    found = [r if isinstance(r, Result) else solve(r, "unshifted") for r in results]
    is_one = len({result.schedule.primary_objective for result in found}) == 1
    for result in found:
        name, evaluation = result.schedule.primary_objective, result.evaluation
        bounds[name] = "lower_bound" if is_one else f"{name}_bound"
        row: dict[str, object] = {
            "solver": result.schedule.solver,
            "objective": name,
            "status": str(result.status),
            "value": result.value,
            bounds[name]: result.bound,
            "gap": result.gap,
            "seconds": result.schedule.runtime_s,
        }
        if evaluation is not None:
            row |= evaluation.objectives
            row |= {"score_mean": evaluation.score_mean, "score_min": evaluation.score_min}
        rows.append(row)
    numbers = ["value", *bounds.values(), "gap", *_MEASURES, "seconds"]
    frame = pd.DataFrame(rows, columns=["solver", "objective", "status", *numbers])
    frame[numbers] = frame[numbers].map(float, na_action="ignore").astype("Float64")
    return frame.set_index("solver")
