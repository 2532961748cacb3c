"""The one entry to compatible problems, and the solvers that it knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from metronome_opt.compatible import branching, exhaustive, greedy, intervals, local, milp
from metronome_opt.compatible.choices import (
    Choice,
    Choices,
    check_period,
    checked,
    largest_set,
    refuse_unknown,
)
from metronome_opt.compatible.choose import Chosen, Offer, Propose, choose
from metronome_opt.compatible.decide import Decider, Decision, core, search_offsets
from metronome_opt.compatible.master import Master
from metronome_opt.compatible.pace import Kept
from metronome_opt.compatible.statement import CostsTooFineError
from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.result import Stop
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.deadline import Deadline
from metronome_opt.solvers.solve import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    interrupt_stops,
)

_ROUNDS = 100  # for each job, of local search without a gain
_FEW_ROUNDS = 20  # before something exact goes on
_SHARE = 0.1  # of the time, for these

Periods = Mapping[str, int]


class Task:
    """What is asked of a solver, and until when.

    Attributes
    ----------
    stop
        Why it ends, if it does before it has finished.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        time_limit: float | None,
        seed: int,
        workers: int | None,
        cushion_slots: int,
        offer: Offer | None = None,
    ) -> None:
        check_instance(instance)
        check_numbers(time_limit, seed, workers)
        if isinstance(cushion_slots, bool) or not isinstance(cushion_slots, int):
            raise InputError(f"cushion_slots: must be an integer, got {show(cushion_slots)}")
        if cushion_slots < 0:
            raise InputError(f"cushion_slots: must be at least 0, got {show(cushion_slots)}")
        self.instance = instance
        self.seed = seed
        self.workers = workers or os.cpu_count() or 1
        self.cushion_slots = cushion_slots
        self.stop = Stop.TIME_LIMIT
        self.clock = Deadline(time_limit, lambda: self.stop is Stop.INTERRUPTED)
        self._offer = offer
        self._best: Fraction | None = None

    def interrupt(self) -> None:
        """Return what there is."""
        self.stop = Stop.INTERRUPTED

    def told(self, found: Chosen) -> Chosen:
        """Tell of an answer and return it."""
        if found.kept is not None and found.cost is not None:
            self.offer(found.kept, found.cost)
        return found

    def offer(self, kept: Kept, cost: Fraction) -> None:
        """Tell of an answer if it is better than all before."""
        if self._best is None or cost < self._best:
            self._best = cost
            if self._offer is not None:
                self._offer(kept, cost)


@dataclass(frozen=True)
class Solver:
    """A solver of compatible problems.

    Attributes
    ----------
    summary
        One line for help texts.
    choose
        Finds the cheapest choices at which jobs fit.
    decide
        Decides whether jobs fit at some periods.
    load
        Imports its back end.
    exact
        Whether it proves what it says, given time.
    """

    name: str
    summary: str
    choose: Callable[[Task, Choices], Chosen]
    decide: Callable[[Task, Periods], Decision]
    load: Callable[[], object] = object
    exact: bool = True


def solve_choices(
    instance: Instance,
    choices: Choices,
    *,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
    callback: Offer | None = None,
) -> Chosen:
    """Find the cheapest choices at which jobs fit.

    Parameters
    ----------
    choices
        Of all jobs of the instance; `largest_set` and `least_stretch` make them.
    solver
        A name of `SOLVERS`.
    time_limit
        Seconds; None for no limit. What is found by then is returned, at Ctrl-C as well.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core.
    cushion_slots
        By how many slots bursts are longer.
    callback
        Told of every better answer.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = find_solver(solver)
    chosen.load()
    _load_kernels()
    task = Task(
        instance,
        time_limit=time_limit,
        seed=seed,
        workers=workers,
        cushion_slots=cushion_slots,
        offer=callback,
    )
    asked = checked(instance, choices)
    with interrupt_stops(task):
        return chosen.choose(task, asked)


def decide(
    instance: Instance,
    *,
    periods: Periods | None = None,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> Decision:
    """Decide whether jobs fit at some periods.

    Parameters
    ----------
    periods
        Of the jobs that keep slots; all at their own if left out.
    solver
        A name of `SOLVERS`; those that are not exact find offsets or nothing.

    Returns
    -------
    Decision
        Its refutation names no job that can be left out, as far as there was time.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = find_solver(solver)
    chosen.load()
    _load_kernels()
    task = Task(
        instance, time_limit=time_limit, seed=seed, workers=workers, cushion_slots=cushion_slots
    )
    if periods is None:
        periods = {job.name: job.period for job in instance.jobs}
    refuse_unknown(instance, periods)
    for name, period in periods.items():
        check_period(instance, instance.job(name), period, "periods")
    with interrupt_stops(task):
        found = chosen.decide(task, periods)
        if found.refutation is None:
            return found
        return Decision(refutation=core(found.refutation, lambda less: chosen.decide(task, less)))


def find_solver(name: str) -> Solver:
    """Return the solver called `name`; an unknown name is an `InputError` that lists them all."""
    if name not in SOLVERS:
        raise InputError(f"solver: {show(name)} is not known; choose from {', '.join(SOLVERS)}")
    return SOLVERS[name]


@cache
def _load_kernels() -> None:
    """Load, or compile, what no clock should count."""
    burst = Phase(start=0, length=1, rate=2)
    jobs = tuple(Job(name=name, period=2, phases=(burst,), links={"l": 1}) for name in "ab")
    instance = Instance(name="warm", slot_ms=1, links=(Link(name="l", capacity=3),), jobs=jobs)
    never = Deadline(None, lambda: False)
    greedy.choose(instance, largest_set(instance), never)
    Decider(instance).decide({"a": 2, "b": 2}, never)


# ------------------------------------------------------------------ choosing


def _auto(task: Task, choices: Choices) -> Chosen:
    start = _improve(task, choices, rounds=_FEW_ROUNDS, share=_SHARE)
    decider = _settling(task)
    try:
        return _benders(task, choices, start, decider)
    except CostsTooFineError:
        return branching.choose(decider, choices, task.clock, start=start, offer=task.offer)


def _cpsat(task: Task, choices: Choices) -> Chosen:
    return _benders(task, choices, _greedy(task, choices), _settling(task))


def _milp(task: Task, choices: Choices) -> Chosen:
    start = _greedy(task, choices)
    return _benders(task, choices, start, _searching(task), milp.MilpMaster)


def _benders(
    task: Task,
    choices: Choices,
    start: Chosen,
    decider: Decider,
    propose: Propose = Master,
) -> Chosen:
    return choose(
        decider,
        choices,
        task.clock,
        propose=propose,
        seed=task.seed,
        workers=task.workers,
        start=start,
        offer=task.offer,
    )


def _search(task: Task, choices: Choices) -> Chosen:
    start = _greedy(task, choices)
    return branching.choose(_searching(task), choices, task.clock, start=start, offer=task.offer)


def _greedy(task: Task, choices: Choices) -> Chosen:
    found = greedy.choose(task.instance, choices, task.clock, cushion_slots=task.cushion_slots)
    return task.told(found)


def _local(task: Task, choices: Choices) -> Chosen:
    return _improve(task, choices, rounds=_ROUNDS)


def _improve(task: Task, choices: Choices, rounds: int, share: float = 1.0) -> Chosen:
    return local.choose(
        task.instance,
        choices,
        task.clock,
        cushion_slots=task.cushion_slots,
        seed=task.seed,
        rounds=rounds * len(task.instance.jobs),
        share=share,
        offer=task.offer,
    )


def _exhaustive(task: Task, choices: Choices) -> Chosen:
    found = exhaustive.choose(task.instance, choices, task.clock, cushion_slots=task.cushion_slots)
    return task.told(found)


def _searching(task: Task) -> Decider:
    return Decider(task.instance, task.cushion_slots)


def _settling(task: Task) -> Decider:
    """Return a decider that hands to CP-SAT what the search does not decide soon."""

    def settle(instance: Instance, clock: Deadline) -> Decision:
        if intervals.count_intervals(instance) > intervals.MOST_INTERVALS:
            return search_offsets(instance, clock)
        return intervals.settle(instance, clock, task.seed, task.workers)

    return Decider(task.instance, task.cushion_slots, settle)


# ------------------------------------------------------------------ deciding


def _decide_auto(task: Task, periods: Periods) -> Decision:
    return _settling(task).decide(periods, task.clock)


def _decide_search(task: Task, periods: Periods) -> Decision:
    return _searching(task).decide(periods, task.clock)


def _decide_cpsat(task: Task, periods: Periods) -> Decision:
    return intervals.decide(
        task.instance,
        periods,
        task.clock,
        cushion_slots=task.cushion_slots,
        seed=task.seed,
        workers=task.workers,
    )


def _decide_milp(task: Task, periods: Periods) -> Decision:
    return milp.decide(task.instance, periods, task.clock, cushion_slots=task.cushion_slots)


def _decide_exhaustive(task: Task, periods: Periods) -> Decision:
    return exhaustive.decide(task.instance, periods, task.clock, cushion_slots=task.cushion_slots)


def _decide_greedy(task: Task, periods: Periods) -> Decision:
    return _offsets(_greedy(task, _at(task, periods)))


def _decide_local(task: Task, periods: Periods) -> Decision:
    return _offsets(_local(task, _at(task, periods)))


def _at(task: Task, periods: Periods) -> Choices:
    """Return the choices in which the named jobs keep slots, and the others run freely."""
    return {job.name: (Choice(periods.get(job.name), Fraction(0)),) for job in task.instance.jobs}


def _offsets(found: Chosen) -> Decision:
    return Decision() if found.kept is None else Decision(offsets=found.kept.offsets)


_ALL = (
    Solver(
        "auto",
        "local search, then CP-SAT chooses, and search and intervals refute",
        _auto,
        _decide_auto,
        import_cp_model,
    ),
    Solver(
        "cpsat",
        "the same from greedy; or intervals in CP-SAT alone",
        _cpsat,
        _decide_cpsat,
        import_cp_model,
    ),
    Solver("milp", "HiGHS chooses, the search refutes; or slots in HiGHS", _milp, _decide_milp),
    Solver("search", "branch and bound, depth first; no back end", _search, _decide_search),
    Solver("greedy", "heaviest first, each where it fits", _greedy, _decide_greedy, exact=False),
    Solver("local", "large neighbourhoods, from greedy", _local, _decide_local, exact=False),
    Solver("exhaustive", "all choices, all offsets", _exhaustive, _decide_exhaustive),
)
SOLVERS = {solver.name: solver for solver in _ALL}
