"""The state of one run: the incumbent, the bound and the trajectory, within a budget of time.

A solver is a function that takes a `SolverRun`. It offers schedules, raises the bound and returns
when it is done or when `stopped` says so; values are computed here, from the offsets alone, so
that no back end is believed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction

from metronome_opt.errors import SolverError, quote
from metronome_opt.pools import Pool
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.problem.stopping import StoppingRule
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    Ints,
    SharedLink,
    compile_instance,
)
from metronome_opt.solvers.kernels.jobs import contention, state_of


class SolverRun(Budget):
    """One run of a solver on an instance.

    A solver of your own needs `instance`, `offer`, `raise_bound`, `stopped`, `remaining`, `seed`,
    `threads` and perhaps `best`, `incumbent`, `bound` and `notes`.

    Parameters
    ----------
    instance
        The problem.
    time_limit
        Seconds from now on, model building included; None for no limit.
    seed, threads
        For the solver's random choices, for its threads.
    callback
        Receives every new incumbent and bound, perhaps from a thread of the back end; returns True
        to end the run.
    parent
        What this is a part of.
    rounds
        Maximum number of rounds of proofs and improvements of `auto` with one thread; 0 for good
        schedules without proofs, None for as many as there is time for.
    pool
        Where subtrees of proofs are searched; None for this process alone.

    Attributes
    ----------
    best, incumbent
        The best offsets so far, in the order of the jobs, and their contention.
    bound
        The best lower bound of the contention so far.
    notes
        Lines for people.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        time_limit: float | None,
        seed: int,
        threads: int,
        callback: StoppingRule | None = None,
        parent: Budget | None = None,
        rounds: int | None = None,
        name: str = "",
        pool: Pool | None = None,
    ) -> None:
        super().__init__(time_limit, parent=parent)
        self._lock = threading.Lock()
        self._callback = callback
        self._built_at: float | None = None
        self._name = name
        self._is_part = isinstance(parent, SolverRun)
        self._had_no_time = time_limit == 0
        self.instance = instance
        self.seed = seed
        self.threads = threads
        self.rounds = rounds
        self.pool = pool
        self.best: tuple[int, ...] | None = None
        self.incumbent: Fraction | None = None
        self.bound: Fraction | None = None
        self.found_by = ""
        self.bound_by = ""
        self.notes: list[str] = []
        self.trajectory: list[ProgressEvent] = []
        self.compiled: CompiledInstance = compile_instance(instance)

    # ---------------------------------------------------------------- time

    def built(self) -> None:
        """Say that the model is made: what comes now is solving."""
        if self._built_at is None:
            self._built_at = self.elapsed

    @property
    def build_s(self) -> float:
        """Seconds until the model was made; 0 for a solver that makes none."""
        return self._built_at or 0.0

    @property
    def stopped(self) -> bool:
        """Return True if the solver has to return now."""
        return self.proved or super().stopped

    @property
    def barred(self) -> bool:
        """Return True if not even greedy may go on; the whole problem needs any time above 0."""
        if self._is_part:
            return self.stopped
        return self._had_no_time or super().stop is StopReason.INTERRUPTED

    @property
    def stop(self) -> StopReason:
        """Reason why the run ended."""
        ended = super().stop
        return StopReason.PROVED if self.proved and ended is not StopReason.INTERRUPTED else ended

    @property
    def proved(self) -> bool:
        """Return True if the bound meets the incumbent."""
        return self.incumbent is not None and self.incumbent == self.bound

    # ---------------------------------------------------------------- parts

    def subproblem(self, instance: Instance) -> SolverRun:
        """Return a search on a part of the problem, within the time that is left to this one."""
        return SolverRun(
            instance,
            time_limit=self.remaining,
            seed=self.seed,
            threads=self.threads,
            parent=self,
        )

    def offsets_by_job(self) -> dict[str, int] | None:
        """Return the best offsets by job name, None if there are none."""
        if self.best is None:
            return None
        return dict(zip((job.name for job in self.instance.jobs), self.best, strict=True))

    # ---------------------------------------------------------------- progress

    def value(self, offsets: Sequence[int] | Ints) -> Fraction:
        """Return what a schedule costs: its contention, in weight * Mbit/s."""
        return contention(self.compiled, state_of(self.compiled, offsets))

    def offer(self, offsets: Sequence[int] | Ints, source: str | None = None) -> Fraction:
        """Take a complete schedule, keep it if it is the best so far, return its value.

        Parameters
        ----------
        offsets
            Slots from 0 to the period less 1, in the order of the instance's jobs; of a job with a
            fixed offset that one.
        source
            The method that found it; the solver itself by default.

        Raises
        ------
        SolverError
            If it is no schedule of the instance.
        """
        self._check(offsets)
        source = source or self._name
        value = self.value(offsets)
        with self._lock:
            if self.incumbent is None or value < self.incumbent:
                self.best = tuple(map(int, offsets))
                self.incumbent = value
                self.found_by = source
                bound, bound_by = self.bound, self.bound_by
                refuted = bound is not None and bound > value
                if refuted:
                    self.bound = None
                # Contention is never negative: reaching 0 is a proof.
                if value == 0:
                    self.bound, self.bound_by = Fraction(0), "no contention"
                self._record(source)
                if refuted:
                    raise SolverError(_false_bound(bound, bound_by, value))
        self.iterate()
        return value

    def raise_bound(self, bound: Fraction, source: str | None = None) -> None:
        """Take a proved lower bound of the contention; one that is no better is ignored.

        So is 0, which says nothing: contention is never negative.
        """
        try:
            bound = Fraction(bound)
        except (TypeError, ValueError, OverflowError):
            raise SolverError(f"{quote(bound)} was given as a lower bound") from None
        with self._lock:
            if bound <= (self.bound or 0):
                return
            if self.incumbent is not None and bound > self.incumbent:
                raise SolverError(_false_bound(bound, source or self._name, self.incumbent))
            self.bound, self.bound_by = bound, source or self._name
            self._record(self.bound_by)

    def raise_to_loads(self) -> None:
        """Raise the bound to what the loads of the links prove, which takes no time."""
        loads = (load_bound(self.compiled, link) for link in self.compiled.links)
        self.raise_bound(sum(loads, Fraction(0)), "loads")

    def _check(self, offsets: Sequence[int] | Ints) -> None:
        jobs = self.instance.jobs
        try:
            count = len(offsets)
        except TypeError:
            raise SolverError(f"{quote(offsets)} was offered for {len(jobs)} jobs") from None
        if count != len(jobs):
            raise SolverError(f"{count} offsets were offered for {len(jobs)} jobs")
        for job, offset in zip(jobs, offsets, strict=True):
            fixed = job.fixed_offset
            try:
                sound = 0 <= offset < job.period and int(offset) == offset
            except (TypeError, ValueError):
                sound = False
            if not sound or fixed not in (None, offset):
                raise SolverError(f"{quote(offset)} was offered for {job.name}, which is no offset")

    def _record(self, source: str) -> None:
        event = ProgressEvent(self.elapsed_of_run, self.incumbent, self.bound, source)
        self.trajectory.append(event)
        if self._callback is not None and self._callback(event):
            self.end(StopReason.RULE)


def _false_bound(bound: Fraction | None, source: str, value: Fraction) -> str:
    return f"{source}: {bound} is no lower bound: a schedule of contention {value} was offered"


def load_bound(compiled: CompiledInstance, link: SharedLink) -> Fraction:
    """Return a lower bound of the contention of a link, in weight * Mbit/s.

    What is unserved is convex in demand, so in each layer it is on average at least what it would
    be if the demand were spread evenly (Jensen's inequality).
    """
    users = [
        (compiled.instance.jobs[job], flows)
        for job, flows in zip(link.jobs, link.flows, strict=True)
    ]
    means = [(job.weight, Fraction(flows * job.volume, job.period)) for job, flows in users]
    total = Fraction(0)
    for weight, coefficient in zip(link.weights, link.coefficients, strict=True):
        demand = sum(mean for other, mean in means if other >= weight)
        total += coefficient * max(Fraction(0), demand - link.capacity * compiled.unit)
    return total
