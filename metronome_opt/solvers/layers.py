"""The weight layers of a link, which models state slot by slot, and how large models may be."""

from __future__ import annotations

from typing import NamedTuple

from metronome_opt.errors import InputError
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, SharedLink

MAX_ENTRIES = 20_000_000
"""Coefficients of the largest model that fits the memory of an ordinary machine."""


class ModelTooLargeError(InputError):
    """A model of an instance is too large, in size or in its numbers."""


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
        peak = 0
        for job, flows, class_ in zip(link.jobs, link.flows, link.classes, strict=True):
            if class_ >= number:
                record = compiled.instance.jobs[job]
                rates = tuple(flows * (p.rate // compiled.unit) for p in record.phases)
                members.append((job, record.period, rates))
                peak += max(rates)
        layers.append(Layer(number, coefficient, tuple(members), max(0, peak - link.capacity)))
    return layers
