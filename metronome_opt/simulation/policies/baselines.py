"""Baseline policies: spread, nearest, reserved bandwidth, CASSINI, no contention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction

from metronome_opt.allocation.candidates import network_cost
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.paths import place_on_nodes, reroute_jobs, route
from metronome_opt.engine.conditions import Growth
from metronome_opt.engine.jobs import LatePolicy, WindowSchedule
from metronome_opt.scenario.cluster import Routing
from metronome_opt.scenario.flows import Placement
from metronome_opt.simulation.policies.common_periods import ContentionGroup
from metronome_opt.simulation.state import JobInstruction, RunningJob, SimState, TrainingJob
from metronome_opt.solvers.cassini import shifts_of
from metronome_opt.verify import evaluate

_CANDIDATES = 12  # placements that CASSINI evaluates

_DRIFT = Fraction(1, 20)  # of a period: deviation that CASSINI does not correct
_EFFORT = 1  # rounds of its search on each link


class SpreadPolicy:
    """Spreads tasks by free GPUs, ignores the network, and shifts no job; the base of all others.

    Attributes
    ----------
    contends
        Whether its jobs share links.
    growth
        Growth of the shares of bursts; None if hosts share links as the conditions say.
    routing
        How flows find their spine, where there are several; None for as the cluster says.
    """

    contends = True
    growth: Growth | None = None
    routing: Routing | None = None

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement of a waiting job, where most GPUs are free; None to let it wait."""
        return state.room.spread(job.demand)

    def starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the waiting jobs that start now, and where; the most urgent ones wait first.

        Each is in the state before the next one is asked for. None of them names its nodes.
        """
        for job in waiting:
            placement = self.place(job, state) if job.work.gpus <= state.room.free_gpus else None
            if placement is not None:
                yield job, self.routed(job, placement, state)

    def routed(self, job: TrainingJob, placement: Placement, state: SimState) -> Placement:
        """Return a placement whose flows have paths of their own, where these can be chosen."""
        is_chosen = state.room.cluster.routing == "chosen"
        return route(self.occupancy(state), job.demand, placement) if is_chosen else placement

    def candidates(self, job: TrainingJob, state: SimState, limit: int = 64) -> list[Placement]:
        """Return placements of a job, with paths."""
        found = state.room.candidates(job.demand, limit)
        if state.room.cluster.routing == "chosen":
            occupancy = self.occupancy(state)
            found = [route(occupancy, job.demand, placement) for placement in found]
        return found

    def at_nodes(self, job: TrainingJob, nodes: Sequence[str], state: SimState) -> Placement:
        """Return the placement of a job where the scenario says, with paths."""
        if state.room.cluster.spines == 1:
            return state.room.placement(nodes, job.demand)
        return place_on_nodes(self.occupancy(state), job.demand, nodes, job.work.paths)

    def reroutes(self, state: SimState, links: Set[str]) -> Mapping[str, Placement]:
        """Return jobs whose flows take other paths now that jobs on some links changed."""
        cluster = state.room.cluster
        if cluster.routing != "chosen":
            return {}
        between = [{*cluster.uplinks[rack], *cluster.downlinks[rack]} for rack in cluster.uplinks]
        near = sorted(link for rack in between if rack & links for link in rack)
        there = {index: None for link in near for index in state.users.get(link, ())}
        jobs = (state.running[index].job for index in there)
        free = [job.name for job in jobs if job.work.paths is None]
        return reroute_jobs(self.occupancy(state), free)

    def occupancy(self, state: SimState) -> Occupancy:
        """Return the jobs that run, with losses of pairs on links that they share."""
        running = (
            (replace(each.job.demand, length_ms=state.left_ms(index)), each.placement)
            for index, each in state.running.items()
        )
        return Occupancy.of_running(state.room, running, state.sharing)

    def admits(self, job: TrainingJob, placement: Placement, state: SimState) -> bool:  # noqa: ARG002
        """Return True if a waiting job may run where the scenario says; there are GPUs for it."""
        return True

    def plan(
        self,
        state: SimState,  # noqa: ARG002
        came: Sequence[int],  # noqa: ARG002
        left: Sequence[RunningJob],  # noqa: ARG002
    ) -> list[JobInstruction]:
        """Return instructions to jobs after some came, which run already, and some left.

        A job that came and has no order begins at once; others without an order go on as before.
        """
        return []

    def moves(self, state: SimState, cost_ms: float) -> Mapping[str, Placement]:  # noqa: ARG002
        """Return where running jobs are moved, by name, in order, if a move costs so much."""
        return {}


class Nearest(SpreadPolicy):
    """Puts tasks on the fewest racks, then the fewest nodes; knows nothing of traffic.

    So topology-aware scheduling in Kueue, Volcano and KAI places them.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the nearest placement."""
        return state.room.nearest(job.demand)


class Balanced(SpreadPolicy):
    """Puts tasks where links are overbooked least at peak; of equals, on the nearest nodes.

    It balances load and knows nothing of time.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement whose most booked link is overbooked least."""
        load, capacities = state.load(), state.room.cluster.capacities

        def cost(placement: Placement) -> tuple[Fraction, tuple[int, ...]]:
            peak = RunningJob(job, placement).peak
            booked = (
                Fraction(load[link] + flows * peak, capacities[link])
                for link, flows in placement.links.items()
            )
            return max([Fraction(1), *booked]), network_cost(placement)

        return min(self.candidates(job, state), key=cost, default=None)


class Ideal(SpreadPolicy):
    """The default on a network without contention: a bound for all policies."""

    contends = False


class Exclusive(SpreadPolicy):
    """Reserves the bandwidth of every burst for as long as its job runs.

    A job waits until its peak fits on all links that it crosses. Of the placements where it does,
    the one of minimum network cost is taken: few racks, then few nodes.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement of minimum network cost whose bandwidth is free."""
        load, places = state.load(), self.candidates(job, state)
        fitting = [place for place in places if _fits(job, place, state, load)]
        return min(fitting, key=network_cost, default=None)

    def admits(self, job: TrainingJob, placement: Placement, state: SimState) -> bool:
        """Return True if its bandwidth is free."""
        return _fits(job, placement, state, state.load())


def _fits(job: TrainingJob, placement: Placement, state: SimState, load: Mapping[str, int]) -> bool:
    peak = RunningJob(job, placement).peak
    return all(
        load.get(link, 0) + flows * peak <= state.room.cluster.capacities[link]
        for link, flows in placement.links.items()
    )


class Cassini(SpreadPolicy):
    """Takes the placement whose links are most compatible on average, and shifts the jobs there.

    Of the candidates those whose affinity graph has a cycle are discarded, unless all have one. The
    mean is over the links that the new job shares. No priorities.

    A shift delays one iteration of a job, which then runs freely. A job that is early by more than
    5 % of its period waits; one that is late by more gets a new shift, as do all that were shifted
    with it. They wait once, by as much as it is late. If it waited for its next turn instead, that
    would cost nearly an iteration each time. Jobs run without shifts if the best ones leave more
    than 5 % of the capacity of a link unserved: there, they would be late in every iteration.

    Source: CASSINI (arXiv 2308.00852), algorithm 2. Not of the paper: the candidates, which are
    those of the other policies here; idle time for common periods; the limit of what shifts leave
    unserved; and at most 24 jobs around the new one are shifted together.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the most compatible candidate."""
        return min(
            self.candidates(job, state, _CANDIDATES),
            key=lambda placement: (
                *_incompatibility(job, placement, state),
                network_cost(placement),
            ),
            default=None,
        )

    def plan(
        self, state: SimState, came: Sequence[int], left: Sequence[RunningJob]
    ) -> list[JobInstruction]:
        """Shift all jobs around those that came, and around those that left."""
        orders = []
        for members in state.changed(came, left):
            shifted = _shift(state, ContentionGroup.of(state, members))
            orders += [shifted.get(i, JobInstruction(i, None, state.can_start(i))) for i in members]
        return orders


def _shift(state: SimState, rivals: ContentionGroup | None) -> dict[int, JobInstruction]:
    """Return orders by index; none if shifts do not make the jobs compatible."""
    if rivals is None:
        return {}
    shifts = shifts_of(rivals.instance, _EFFORT).offsets
    reports = evaluate(rivals.instance, shifts).links
    if any(report.score < 1 - _DRIFT for report in reports if report.jobs > 1):
        return {}
    group = state.engine.new_group()
    orders = {}
    jobs = rivals.instance.jobs
    starts = rivals.starts([shifts[job.name] for job in jobs])
    for member, job, start in zip(rivals.members, jobs, starts, strict=True):
        period_ms = float(job.period * rivals.instance.slot_ms)
        slot = WindowSchedule(period_ms, float(_DRIFT * period_ms), LatePolicy.HOLD, group)
        orders[member] = JobInstruction(member, slot, start)
    return orders


def _incompatibility(
    job: TrainingJob, placement: Placement, state: SimState
) -> tuple[bool, Fraction]:
    """Return whether the affinity graph has a cycle, and 1 minus the mean score."""
    if not placement.links:
        return False, Fraction(0)
    with state.trying(RunningJob(job, placement)):
        rivals = ContentionGroup.of(state, state.around(job.index))
        if rivals is None or job.index not in rivals.members:
            return False, Fraction(0)
        shifts = shifts_of(rivals.instance, _EFFORT)
        mine = rivals.instance.jobs[rivals.members.index(job.index)].links
        reports = evaluate(rivals.instance, shifts.offsets).links
        scores = [report.score for report in reports if report.name in mine and report.jobs > 1]
        mean = sum(scores, Fraction(0)) / len(scores) if scores else Fraction(1)
        return shifts.closing > 0, 1 - mean
