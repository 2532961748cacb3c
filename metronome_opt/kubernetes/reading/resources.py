"""GPUs, cores and memory: needs of pods, and resources of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from operator import add

from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.scenario.nodes import Resources

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)

_MEBI = 2**20
_MAX_AMOUNT = 2**40  # of any resource, as in scenarios


def needs_of(spec: Field) -> Resources:
    """Return the resources that a pod needs on its node, as Kubernetes counts them.

    These are the needs of its containers together with its sidecars, or of an init container
    together with the sidecars before it, whichever is more. Requests of the pod as a whole count
    instead, and its overhead is added. A limit without a request counts as a request. Source: the
    page "Effective Pod requests and limits" of the Kubernetes documentation.
    """
    running, needs = [Fraction(0)] * 3, [Fraction(0)] * 3
    for container in (spec / "initContainers").items():
        starting = list(map(add, running, _requests(container)))
        needs = list(map(max, needs, starting))
        if (container / "restartPolicy").value == "Always":
            running = starting
    for container in (spec / "containers").items():
        running = list(map(add, running, _requests(container)))
    needs = list(map(max, needs, running))
    if needs[0] % 1:
        spec.fail(f"its containers ask for {float(needs[0]):g} GPUs; GPUs are whole")
    stated, limited = (_amounts(spec.at(f"resources.{name}")) for name in ("requests", "limits"))
    whole = [first or own or last for first, own, last in zip(stated, needs, limited, strict=True)]
    return _resources(spec, map(add, whole, _amounts(spec / "overhead")), math.ceil)


def has_of(node: Field) -> Resources:
    """Return the resources of a node for pods, rounded down."""
    has = node.at("status.allocatable") or node.at("status.capacity")
    return _resources(has, _amounts(has), math.floor)


def neediest(needs: Iterable[Resources]) -> Resources:
    """Return the maximum of each resource."""
    gpus, cores, memory = map(max, zip(*(need.vector for need in needs), strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)


def _requests(container: Field) -> list[Fraction]:
    return _amounts(container.at("resources.requests"), container.at("resources.limits"))


def _amounts(*fields: Field) -> list[Fraction]:
    """Return GPUs, thousandths of a core and MiB, by the first field that states them."""

    def amount(name: str) -> Fraction:
        stated = next(filter(None, (field / name for field in fields)), None)
        return Fraction(0) if stated is None else stated.quantity()

    if not any(fields):
        return [Fraction(0)] * 3
    gpus = sum(map(amount, GPU_RESOURCES), Fraction(0))
    return [gpus, 1000 * amount("cpu"), amount("memory") / _MEBI]


def _resources(
    field: Field, amounts: Iterable[Fraction], rounded: Callable[[Fraction], int]
) -> Resources:
    gpus, millicores, mebibytes = map(rounded, amounts)
    if max(gpus, millicores, mebibytes) > _MAX_AMOUNT:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {_MAX_AMOUNT}")
    return Resources(gpus=gpus, cpu_millicores=millicores, memory_mib=mebibytes)
