"""Short way to build an instance in Python, link by link and job by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from metronome_opt.api import allocate, pareto, solve
from metronome_opt.errors import check_type, quote
from metronome_opt.problem.instance import INSTANCE_FORMAT, Instance
from metronome_opt.problem.result import Result

if TYPE_CHECKING:
    from metronome_opt.solvers.multiobjective.front import Front


class Model:
    """Rotation problem to which links and jobs are added; `instance` checks it.

    >>> model = Model(slot_ms=5).add_link("uplink", capacity=50_000)
    >>> for name in ("a", "b"):
    ...     model = model.add_job(name, period=40, phases=[(0, 12, 40_000)], links=["uplink"])
    >>> dict(model.solve("greedy").offsets)
    {'a': 0, 'b': 20}

    Parameters
    ----------
    name
        Of the instance.
    slot_ms
        Length of a slot, ms.
    """

    def __init__(self, name: str = "model", *, slot_ms: int = 1) -> None:
        self._fields = {"format": INSTANCE_FORMAT, "name": name, "slot_ms": slot_ms}
        self._links: list[dict[str, Any]] = []
        self._jobs: list[dict[str, Any]] = []

    def add_link(self, name: str, *, capacity: float) -> Self:
        """Add a link that carries a whole number of Mbit/s, such as 1e5; return the model."""
        self._links.append({"name": name, "capacity": capacity})
        return self

    def add_job(
        self,
        name: str,
        *,
        period: int,
        phases: Sequence[tuple[int, int, int] | Mapping[str, int]],
        links: Mapping[str, int] | Sequence[str],
        **fields: float | None,
    ) -> Self:
        """Add a job; return the model.

        Parameters
        ----------
        period
            Length of one iteration, slots.
        phases
            The bursts of one iteration: start and length in slots, rate in Mbit/s.
        links
            Flows on each link, by name; or names of links, each with one flow.
        fields
            Further fields of `metronome_opt.Job`, such as ``weight=4``.
        """
        keys = ("start", "length", "rate")
        check_type(f"{quote(name)}: phases", phases, Iterable)
        check_type(f"{quote(name)}: links", links, Iterable)
        for link in links:
            check_type(f"{quote(name)}: links", link, str)
        bursts = [
            _named(keys, phase) if isinstance(phase, list | tuple) else phase for phase in phases
        ]
        flows = links if isinstance(links, Mapping) else dict.fromkeys(links, 1)
        job = {"name": name, "period": period, "phases": bursts, "links": dict(flows), **fields}
        self._jobs.append(job)
        return self

    def instance(self) -> Instance:
        """Return the instance.

        Raises
        ------
        InputError
            If anything is missing, of the wrong type, out of range or inconsistent.
        """
        document = {**self._fields, "links": self._links, "jobs": self._jobs}
        return Instance.from_dict(document)

    def solve(self, *arguments: Any, **options: Any) -> Result:
        """Choose offsets; the arguments are those of `metronome_opt.solve`."""
        return solve(self.instance(), *arguments, **options)

    def allocate(self, *arguments: Any, **options: Any) -> Result:
        """Choose gated jobs, periods and offsets; as `metronome_opt.allocate`."""
        return allocate(self.instance(), *arguments, **options)

    def pareto(self, *arguments: Any, **options: Any) -> Front:
        """Find non-dominated schedules; the arguments are those of `metronome_opt.pareto`."""
        return pareto(self.instance(), *arguments, **options)


def _named(keys: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    """Return values by name; those without a name are refused as unknown fields."""
    return dict(zip((*keys, *map(str, range(len(keys), len(values)))), values, strict=False))
