"""The textbook time-indexed form of the rotation problem, without any back end.

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
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import quote
from metronome_opt.problem.instance import Job
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance
from metronome_opt.solvers.layers import MAX_ENTRIES, Layer, ModelTooLargeError, layers_of

if TYPE_CHECKING:
    from metronome_opt.solvers.programs import Program

_LARGEST = 2**62


class TimeIndexed:
    """The time-indexed form of an instance.

    Parameters
    ----------
    compiled
        The instance with its shared links; units are those of `CompiledInstance`.

    Attributes
    ----------
    title, scale, base, cutoff
        As in `programs.Form`.
    """

    base = 0
    cutoff: int | None = None

    def __init__(self, compiled: CompiledInstance) -> None:
        self._compiled = compiled
        self._instance = compiled.instance
        self._common = math.lcm(*(link.hyperperiod for link in compiled.links))
        self.scale = Fraction(compiled.unit, self._common)
        self.title = f"{compiled.instance.name}: contention = objective * {self.scale}"
        self._check_size()
        worst = sum(
            self._common
            * link.weights[-1]
            * max(layer.largest for layer in layers_of(compiled, link))
            for link in compiled.links
        )
        if worst >= _LARGEST:
            raise ModelTooLargeError(
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
            raise ModelTooLargeError(
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
