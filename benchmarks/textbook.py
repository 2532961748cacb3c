"""The time-indexed models as one writes them down first, to compare with.

They are solvers of a benchmark: ``--solvers auto,benchmarks/textbook.py:cpsat``.

Choose one offset per job, ``sum_o x[j, o] = 1``. Burst p of job j is on in slot u of its period,
``z[j, p, u] = sum of x[j, o] over the offsets that put it there``. In every slot of every link's
hyperperiod and in every weight layer the excess is at least demand minus capacity:
``e[l, k, t] >= sum_(j in layer) a_jl b_p z[j, p, t mod T_j] - C_l``, ``e >= 0``. Minimise
``sum (L / H_l) (v_k - v_(k-1)) e[l, k, t]``, L the least common multiple of the hyperperiods.

`models/formulations/rotation.md` states the same as text, with the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Job
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import greedy
from metronome_opt.solvers.backends import solve_cpsat, solve_highs
from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    SharedLink,
    TooLargeError,
)
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram, Program
from metronome_opt.solvers.run import SolverRun
from metronome_opt.solvers.strong_form import MAX_ENTRIES

_LARGEST = 2**62


class Layer(NamedTuple):
    """Demand on a link of a weight class and those above: members (job, period, rates)."""

    number: int
    coefficient: int
    members: tuple[tuple[int, int, tuple[int, ...]], ...]
    largest: int


def layers_of(compiled: CompiledInstance, link: SharedLink) -> list[Layer]:
    """Return the layers of a link; `largest` is by how much one may exceed the capacity."""
    layers = []
    for number, coefficient in enumerate(link.coefficients):
        members = []
        for job, flows, class_ in zip(link.jobs, link.flows, link.classes, strict=True):
            if class_ >= number:
                record = compiled.instance.jobs[job]
                rates = tuple(flows * (p.rate // compiled.unit) for p in record.phases)
                members.append((job, record.period, rates))
        peak = sum(max(rates) for *_, rates in members)
        layers.append(Layer(number, coefficient, tuple(members), max(0, peak - link.capacity)))
    return layers


class TimeIndexed:
    """The time-indexed form of an instance.

    Parameters
    ----------
    compiled
        The instance with its shared links; units are those of `CompiledInstance`.

    Attributes
    ----------
    scale, base, cutoff
        As in `programs.Form`.
    """

    base = 0
    cutoff: int | None = None

    def __init__(self, compiled: CompiledInstance) -> None:
        self._compiled = compiled
        self._instance = compiled.instance
        self._common = math.lcm(*(link.hyperperiod for link in compiled.links))
        self.scale = Fraction(compiled.unit, self._common)
        self._check_size()
        worst = sum(
            self._common
            * link.weights[-1]
            * max(layer.largest for layer in layers_of(compiled, link))
            for link in compiled.links
        )
        if worst >= _LARGEST:
            raise TooLargeError(
                f"the objective over {self._common} slots may reach {quote(worst)}, which does not "
                "fit 64-bit integers; use greedy or local, or coarser numbers"
            )

    def state(self, program: Program, stopped: Callable[[], bool] = bool) -> None:
        """State it in a program, or as much of it as there is time for."""
        bursting: list[list[list[Any]]] = []
        for index, job in enumerate(self._instance.jobs):
            program.choose(index, self.offsets(job))
            bursting.append([])
            for phase in range(len(job.phases)):
                slots = []
                for slot in range(job.period):
                    if slot % 16 == 0 and stopped():
                        return
                    choice = [program.choices[index][o] for o in self.bursting(job, phase, slot)]
                    name = f"{index}_{phase}_{slot}"
                    slots.append(program.any_of(choice, f"z_{name}", f"on_{name}"))
                bursting[index].append(slots)
        costs = []
        for number, (index, layer, slot) in enumerate(self._rows()):
            if number % 256 == 0 and stopped():
                return
            link, name = self._compiled.links[index], f"l{index}_k{layer.number}_t{slot}"
            excess = program.variable(f"e_{name}", 0, layer.largest)
            terms = [
                (bursting[job][phase][slot % period], rate)
                for job, period, rates in layer.members
                for phase, rate in enumerate(rates)
            ]
            program.add([*terms, (excess, -1)], "<=", link.capacity, f"over_{name}")
            costs.append((excess, layer.coefficient * (self._common // link.hyperperiod)))
        program.minimise(costs)

    def decode(self, chosen: Mapping[int, int]) -> list[int]:
        """Return the schedule of the offsets by index of the jobs."""
        return [chosen[index] for index in range(len(self._instance.jobs))]

    def _check_size(self) -> None:
        """Refuse a model that would not fit the memory of an ordinary machine."""
        entries = sum(
            len(self.offsets(job)) * sum(phase.length for phase in job.phases)
            for job in self._instance.jobs
        ) + sum(
            link.hyperperiod * len(layer.members)
            for link in self._compiled.links
            for layer in layers_of(self._compiled, link)
        )
        if entries > MAX_ENTRIES:
            raise TooLargeError(
                f"a time-indexed model of this instance has {entries} entries, more than "
                f"{MAX_ENTRIES}; coarsen the slots, or use greedy or local"
            )

    def offsets(self, job: Job) -> range:
        """Return the offsets that a job may take."""
        if job.fixed_offset is not None:
            return range(job.fixed_offset, job.fixed_offset + 1)
        return range(job.period)

    def bursting(self, job: Job, phase: int, slot: int) -> Iterator[int]:
        """Yield the offsets at which burst `phase` of a job is on in `slot` of its period."""
        burst = job.phases[phase]
        allowed = self.offsets(job)
        for x in range(burst.start, burst.end):
            offset = (slot - x) % job.period
            if offset in allowed:
                yield offset

    def _rows(self) -> Iterator[tuple[int, Layer, int]]:
        """Yield (index of the link, layer, slot); a layer that cannot exceed it has none."""
        for index, link in enumerate(self._compiled.links):
            for layer in layers_of(self._compiled, link):
                if layer.largest and layer.coefficient:
                    yield from ((index, layer, slot) for slot in range(link.hyperperiod))


def cpsat(search: SolverRun) -> None:
    """Solve the time-indexed CP-SAT model."""
    greedy.unshifted(search)
    form = TimeIndexed(search.compiled)
    program = CpsatProgram(form)
    form.state(program, lambda: search.stopped)
    if _in_time(search):
        solve_cpsat(search, program)


def milp(search: SolverRun) -> None:
    """Solve the time-indexed MILP with HiGHS."""
    greedy.unshifted(search)
    form = TimeIndexed(search.compiled)
    program = MilpProgram(form)
    form.state(program, lambda: search.stopped)
    # Writing it for its back end takes about as long as making it did.
    late = search.remaining is not None and search.remaining < search.elapsed
    if _in_time(search) and not late:
        solve_highs(search, program)


def _in_time(search: SolverRun) -> bool:
    search.built()
    if search.stopped:
        search.end(StopReason.TIME_LIMIT)
    return not search.stopped
