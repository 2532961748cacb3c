"""Simulation of a scenario under a policy, or of a schedule of an instance."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.slots.feasibility import FeasibilityTest
from metronome_opt.allocation.slots.feasibility_problem import FeasibilityProblem
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.engine.conditions import Conditions
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule, isolated_iteration
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import FrozenDict
from metronome_opt.plugins import guarded
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Result
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.simulation.policies import find_policy, is_plugin
from metronome_opt.simulation.policies.common_periods import group_instance
from metronome_opt.simulation.progress import ProgressEstimate
from metronome_opt.simulation.result import Groups, JobRow, SimulationResult, make_result
from metronome_opt.simulation.state import (
    JobInstruction,
    RunningJob,
    SimState,
    TrainingJob,
    training_jobs,
)
from metronome_opt.verify.evaluation import assignment_violations

_MAX_NUMBER = 10**9


def simulate(
    scenario: Scenario,
    policy: str,
    *,
    seed: int = 0,
    conditions: Conditions | None = None,
    watch: Sequence[str] = (),
    estimated: bool = False,
) -> SimulationResult:
    """Simulate the jobs of a scenario under a policy.

    Whenever a job arrives or departs, waiting jobs are considered by priority, then by arrival, and
    the jobs that the policy places start. A job whose nodes the scenario gives runs there.

    Parameters
    ----------
    scenario
        Its jobs need numbers of iterations.
    policy
        One of `POLICIES`.
    seed
        Seed of all random numbers, which do not depend on the policy.
    conditions
        Disturbances; none if None.
    watch
        Links whose rates are traced.
    estimated
        Whether to estimate the least time that jobs run at their placements.

    Raises
    ------
    InputError
        If a job has no number of iterations or can never run, or a link to watch is not known.
    """
    conditions = conditions or Conditions()
    with guarded(f"policy {policy}", foreign=is_plugin(policy)):
        return _Simulation(scenario, policy, seed, conditions, watch, estimated=estimated).run()


class _Simulation:
    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        seed: int,
        conditions: Conditions,
        watch: Sequence[str],
        *,
        estimated: bool,
    ) -> None:
        for index, node in enumerate(scenario.cluster.nodes):
            if len(node.rails) > 1:
                raise InputError(
                    f"cluster.nodes[{index}].interfaces: {len(node.rails)} of them, and policies "
                    "know nodes with one; write an interface that carries what they do together"
                )
        self._policy = find_policy(policy, seed)
        is_asked = estimated and self._policy.has_contention
        self._progress = ProgressEstimate() if is_asked else None
        if self._policy.routing is not None:
            routed = scenario.cluster.model_copy(update={"routing": self._policy.routing})
            scenario = scenario.model_copy(update={"cluster": routed})
        cluster = scenario.cluster
        for link in watch:
            if link not in cluster.capacities:
                raise InputError(f"watch: there is no link {quote(link)}")
        self._jobs = training_jobs(scenario)
        self._indices = {job.name: job.index for job in self._jobs}
        sharing = conditions.sharing or cluster.network
        between = max(1, len(cluster.links) - len(cluster.nodes))
        paths = cluster.depth * (1 if cluster.spines == 1 else between)
        engine_jobs = []
        for job in self._jobs:
            links = job.spec.workers + min(paths * job.spec.workers, between)
            made = EngineJob(job.name, job.best, job.spec.priority, job.iterations, links)
            engine_jobs.append(made)
        self._engine = Engine(
            cluster.capacities,
            engine_jobs,
            sharing=sharing,
            conditions=conditions,
            seed=seed,
            watched=watch,
            has_contention=self._policy.has_contention,
            growth=self._policy.growth,
        )
        room = CandidatePlacements(cluster)
        self._state = SimState(room, self._engine, sharing, conditions.jitter)
        self._gpus = self._state.room.free_gpus
        self._rows: list[JobRow] = [
            {
                "job": job.name,
                "model": job.model,
                "priority": job.spec.priority,
                "workers": job.spec.workers,
                "gpus": job.spec.gpus,
                "ideal_ms": job.best_ms,
                "arrival_s": 1000 * job.spec.arrival_s / 1000,  # rounded as times in ms are
            }
            for job in self._jobs
        ]
        cost_s = conditions.move_cost_s
        self._move_cost_ms = None if cost_s is None else 1000 * cost_s
        self._queue: list[int] = []
        self._groups: dict[frozenset[int], tuple[bool, bool]] = {}  # whether they fit, are gated
        self._end_ms = math.inf if conditions.horizon_s is None else 1000 * conditions.horizon_s

    def run(self) -> SimulationResult:
        """Process all arrivals and departures."""
        arrivals = sorted(
            ((1000 * job.spec.arrival_s, job.index) for job in self._jobs), reverse=True
        )
        departed: list[RunningJob] = []
        changed = False
        state = self._state
        while arrivals or self._queue or state.running:
            while arrivals and arrivals[-1][0] <= state.now:
                self._queue.append(arrivals.pop()[1])
                changed = True
            if not arrivals:
                self._note_traffic()
            if changed:
                self._start_jobs(departed)
                if self._progress is not None:
                    self._progress.change(state)
            departed, changed = [], False
            if self._queue and not arrivals and not state.running:
                job = self._jobs[self._queue[0]]
                raise InputError(
                    f"jobs[{job.index}]: {job.name} does not fit the empty cluster; "
                    f"there are {self._gpus} GPUs, its {job.spec.workers} workers need "
                    f"{job.spec.gpus}"
                )
            arrival = arrivals[-1][0] if arrivals else math.inf
            index = self._engine.run(min(self._end_ms, arrival))
            state.now = self._engine.now
            if index is not None:
                self._rows[index]["end_s"] = state.now / 1000
                departed, changed = [state.remove(index)], True
            if state.now >= self._end_ms:
                break
        estimate = None
        if self._progress is not None:
            self._progress.change(state)
            estimate = self._progress.mean
        fits, gated = zip(*self._groups.values(), strict=True) if self._groups else ((), ())
        return make_result(
            self._engine,
            self._rows,
            used_ms=state.used_ms(),
            estimate=estimate,
            groups=Groups(len(self._groups), sum(fits), sum(gated)),
        )

    def _note_traffic(self) -> None:
        """Record what jobs have sent; the first time counts."""
        for job, row in zip(self._jobs, self._rows, strict=True):
            if "early_gbit" not in row:
                row["early_gbit"] = self._engine.done(job.index) * job.sent_gbit

    def _start_jobs(self, departed: Sequence[RunningJob]) -> None:
        """Start waiting jobs that can be placed, and plan again if any arrived or departed."""
        state, arrived = self._state, dict[int, None]()
        for job, placement in self._choose_starts():
            state.add(RunningJob(job, placement))
            arrived[job.index] = None
        self._queue = [index for index in self._queue if index not in arrived]
        if not arrived and not departed:
            return
        before = self._reroute(arrived, departed)
        plan = self._policy.plan(state, [*arrived, *before], [*departed, *before.values()])
        instructions = {instruction.index: instruction for instruction in plan}
        for index in arrived:
            self._start_job(instructions.pop(index, JobInstruction(index)))
        for instruction in instructions.values():
            self._instruct(instruction)
        self._count_groups(arrived, departed)
        if self._move_cost_ms is not None and not self._queue:  # else others need the free GPUs
            self._migrate(self._move_cost_ms)

    def _count_groups(self, arrived: Collection[int], departed: Sequence[RunningJob]) -> None:
        """Count the groups of jobs around those that arrived or departed."""
        for members in self._state.changed_groups(arrived, departed):
            if len(members) < 2 or not self._policy.has_contention:
                continue
            key = frozenset(members)
            fits, was_gated = self._groups.get(key, (None, False))
            if fits is None:
                periods = {index: self._state.running[index].slots for index in members}
                problem = FeasibilityProblem(group_instance(self._state, periods))
                named = {str(index): period for index, period in periods.items()}
                fits = FeasibilityTest(problem, quick=True).decide(named).offsets is not None
            is_gated = any(map(self._engine.is_gated, members))
            self._groups[key] = fits, was_gated or is_gated

    def _choose_starts(self) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs that start now, and where; first those whose nodes are given."""
        policy, state = self._policy, self._state
        if not state.room.free_gpus:
            return

        def urgency(job: TrainingJob) -> tuple[int, float, int]:
            return -job.spec.priority, job.spec.arrival_s, job.index

        waiting = sorted((self._jobs[index] for index in self._queue), key=urgency)
        for job in waiting:
            nodes = job.spec.nodes
            if nodes is not None and state.room.holds(nodes, job.spec.each):
                placement = policy.place_on_nodes(job, nodes, state)
                if policy.admits(job, placement, state):
                    yield job, placement
        yield from policy.choose_starts([job for job in waiting if job.spec.nodes is None], state)

    def _reroute(
        self, arrived: Collection[int], departed: Sequence[RunningJob]
    ) -> dict[int, RunningJob]:
        """Change the paths of flows where the policy says so; return what jobs that ran had."""
        placed = [*departed, *(self._state.running[index] for index in arrived)]
        links = {link for job in placed for link in job.placement.links}
        before = dict[int, RunningJob]()
        for name, placement in self._policy.choose_paths(self._state, links).items():
            index = self._indices[name]
            replaced = self._replace(index, placement)
            if index not in arrived:  # it runs
                before[index] = replaced
                self._engine.reroute(index, placement.links, self._isolated_pattern(index))
        return before

    def _migrate(self, cost_ms: float) -> None:
        """Migrate running jobs where the policy says so, and plan again around them."""
        before = dict[int, RunningJob]()
        for name, placement in self._policy.choose_migrations(self._state, cost_ms).items():
            index = self._indices[name]
            before[index] = self._replace(index, placement)
            start, pattern = self._state.now + cost_ms, self._isolated_pattern(index)
            self._engine.move(index, placement.links, at=start, pattern=pattern)
            self._rows[index]["moves"] = self._rows[index].get("moves", 0) + 1
        if before:
            for instruction in self._policy.plan(self._state, [*before], [*before.values()]):
                self._instruct(instruction)

    def _replace(self, index: int, placement: Placement) -> RunningJob:
        """Change the placement of a job in the state; return the job as it was."""
        before = self._state.remove(index)
        self._state.add(RunningJob(before.job, placement))
        return before

    def _start_job(self, instruction: JobInstruction) -> None:
        index, now = instruction.index, self._state.now
        self._rows[index]["start_s"] = now / 1000
        self._engine.classify(index, instruction.traffic_class)
        self._engine.start_job(
            index,
            self._state.running[index].placement.links,
            at=max(now, instruction.start_ms),
            pattern=self._isolated_pattern(index),
            windows=instruction.windows,
        )

    def _isolated_pattern(self, index: int) -> Iteration:
        """Record where a job now is; return its iteration there."""
        running = self._state.running[index]
        pattern = running.profile if self._policy.has_contention else running.job.best
        self._rows[index] |= {
            "nodes": len(set(running.placement.nodes)),
            "racks": running.placement.racks,
            "alone_ms": pattern.isolated_ms,
        }
        return pattern

    def _instruct(self, instruction: JobInstruction) -> None:
        index = instruction.index
        expected = self._engine.planned_start(index)
        if instruction.windows is not None and instruction.start_ms > expected:
            self._engine.count_rephasing(index)
        self._engine.classify(index, instruction.traffic_class)
        self._engine.set_windows(index, instruction.windows, instruction.start_ms)


def simulate_schedule(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    *,
    stretch_limit: Fraction | None = None,
    iterations: int,
    conditions: Conditions | None = None,
    seed: int = 0,
    enforce: bool = True,
    trace: bool = False,
) -> SimulationResult:
    """Simulate the jobs of an instance with the windows of a schedule.

    Parameters
    ----------
    instance, offsets, stretch
        The problem and the answer, in slots; a job that `stretch` does not name is not stretched.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.
    iterations
        Number of iterations of each job.
    conditions, seed
        Disturbances.
    enforce
        Whether jobs keep their windows, as one group; otherwise they only start in them.
    trace
        Whether the rates on all links are traced.

    Raises
    ------
    InputError
        If the schedule is not one of the instance, or `iterations` is not positive.
    """
    conditions = conditions or Conditions()
    if iterations < 1:
        raise InputError(f"iterations: must be at least 1, got {quote(iterations)}")
    stretch = stretch or {}
    for fault in assignment_violations(instance, offsets, stretch, stretch_limit):
        raise InputError(str(fault))
    engine = Engine(
        {link.name: link.capacity for link in instance.links},
        EngineJob.of_instance(instance, iterations),
        sharing=conditions.sharing or instance.network,
        conditions=conditions,
        seed=seed,
        watched=[link.name for link in instance.links] if trace else (),
    )
    for index, job in enumerate(instance.jobs):
        start = float(offsets[job.name] * instance.slot_ms)
        period = float((job.period + stretch.get(job.name, 0)) * instance.slot_ms)
        windows = WindowSchedule(period) if enforce else None
        engine.start_job(index, job.links, at=start, windows=windows)
    end = math.inf if conditions.horizon_s is None else 1000.0 * conditions.horizon_s
    ends_s = dict[int, float]()
    while len(ends_s) < len(instance.jobs) and (finished := engine.run(end)) is not None:
        ends_s[finished] = engine.now / 1000
    return _finish(instance, engine, ends_s)


def simulate_result(result: Result, *, iterations: int, seed: int = 0) -> SimulationResult:
    """Simulate the jobs of a result as it was evaluated: gated jobs as gates hold them.

    Parameters
    ----------
    iterations
        Length, in periods of the longest job.
    seed
        Seed of computing times, clocks and beginnings of ungated jobs.

    Raises
    ------
    InputError
        If `iterations` or `seed` is invalid.
    """
    for name, number, least in (("iterations", iterations, 1), ("seed", seed, 0)):
        if type(number) is not int or not least <= number <= _MAX_NUMBER:
            must = f"must be an integer from {least} to 1e9"
            raise InputError(f"{name}: {must}, got {quote(number)}")
    instance, schedule = result.instance, result.schedule
    simulator = PlanSimulator(instance, [seed], network=schedule.network, periods=iterations)
    return _finish(instance, simulator.run_once(Plan.of(instance, schedule)))


def _finish(
    instance: Instance, engine: Engine, ends_s: Mapping[int, float] = FrozenDict()
) -> SimulationResult:
    """Return the tables of jobs of an instance that began at 0; some of them ended."""
    rows: list[JobRow] = [
        {
            "job": job.name,
            "priority": job.weight,
            "ideal_ms": float(instance.best_ms(job)),
            "alone_ms": isolated_iteration(instance, job).isolated_ms,
            "arrival_s": 0.0,
            "start_s": 0.0,
        }
        for job in instance.jobs
    ]
    for index, end_s in ends_s.items():
        rows[index]["end_s"] = end_s
    used_ms = {link: engine.now for job in instance.jobs for link in job.links}
    return make_result(engine, rows, used_ms=used_ms)
