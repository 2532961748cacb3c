"""GPUs, cores and memory: what pods need, and what nodes have for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from operator import add

from metronome_opt.kubernetes.reading.objects import Field
from metronome_opt.scenario.network import Resources

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
    """Return what a pod needs on its node, as Kubernetes counts it.

    That is what its containers need together with its sidecars, or what an init container needs
    beside the sidecars before it, whichever is more. What the pod as a whole asks for counts
    instead, and its overhead on top. What is limited and not requested counts as requested. Source:
    the page "Effective Pod requests and limits" of the Kubernetes documentation.
    """

    def asked(container: Field) -> list[Fraction]:
        resources = container / "resources"
        return _amounts(resources / "requests", resources / "limits", gpu_resources)

    running, most = [Fraction(0)] * 3, [Fraction(0)] * 3
    for container in (spec / "initContainers").items():
        starting = list(map(add, running, asked(container)))
        most = list(map(max, most, starting))
        if (container / "restartPolicy").value == "Always":
            running = starting
    for container in (spec / "containers").items():
        running = list(map(add, running, asked(container)))
    most = list(map(max, most, running))
    if most[0] % 1:
        spec.fail(f"its containers ask for {float(most[0]):g} GPUs; GPUs are whole")
    whole, overhead = spec / "resources", spec / "overhead"
    requests, limits = whole / "requests", whole / "limits"
    stated = _amounts(requests, requests, gpu_resources)
    limited = _amounts(limits, limits, gpu_resources)
    most = [first or own or last for first, own, last in zip(stated, most, limited, strict=True)]
    total = map(add, most, _amounts(overhead, overhead, gpu_resources))
    return _resources(spec, total, math.ceil)


def container_needs(resources: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod of one container needs."""
    needs = _amounts(resources / "requests", resources / "limits", gpu_resources)
    if needs[0] % 1:
        resources.fail(f"asks for {float(needs[0]):g} GPUs; GPUs are whole")
    return _resources(resources, needs, math.ceil)


def has_of(node: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a node has for pods, rounded down."""
    has = node / "status" / "allocatable" or node / "status" / "capacity"
    return _resources(has, _amounts(has, has, gpu_resources), math.floor)


def _amounts(first: Field, otherwise: Field, gpu_resources: Sequence[str]) -> list[Fraction]:
    """Return GPUs, thousandths of a core and MiB."""
    if not first and not otherwise:
        return [Fraction(0)] * 3

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
