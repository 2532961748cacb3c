"""Simulation of a scenario under a policy, or of a schedule of an instance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from metronome_opt.allocation.candidates import FreeResources
from metronome_opt.engine.conditions import Conditions
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob, WindowSchedule, isolated_iteration
from metronome_opt.errors import InputError, quote
from metronome_opt.plugins import guarded
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.simulation.bounds import TimeBound
from metronome_opt.simulation.policies import find_policy, is_plugin
from metronome_opt.simulation.result import Facts, SimulationResult, make_run
from metronome_opt.simulation.state import (
    JobInstruction,
    RunningJob,
    SimState,
    TrainingJob,
    training_jobs,
)
from metronome_opt.verify.evaluation import assignment_violations


def simulate(
    scenario: Scenario,
    policy: str,
    *,
    seed: int = 0,
    conditions: Conditions | None = None,
    watch: Sequence[str] = (),
    bounded: bool = False,
) -> SimulationResult:
    """Simulate the jobs of a scenario under a policy.

    Whenever a job comes or leaves, waiting jobs are considered by priority, then by arrival; each
    that the policy places starts. A job whose nodes the scenario gives runs there.

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
    bounded
        Whether to bound the time that jobs run at the places where they do.

    Raises
    ------
    InputError
        If a job has no number of iterations, can never run, or a link to watch is not known.
    """
    conditions = conditions or Conditions()
    with guarded(f"policy {policy}", foreign=is_plugin(policy)):
        return _Simulation(scenario, policy, seed, conditions, watch, bounded=bounded).run()


class _Simulation:
    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        seed: int,
        conditions: Conditions,
        watch: Sequence[str],
        *,
        bounded: bool,
    ) -> None:
        for index, node in enumerate(scenario.cluster.nodes):
            if len(node.rails) > 1:
                raise InputError(
                    f"cluster.nodes[{index}].interfaces: {len(node.rails)} of them, and policies "
                    "know nodes with one; write an interface that carries what they do together"
                )
        self._policy = find_policy(policy, seed)
        self._bound = TimeBound() if bounded and self._policy.contends else None
        if self._policy.routing is not None:
            routed = scenario.cluster.model_copy(update={"routing": self._policy.routing})
            scenario = scenario.model_copy(update={"cluster": routed})
        self._room = FreeResources(scenario.cluster)
        self._gpus = self._room.free_gpus
        self._jobs = training_jobs(scenario)
        for link in watch:
            if link not in scenario.cluster.capacities:
                raise InputError(f"watch: there is no link {quote(link)}")
        sharing = conditions.sharing or scenario.cluster.network
        between = max(1, len(scenario.cluster.links) - len(scenario.cluster.nodes))
        ways = scenario.cluster.depth * (1 if scenario.cluster.spines == 1 else between)
        self._engine = Engine(
            scenario.cluster.capacities,
            [
                EngineJob(
                    job.name,
                    job.best,
                    job.work.priority,
                    job.iterations,
                    job.work.workers + min(ways * job.work.workers, between),
                )
                for job in self._jobs
            ],
            sharing=sharing,
            conditions=conditions,
            seed=seed,
            watched=watch,
            contends=self._policy.contends,
            growth=self._policy.growth,
        )
        self._state = SimState(self._room, self._engine, sharing, conditions.jitter)
        self._facts: list[Facts] = [
            {
                "job": job.name,
                "model": job.model,
                "priority": job.work.priority,
                "workers": job.work.workers,
                "ideal_ms": job.best_ms,
                "arrival_s": 1000 * job.work.arrival_s / 1000,  # rounded as times in ms are
                "moves": 0,
            }
            for job in self._jobs
        ]
        cost_s = conditions.move_cost_s
        self._move_cost_ms = None if cost_s is None else 1000 * cost_s
        self._queue: list[int] = []
        self._end_ms = math.inf if conditions.horizon_s is None else 1000 * conditions.horizon_s
        self._used_since: dict[str, float] = {}
        self._used: Counter[str] = Counter()

    def run(self) -> SimulationResult:
        """Process all arrivals and departures."""
        arrivals = sorted(
            ((1000 * job.work.arrival_s, job.index) for job in self._jobs), reverse=True
        )
        left: list[RunningJob] = []
        changed = False
        while arrivals or self._queue or self._state.running:
            now = self._engine.now
            while arrivals and arrivals[-1][0] <= now:
                self._queue.append(arrivals.pop()[1])
                changed = True
            if changed:
                self._state.now = now
                self._change(left)
                if self._bound is not None:
                    self._bound.change(self._state, now)
            left, changed = [], False
            arrival = arrivals[-1][0] if arrivals else math.inf
            until = min(self._end_ms, arrival)
            if self._queue and not arrivals and not self._state.running:
                job = self._jobs[self._queue[0]]
                raise InputError(
                    f"jobs[{job.index}]: {job.name} finds no room even in an empty cluster; "
                    f"there are {self._gpus} GPUs, its {job.work.workers} workers need "
                    f"{job.work.gpus}"
                )
            index = self._engine.run(until)
            if index is not None:
                left, changed = [self._leave(index)], True
            if self._engine.now >= self._end_ms:
                break
        for link in list(self._used_since):
            self._stop_using(link)
        bound = None
        if self._bound is not None:
            self._bound.change(self._state, self._engine.now)
            bound = self._bound.mean
        return make_run(self._engine, self._facts, used_ms=self._used, bound=bound)

    # ------------------------------------------------------------------ arrivals and departures

    def _change(self, left: Sequence[RunningJob]) -> None:
        """Start waiting jobs that can be placed, and plan again if any came or left."""
        came: dict[int, None] = {}
        for job, placement in self._starts():
            self._state.add(RunningJob(job, placement))
            came[job.index] = None
        self._queue = [index for index in self._queue if index not in came]
        if not came and not left:
            return
        before = self._reroute(came, left)
        changed, gone = [*came, *before], [*left, *before.values()]
        orders = {order.index: order for order in self._policy.plan(self._state, changed, gone)}
        for index in came:
            self._enter(index, orders.get(index, JobInstruction(index, None, self._engine.now)))
        for index, order in orders.items():
            if index not in came:
                self._redirect(order)
        if self._move_cost_ms is not None and not self._queue:  # else the room is spoken for
            self._move(self._move_cost_ms)

    def _reroute(self, came: Collection[int], left: Sequence[RunningJob]) -> dict[int, RunningJob]:
        """Let flows take other paths where the policy says so; return what jobs that ran had."""
        placed = [*left, *(self._state.running[index] for index in came)]
        links = {link for each in placed for link in each.placement.links}
        indices, before = {job.name: job.index for job in self._jobs}, dict[int, RunningJob]()
        for name, placement in self._policy.reroutes(self._state, links).items():
            index = indices[name]
            if index in came:  # it has not begun
                self._state.remove(index)
            else:
                before[index] = self._free(index)
            self._state.add(RunningJob(self._jobs[index], placement))
            if index not in came:
                self._engine.reroute(index, placement.links, self._settle(index))
        return before

    def _move(self, cost_ms: float) -> None:
        """Move running jobs where the policy says so, and plan again around them."""
        before: dict[int, RunningJob] = {}
        indices = {job.name: job.index for job in self._jobs}
        for name, placement in self._policy.moves(self._state, cost_ms).items():
            index = indices[name]
            before[index] = self._free(index)
            self._state.add(RunningJob(self._jobs[index], placement))
            start, pattern = self._engine.now + cost_ms, self._settle(index)
            self._engine.move(index, placement.links, at=start, pattern=pattern)
            self._facts[index]["moves"] += 1
        if before:
            for order in self._policy.plan(self._state, list(before), list(before.values())):
                self._redirect(order)

    def _urgency(self, index: int) -> tuple[int, float, int]:
        work = self._jobs[index].work
        return -work.priority, work.arrival_s, index

    def _starts(self) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs that start now, and where; first those whose nodes are given."""
        if not self._room.free_gpus:
            return
        waiting = [self._jobs[index] for index in sorted(self._queue, key=self._urgency)]
        for job in waiting:
            if job.work.nodes is not None and self._room.holds(job.work.nodes, job.work.each):
                placement = self._policy.at_nodes(job, job.work.nodes, self._state)
                if self._policy.admits(job, placement, self._state):
                    yield job, placement
        free = [job for job in waiting if job.work.nodes is None]
        yield from self._policy.starts(free, self._state)

    def _enter(self, index: int, order: JobInstruction) -> None:
        self._facts[index]["start_s"] = self._engine.now / 1000
        pattern = self._settle(index)
        start = max(self._engine.now, order.start_ms)
        links = self._state.running[index].placement.links
        self._engine.classify(index, order.traffic_class)
        self._engine.enter(index, links, at=start, pattern=pattern, slot=order.slot)

    def _settle(self, index: int) -> Iteration:
        """Take down where a job now is; return its iteration there."""
        job, placement = self._state.running[index].job, self._state.running[index].placement
        alone = job.pattern(placement.transport) if self._policy.contends else job.best
        self._facts[index] |= {
            "nodes": len(set(placement.nodes)),
            "racks": placement.racks,
            "alone_ms": alone.isolated_ms,
        }
        for link in placement.links:
            self._used_since.setdefault(link, self._engine.now)
        return alone

    def _redirect(self, order: JobInstruction) -> None:
        expected = self._engine.will_start(order.index)
        if order.slot is not None and order.start_ms > expected:
            self._engine.count_rephasing(order.index)
        self._engine.classify(order.index, order.traffic_class)
        self._engine.assign(order.index, order.slot, order.start_ms)

    def _leave(self, index: int) -> RunningJob:
        self._facts[index]["end_s"] = self._engine.now / 1000
        return self._free(index)

    def _free(self, index: int) -> RunningJob:
        """Take a job away from where it is."""
        placed = self._state.remove(index)
        for link in placed.placement.links:
            if not self._state.users[link]:
                self._stop_using(link)
        return placed

    def _stop_using(self, link: str) -> None:
        self._used[link] += self._engine.now - self._used_since.pop(link)  # type: ignore[assignment]


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
    """Simulate the jobs of an instance with the slots of a schedule.

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
        Whether jobs keep their slots, as one group; otherwise they only start in them.
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
    slot_ms = instance.slot_ms
    runners = EngineJob.of_instance(instance, iterations)
    capacities = {link.name: link.capacity for link in instance.links}
    engine = Engine(
        capacities,
        runners,
        sharing=conditions.sharing or instance.network,
        conditions=conditions,
        seed=seed,
        watched=[link.name for link in instance.links] if trace else (),
    )
    facts: list[Facts] = []
    for index, job in enumerate(instance.jobs):
        start = float(offsets[job.name] * slot_ms)
        period = float((job.period + stretch.get(job.name, 0)) * slot_ms)
        engine.enter(
            index, job.links, at=start, slot=WindowSchedule(period_ms=period) if enforce else None
        )
        alone = isolated_iteration(instance, job).isolated_ms
        facts.append(
            {
                "job": job.name,
                "priority": job.weight,
                "ideal_ms": float(instance.best_ms(job)),
                "alone_ms": alone,
                "arrival_s": 0.0,
                "start_s": 0.0,
            }
        )
    end = math.inf if conditions.horizon_s is None else 1000.0 * conditions.horizon_s
    for _ in runners:
        finished = engine.run(end)
        if finished is None:
            break
        facts[finished]["end_s"] = engine.now / 1000
    return make_run(
        engine, facts, used_ms={link: engine.now for job in instance.jobs for link in job.links}
    )
