"""GPUs, cores and memory: what pods need, and what nodes have for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from metronome_opt.kubernetes.reading.objects import Field, Found
from metronome_opt.scenario.cluster import Resources

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)

_MEBI = 2**20
_MOST = 2**40  # of each resource, as in scenarios


def needs_of(spec: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod needs: its containers together, or the neediest of those before them.

    What is limited and not requested counts as requested, as in Kubernetes.
    """

    def amounts(kind: str) -> list[list[Fraction]]:
        each = [container / "resources" for container in (spec / kind).items()]
        return [_amounts(one / "requests", one / "limits", gpu_resources) for one in each]

    together = map(sum, zip([0] * 3, *amounts("containers"), strict=True))
    most = list(map(max, zip(together, *amounts("initContainers"), strict=True)))
    if most[0] % 1:
        spec.fail(f"its containers ask for {float(most[0]):g} GPUs; GPUs are whole")
    return _resources(spec, most, math.ceil)


def container_needs(resources: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod of one container needs."""
    needs = _amounts(resources / "requests", resources / "limits", gpu_resources)
    if needs[0] % 1:
        resources.fail(f"asks for {float(needs[0]):g} GPUs; GPUs are whole")
    return _resources(resources, needs, math.ceil)


def has_of(node: Found, gpu_resources: Sequence[str]) -> Resources:
    """Return what a node has for pods, rounded down."""
    has = node / "status" / "allocatable" or node / "status" / "capacity"
    return _resources(has, _amounts(has, has, gpu_resources), math.floor)


def _amounts(first: Field, otherwise: Field, gpu_resources: Sequence[str]) -> list[Fraction]:
    """Return GPUs, thousandths of a core and MiB."""

    def amount(name: str) -> Fraction:
        field = first / name or otherwise / name
        return field.quantity() if field else Fraction(0)

    gpus = sum(map(amount, gpu_resources), Fraction(0))
    return [gpus, 1000 * amount("cpu"), amount("memory") / _MEBI]


def _resources(
    field: Field, amounts: Iterable[Fraction], rounded: Callable[[Fraction], int]
) -> Resources:
    gpus, millicores, mebibytes = map(rounded, amounts)
    if max(gpus, millicores, mebibytes) > _MOST:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {_MOST} each")
    return Resources(gpus=gpus, cpu_millicores=millicores, memory_mib=mebibytes)


def neediest(needs: Iterable[Resources]) -> Resources:
    """Return the most of each."""
    gpus, cores, memory = map(max, zip(*(each.vector for each in needs), strict=True))
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
