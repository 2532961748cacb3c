"""The base class of policies, and baselines: spread, nearest, reserved bandwidth, CASSINI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from typing import Any

from metronome_opt.allocation.candidates import network_cost
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.paths import place_on_nodes, reroute_jobs, route
from metronome_opt.engine.conditions import Growth
from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.scenario.cluster import Routing
from metronome_opt.scenario.flows import Placement
from metronome_opt.simulation.policies.common_periods import ContentionGroup
from metronome_opt.simulation.state import JobInstruction, RunningJob, SimState, TrainingJob
from metronome_opt.solvers.cassini import shifts_of
from metronome_opt.verify import evaluate

_CANDIDATES = 12  # placements that CASSINI evaluates

_DRIFT = Fraction(1, 20)  # of a period: deviation that CASSINI does not correct
_EFFORT = 1  # rounds of its search on each link


class Policy:
    """Decides where jobs run, when they start, and which windows they have.

    A subclass chooses placements in `place`, or in `starts` for all waiting jobs together.

    Attributes
    ----------
    has_contention
        Whether its jobs share links.
    growth
        Growth of the shares of bursts; None if hosts share links as the conditions say.
    routing
        How flows find their spine, where there are several; None for as the cluster says.
    """

    has_contention = True
    growth: Growth | None = None
    routing: Routing | None = None

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement of a waiting job; None to let it wait."""
        raise NotImplementedError

    def choose_starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the waiting jobs that start now, and where, the most urgent job first.

        A job is in the state before the next one is asked for. The jobs name no nodes.
        """
        for job in waiting:
            placement = self.place(job, state) if job.spec.gpus <= state.room.free_gpus else None
            if placement is not None:
                yield job, self.route(job, placement, state)

    def route(self, job: TrainingJob, placement: Placement, state: SimState) -> Placement:
        """Return a placement of a job that does not run, with paths.

        Parameters
        ----------
        placement
            The nodes of the job.

        Returns
        -------
        Placement
            As given where paths cannot be chosen.
        """
        is_chosen = state.room.cluster.routing == "chosen"
        return route(self.occupancy(state), job, placement) if is_chosen else placement

    def candidates(self, job: TrainingJob, state: SimState, limit: int = 64) -> list[Placement]:
        """Return `limit` placements of a job at most, with paths."""
        found = state.room.candidates(job, limit)
        if state.room.cluster.routing == "chosen":
            occupancy = self.occupancy(state)
            found = [route(occupancy, job, placement) for placement in found]
        return found

    def place_on_nodes(self, job: TrainingJob, nodes: Sequence[str], state: SimState) -> Placement:
        """Return the placement of a job on given nodes, by the stated paths or else chosen ones."""
        if state.room.cluster.spines == 1:
            return state.room.placement(nodes, job)
        return place_on_nodes(self.occupancy(state), job, nodes, job.spec.paths)

    def choose_paths(self, state: SimState, links: Set[str]) -> Mapping[str, Placement]:
        """Return other paths for flows of jobs, by name, now that jobs on some links changed."""
        cluster = state.room.cluster
        if cluster.routing != "chosen":
            return {}
        between = [{*cluster.uplinks[rack], *cluster.downlinks[rack]} for rack in cluster.uplinks]
        near = sorted(link for rack in between if rack & links for link in rack)
        there = {index: None for link in near for index in state.users.get(link, ())}
        jobs = (state.running[index].job for index in there)
        free = [job.name for job in jobs if job.spec.paths is None]
        return reroute_jobs(self.occupancy(state), free)

    def occupancy(self, state: SimState, **terms: Any) -> Occupancy:
        """Return the jobs that run, with losses of pairs on links that they share."""
        running = (
            (self.request(placed.job, state.left_ms(index)), placed.placement)
            for index, placed in state.running.items()
        )
        return Occupancy.of_running(state.room, running, **{"network": state.sharing, **terms})

    def request(self, job: TrainingJob, left_ms: float | None) -> TrainingJob:
        """Return a job as it is known, with its remaining time."""
        return replace(job, length_ms=left_ms)

    def admits(self, job: TrainingJob, placement: Placement, state: SimState) -> bool:  # noqa: ARG002
        """Return True if a waiting job may run where the scenario says; there are GPUs for it."""
        return True

    def plan(
        self,
        state: SimState,  # noqa: ARG002
        arrived: Sequence[int],  # noqa: ARG002
        departed: Sequence[RunningJob],  # noqa: ARG002
    ) -> list[JobInstruction]:
        """Return instructions to jobs after some arrived and some departed.

        Parameters
        ----------
        arrived
            Indices of jobs, which run already; a job with other links has arrived and departed.
        departed
            The jobs as they ran.

        Returns
        -------
        list
            Without an instruction a job that arrived begins at once, and another one goes on.
        """
        return []

    def choose_migrations(self, state: SimState, cost_ms: float) -> Mapping[str, Placement]:  # noqa: ARG002
        """Return new placements of running jobs, by name, in order, if a migration costs this."""
        return {}


class SpreadPolicy(Policy):
    """Spreads tasks by free GPUs, ignores the network, and shifts no job."""

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return a placement on the nodes where most GPUs are free."""
        return state.room.spread(job)


class Nearest(Policy):
    """Puts tasks on the fewest racks, then the fewest nodes; knows nothing of traffic.

    Topology-aware scheduling in Kueue, Volcano and KAI places tasks in this way.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the nearest placement."""
        return state.room.nearest(job)


class Ideal(SpreadPolicy):
    """Places tasks as `SpreadPolicy`, on a network without contention.

    No policy gains more by avoiding contention; where iterations depend on placements, others may.
    """

    has_contention = False


class Exclusive(Policy):
    """Reserves the bandwidth of every burst for as long as its job runs.

    A job waits until its peak fits on all links that it crosses, and takes the placement of minimum
    network cost where it does: few racks, then few nodes.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement of minimum network cost whose bandwidth is free."""
        load = state.peak_load()
        fitting = (p for p in self.candidates(job, state) if _booked(job, p, state, load) <= 1)
        return min(fitting, key=network_cost, default=None)

    def admits(self, job: TrainingJob, placement: Placement, state: SimState) -> bool:
        """Return True if its bandwidth is free."""
        return _booked(job, placement, state, state.peak_load()) <= 1


def _booked(
    job: TrainingJob, placement: Placement, state: SimState, load: Mapping[str, int]
) -> Fraction:
    """Return the largest peak demand on a link over its capacity, with one more job."""
    peak, capacities = RunningJob(job, placement).peak, state.room.cluster.capacities
    booked = (
        Fraction(load.get(link, 0) + flows * peak, capacities[link])
        for link, flows in placement.links.items()
    )
    return max(booked, default=Fraction(0))


class Cassini(Policy):
    """Takes the placement whose links are most compatible on average, and shifts the jobs there.

    Candidates whose affinity graph has a cycle are discarded, unless all have one. The mean is over
    the links that the new job shares. Priorities play no part.

    A shift delays one iteration of a job, which then runs freely. A job that is early by more than
    5 % of its period waits; one that is late by more gets a new shift, as do all jobs that were
    shifted with it. They wait once, by as much as it is late. If it waited for its next window
    instead, that would cost nearly an iteration each time. Jobs run without shifts if the best
    shifts leave more than 5 % of the capacity of a link unserved: there, jobs would be late in
    every iteration.

    Source: CASSINI (arXiv 2308.00852), algorithm 2. Not of the paper: the candidates, which all
    policies here share; idle time for common periods; the limit of what shifts leave unserved; and
    at most 24 jobs around the new one are shifted together.
    """

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the most compatible candidate."""

        def cost(placement: Placement) -> tuple[bool, Fraction, tuple[int, ...]]:
            return *_incompatibility(job, placement, state), network_cost(placement)

        return min(self.candidates(job, state, _CANDIDATES), key=cost, default=None)

    def plan(
        self, state: SimState, arrived: Sequence[int], departed: Sequence[RunningJob]
    ) -> list[JobInstruction]:
        """Shift all jobs around those that arrived, and around those that departed."""
        instructions: dict[int, JobInstruction] = {}
        for members in state.changed_groups(arrived, departed):
            instructions |= {index: JobInstruction(index) for index in members}
            instructions |= _shift(state, ContentionGroup.of(state, members))
        return list(instructions.values())


def _shift(state: SimState, group: ContentionGroup | None) -> dict[int, JobInstruction]:
    """Return instructions by index; none if shifts do not make the jobs compatible."""
    if group is None:
        return {}
    shifts = shifts_of(group.instance, _EFFORT).offsets
    reports = evaluate(group.instance, shifts).links
    if any(report.score < 1 - _DRIFT for report in reports if report.jobs > 1):
        return {}
    together = state.engine.new_group()
    jobs = group.instance.jobs
    starts = group.starts([shifts[job.name] for job in jobs])
    periods = [float(job.period * group.instance.slot_ms) for job in jobs]
    return {
        index: JobInstruction(index, WindowSchedule(ms, float(_DRIFT * ms), together), start)
        for index, ms, start in zip(group.members, periods, starts, strict=True)
    }


def _incompatibility(
    job: TrainingJob, placement: Placement, state: SimState
) -> tuple[bool, Fraction]:
    """Return whether the affinity graph has a cycle, and 1 minus the mean score."""
    if not placement.links:
        return False, Fraction(0)
    state.add(RunningJob(job, placement))
    group = ContentionGroup.of(state, state.group_of(job.index))
    state.remove(job.index)
    if group is None or job.index not in group.members:
        return False, Fraction(0)
    shifts = shifts_of(group.instance, _EFFORT)
    own = group.instance.jobs[group.members.index(job.index)].links
    reports = evaluate(group.instance, shifts.offsets).links
    scores = [report.score for report in reports if report.name in own and report.jobs > 1]
    return shifts.closing > 0, 1 - sum(scores, Fraction(0)) / len(scores) if scores else Fraction(0)
