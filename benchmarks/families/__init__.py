"""The families of instances: one module each, with its generator and its cases."""

from __future__ import annotations

from benchmarks.families import (
    allocation,
    coprime,
    dense,
    fabric,
    kept,
    paper,
    single,
    weights,
)
from benchmarks.families.family import Case, Family

FAMILIES = {
    module.FAMILY.name: module.FAMILY
    for module in (single, paper, dense, fabric, coprime, weights, kept, allocation)
}

__all__ = ["FAMILIES", "Case", "Family"]
