"""The rotation problem for MiniZinc: the stored model, followed by the data of one instance.

``python -m benchmarks.minizinc FILE`` prints it.

A solver behind MiniZinc knows integers only, Gecode those of 32 bits. The objective is therefore
an integer multiple of the contention, and the fraction that leads back is stated beside it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt import load
from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.scenario.workload import data_folder

LARGEST = 2**31 - 2
"""The largest integer that Gecode represents."""


@dataclass(frozen=True)
class _Scaling:
    """Scaling of the contention of an instance to a small integer.

    With demands counted in the unit of their link and weights in `weight_unit`, the contention is
    ``scale * sum_l factors[l] * sum_t kappa_l(t)``, t over the hyperperiod of l.

    Attributes
    ----------
    links
        The links that some choice of offsets can overload; the others never cost anything.
    units
        For each of them, the common divisor of its capacity and of all demands on it, Mbit/s.
    weight_unit
        The common divisor of the weights of all jobs.
    factors
        For each of the links, what a unit of unserved demand costs in one slot.
    scale
        The contention that one unit of the objective stands for.
    """

    links: tuple[Link, ...]
    units: tuple[int, ...]
    weight_unit: int
    factors: tuple[int, ...]
    scale: Fraction


def scaling(instance: Instance) -> _Scaling:
    """Return the scaling with the smallest integers that is exact for `instance`."""
    links = tuple(link for link in instance.links if _peak(instance, link) > link.capacity)
    units = tuple(_unit(instance, link) for link in links)
    weight_unit = math.gcd(*(job.weight for job in instance.jobs)) or 1
    costs = [
        Fraction(unit * weight_unit, instance.hyperperiods[link.name])
        for unit, link in zip(units, links, strict=True)
    ]
    scale = Fraction(
        math.gcd(*(cost.numerator for cost in costs)) or 1,
        math.lcm(*(cost.denominator for cost in costs)),
    )
    factors = tuple(int(cost / scale) for cost in costs)
    return _Scaling(links, units, weight_unit, factors, scale)


def to_minizinc(instance: Instance) -> str:
    """Return a MiniZinc model of `instance`, complete with its data.

    ``minizinc --solver gecode FILE`` prints one JSON object a line, the best last: ``offsets``
    and ``wait`` by job name, ``objective``, ``numerator`` and ``denominator``. The contention is
    ``objective * numerator / denominator``. Offsets are chosen, stretch is not.

    Raises
    ------
    InputError
        If a number of the data, or a bound of the objective, exceeds 32 bits.
    """
    scaled = scaling(instance)
    _check_size(instance, scaled)
    model = (data_folder() / "formulations" / "rotation.mzn").read_text(encoding="utf-8")
    return f"{model}\n{_data(instance, scaled)}"


# ------------------------------------------------------------------ the scale


def _peak(instance: Instance, link: Link) -> int:
    """Return the demand on `link` if all its jobs burst at once, in Mbit/s."""
    users = (instance.jobs[index] for index in instance.jobs_on[link.name])
    return sum(job.links[link.name] * job.peak for job in users)


def _unit(instance: Instance, link: Link) -> int:
    users = (instance.jobs[index] for index in instance.jobs_on[link.name])
    demands = (job.links[link.name] * phase.rate for job in users for phase in job.phases)
    return math.gcd(link.capacity, *demands)


def _check_size(instance: Instance, scaled: _Scaling) -> None:
    """Refuse values that exceed `LARGEST`, the intermediate sums of a solver included."""
    for index, job in enumerate(instance.jobs):
        for field, value in (
            ("period", job.period),
            ("weight", job.weight),
            ("ready", job.ready),
            *((f"phases[{k}].rate", phase.rate) for k, phase in enumerate(job.phases)),
            *((f"links.{link}", flows) for link, flows in job.links.items()),
        ):
            _refuse_above(f"jobs[{index}].{field}", value)
    bound = 0
    for link, unit, factor in zip(scaled.links, scaled.units, scaled.factors, strict=True):
        peak = _peak(instance, link)
        _refuse_above(f"links: the peak demand on {quote(link.name)}", peak)
        heaviest = max(instance.jobs[index].weight for index in instance.jobs_on[link.name])
        cost = (peak - link.capacity) // unit * (heaviest // scaled.weight_unit)
        bound += factor * cost * instance.hyperperiods[link.name]
    for what, value in (
        ("the bound of the scaled objective", bound),
        ("the numerator of its scale", scaled.scale.numerator),
        ("the denominator of its scale", scaled.scale.denominator),
    ):
        _refuse_above(f"document: {what}", value)


def _refuse_above(what: str, value: int) -> None:
    if value > LARGEST:
        raise InputError(
            f"{what} is {quote(value)}, above the {LARGEST} that MiniZinc's Gecode can hold; round "
            "rates, capacities and weights to multiples of a larger unit, or coarsen the slots"
        )


# ------------------------------------------------------------------ the data


def _data(instance: Instance, scaled: _Scaling) -> str:
    jobs, links = instance.jobs, scaled.links
    phases = [(number, phase) for number, job in enumerate(jobs, 1) for phase in job.phases]
    flows = [job.links.get(link.name, 0) for job in jobs for link in links]
    table = {
        "n_jobs": str(len(jobs)),
        "n_links": str(len(links)),
        "n_phases": str(len(phases)),
        "name": _list(_text(job.name) for job in jobs),
        "period": _list(job.period for job in jobs),
        "weight": _list(job.weight for job in jobs),
        "ready": _list(job.ready for job in jobs),
        "choice": _list(map(_choice, jobs)),
        "owner": _list(number for number, _ in phases),
        "start": _list(phase.start for _, phase in phases),
        "length": _list(phase.length for _, phase in phases),
        "rate": _list(phase.rate for _, phase in phases),
        "capacity": _list(link.capacity for link in links),
        "flows": f"array2d(JOB, LINK, {_list(flows)})",
        "hyperperiod": _list(instance.hyperperiods[link.name] for link in links),
        "unit": _list(scaled.units),
        "weight_unit": str(scaled.weight_unit),
        "factor": _list(scaled.factors),
        "numerator": str(scaled.scale.numerator),
        "denominator": str(scaled.scale.denominator),
    }
    names = ", ".join(link.name for link in links) or "none"
    head = (
        "% ---------------------------------------------------------------- data\n\n"
        f"% Instance {instance.name}, slots of {instance.slot_ms} ms.\n"
        f"% Links, in order: {names}.\n"
        "% Links that cannot be overloaded cost nothing and are left out.\n"
    )
    return f"{head}\n" + "".join(f"{field} = {value};\n" for field, value in table.items())


def _choice(job: Job) -> str:
    """Return the set of offsets that `job` may take."""
    return f"0..{job.period - 1}" if job.fixed_offset is None else f"{{{job.fixed_offset}}}"


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _text(name: str) -> str:
    """Return `name` as a MiniZinc string; printable text needs no other escapes than JSON's."""
    return json.dumps(name, ensure_ascii=False)


if __name__ == "__main__":
    sys.stdout.write(to_minizinc(load(sys.argv[1]).instance))
