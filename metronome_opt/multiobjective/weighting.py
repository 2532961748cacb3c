"""Layered costs: sums of them are the contention of the same jobs with other weights.

Contention counts what is unserved by layers, ``sum_k (v_k - v_{k-1}) * excess of the jobs of weight
at least v_k``. Latency is the lowest layer alone, divided by all traffic, and what a priority class
and those above it do not get is one layer. Whatever counts a layer by a price, contention does with
a weight ``f(w)`` that does not fall with w; so a sum of such costs is the contention with weights
``sum of price * f(w)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance

LAYERED = ("contention", "latency")
_CLASS = "unserved of weight >= "


@dataclass(frozen=True)
class Weighting:
    """A sum of layered costs, as a contention.

    Attributes
    ----------
    instance
        The jobs with other weights.
    scale
        ``contention of it * scale = the sum``.
    """

    instance: Instance
    scale: Fraction


def class_cost(weight: int) -> str:
    """Return the name of what jobs of a weight and above do not get in all, in Mbit/s."""
    return f"{_CLASS}{weight}"


def is_layered(name: str) -> bool:
    """Return whether an objective, or a class cost, counts layers of contention."""
    return name in LAYERED or name.startswith(_CLASS)


def weight_in(name: str, weight: int) -> int:
    """Return the weight that makes a job's contention its share of a layered cost."""
    if name == "contention":
        return weight
    if name == "latency":
        return 1
    return int(weight >= int(name.removeprefix(_CLASS)))


def weigh(instance: Instance, prices: Mapping[str, Fraction]) -> Weighting:
    """Return a sum of layered costs as the contention of an instance.

    Parameters
    ----------
    prices
        Of a Mbit/s of each cost, by name, not negative. That of latency is for what is late,
        Mbit/s, not for its share of the traffic.
    """
    for name, price in prices.items():
        if price < 0:
            raise InputError(f"weights.{name}: must not be negative, got {price}")
    common = math.lcm(1, *(price.denominator for price in prices.values()))
    whole = {name: int(price * common) for name, price in prices.items()}
    shared = math.gcd(*whole.values()) or 1
    jobs = (
        job.model_copy(
            update={
                "weight": sum(
                    price // shared * weight_in(name, job.weight) for name, price in whole.items()
                )
            }
        )
        for job in instance.jobs
    )
    return Weighting(instance.replace(jobs=tuple(jobs)), Fraction(shared, common))
