"""Demand on links, slot by slot, which figures of a schedule show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from operator import index

import numpy as np
from numpy.typing import NDArray

from metronome_opt.allocation.arguments import Problem
from metronome_opt.api import load
from metronome_opt.errors import InputError, first_few, quote
from metronome_opt.output.figures.style import format_gbps, shorten
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.result import Result
from metronome_opt.solvers.demand import slot_rates
from metronome_opt.solvers.presolve.extend import stretched
from metronome_opt.verify import evaluate

# A timeline with more cannot be read; it shows the beginning and says so.
_MAX_BURSTS = 40  # of one job
_MAX_SLOTS = 200_000

Ints = NDArray[np.int64]
_LARGEST = 2**62  # Mbit/s; sums stay within 64-bit integers


@dataclass(frozen=True)
class Drawing:
    """A schedule as it is drawn: the instance at its stretched periods, offsets, contention.

    Attributes
    ----------
    contention
        Contention of each link, in weight * Mbit/s.
    """

    instance: Instance
    offsets: Mapping[str, int]
    contention: Mapping[str, Fraction]

    def demand(self, link: Link, slots: int | None = None) -> Ints:
        """Return the demand on a link in the first `slots` slots, or in its hyperperiod.

        In Mbit/s, of shape (jobs, slots); the order is that of `jobs_of`. An `InputError` if the
        numbers are too large for 64-bit integers.
        """
        jobs = jobs_of(self.instance, link)
        slots = self.instance.hyperperiods[link.name] if slots is None else slots
        most = max(link.capacity, sum(job.links[link.name] * job.peak for job in jobs))
        if most > _LARGEST:
            raise InputError(
                f"link {quote(link.name)}: {quote(most)} Mbit/s is too much to draw; at most "
                f"{_LARGEST}"
            )
        rates = np.zeros((len(jobs), slots), dtype=np.int64)
        for row, job in zip(rates, jobs, strict=True):
            one = slot_rates(job.phases, job.period, self.offsets[job.name])
            row[:] = np.resize(one, slots) * job.links[link.name]
        return rates


def draw_schedule(
    problem: Problem,
    offsets: Mapping[str, int] | None = None,
    stretch: Mapping[str, int] | None = None,
    stretch_limit: Fraction | None = None,
) -> Drawing:
    """Check and evaluate a schedule; see `evaluate`.

    Without arguments it is that of a result, or has jobs that start when ready. An `InputError` if
    an offset or a stretch is missing, of an unknown job, out of range or not an integer.
    """
    instance = find_instance(problem)
    if isinstance(problem, Result):
        offsets = problem.offsets if offsets is None else offsets
        stretch = problem.stretch if stretch is None else stretch
        stretch_limit = stretch_limit or problem.schedule.stretch_limit
    whole = _integers("offsets", instance.unshifted if offsets is None else offsets)
    idle = _integers("stretch", stretch or {})
    evaluation = evaluate(instance, whole, idle, stretch_limit=stretch_limit)
    if any(idle.values()):
        instance = stretched(instance, {**dict.fromkeys(instance.unshifted, 0), **idle})
    return Drawing(instance, whole, {link.name: link.contention for link in evaluation.links})


def find_instance(problem: Problem) -> Instance:
    """Return the instance of a problem."""
    if isinstance(problem, Result):
        return problem.instance
    return problem if isinstance(problem, Instance) else load(problem).instance


def _integers(field: str, values: Mapping[str, int]) -> dict[str, int]:
    whole = {}
    for job, value in values.items():
        try:
            whole[job] = index(value)
        except TypeError:
            raise InputError(f"{field}.{job}: must be an integer, got {quote(value)}") from None
    return whole


# ------------------------------------------------------------------ links


def find_link(instance: Instance, name: str) -> Link:
    """Return the link called `name`; an `InputError` if there is none."""
    links = {link.name: link for link in instance.links}
    if name not in links:
        known = first_few(list(map(quote, links))) or "none"
        raise InputError(f"link: there is no link {quote(name)}; there are {known}")
    return links[name]


def jobs_of(instance: Instance, link: Link) -> tuple[Job, ...]:
    """Return the jobs of a link in the order in which it serves them: by weight, descending."""
    jobs = (instance.jobs[index] for index in instance.jobs_on[link.name])
    return tuple(sorted(jobs, key=lambda job: -job.weight))


def drawn_slots(instance: Instance, link: Link) -> int:
    """Return the number of slots of its hyperperiod that a figure of a link can show."""
    limits = [_MAX_BURSTS * job.period // len(job.phases) for job in jobs_of(instance, link)]
    return max(1, min(instance.hyperperiods[link.name], _MAX_SLOTS, *limits))


def format_ms(instance: Instance, slots: float) -> str:
    """Return a number of slots as a time."""
    return f"{slots * instance.slot_ms:,.10g} ms"


def link_title(instance: Instance, link: Link) -> str:
    """Return the title of a figure of one link."""
    hyperperiod, slots = instance.hyperperiods[link.name], drawn_slots(instance, link)
    whole = f"hyperperiod {format_ms(instance, hyperperiod)}"
    cut = "" if slots == hyperperiod else f", of which the first {format_ms(instance, slots)}"
    return f"Link {shorten(link.name, 60)}: capacity {format_gbps(link.capacity)}, {whole}{cut}"


def job_labels(instance: Instance, link: Link) -> list[str]:
    """Return the legend texts of the jobs of a link."""
    labels = []
    for job in jobs_of(instance, link):
        flows = job.links[link.name]
        many = f", {flows} flows" if flows > 1 else ""
        labels.append(f"{shorten(job.name)} (weight {job.weight}{many})")
    return labels


# ------------------------------------------------------------------ slots


def find_runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (start, length) of each stretch in which `mask`, of shape (slots,), is true."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
