"""What pods need, and where they run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.scenario.machines import Resources

GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
_ENDED = ("Succeeded", "Failed")
_MEBI = 2**20


@dataclass(frozen=True)
class Pod:
    """A pod that holds, or waits for, what it needs.

    Attributes
    ----------
    found
        The object.
    node
        Where it runs; None if that is not decided.
    needs
        What it holds there.
    """

    found: Found
    node: str | None
    needs: Resources


def read_pods(found: Iterable[Found], gpu_resources: Sequence[str]) -> list[Pod]:
    """Return the pods that have not ended."""
    pods = []
    for each in found:
        if (each.root / "status" / "phase").text("Unknown") in _ENDED:
            continue
        node = (each.spec / "nodeName").text("") or None
        pods.append(Pod(each, node, needs_of(each.spec, gpu_resources)))
    return pods


def needs_of(spec: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a pod needs: its containers together, or the neediest of those before them.

    What is limited and not requested counts as requested, as in Kubernetes.

    Parameters
    ----------
    spec
        Of a pod or of the template of one.
    gpu_resources
        What GPUs are called.

    Raises
    ------
    InputError
        If a quantity cannot be read, or GPUs are not whole.
    """
    together = [Fraction(0)] * 3
    for container in (spec / "containers").items():
        amounts = _container(container, gpu_resources)
        together = [one + other for one, other in zip(together, amounts, strict=True)]
    for container in (spec / "initContainers").items():
        amounts = _container(container, gpu_resources)
        together = [max(pair) for pair in zip(together, amounts, strict=True)]
    gpus, cores, memory = together
    if gpus.denominator != 1:
        spec.fail(f"its containers ask for {float(gpus):g} GPUs; GPUs are whole")
    return _resources(spec, gpus, 1000 * cores, memory / _MEBI)


def has_of(status: Field, gpu_resources: Sequence[str]) -> Resources:
    """Return what a node has for pods, rounded down.

    Raises
    ------
    InputError
        As `needs_of`.
    """
    allocatable = status / "allocatable"
    amounts = allocatable if allocatable else status / "capacity"
    gpus, cores, memory = _amounts(amounts, Field(None, amounts.where), gpu_resources)
    return _resources(
        amounts, *map(Fraction, map(math.floor, (gpus, 1000 * cores, memory / _MEBI)))
    )


def _container(container: Field, gpu_resources: Sequence[str]) -> tuple[Fraction, ...]:
    resources = container / "resources"
    return _amounts(resources / "requests", resources / "limits", gpu_resources)


def _amounts(
    first: Field, otherwise: Field, gpu_resources: Sequence[str]
) -> tuple[Fraction, Fraction, Fraction]:
    """Return GPUs, cores and bytes."""

    def amount(name: str) -> Fraction:
        field = first / name
        if not field:
            field = otherwise / name
        return field.quantity() if field else Fraction(0)

    gpus = sum((amount(name) for name in gpu_resources), Fraction(0))
    return gpus, amount("cpu"), amount("memory")


def _resources(
    field: Field, gpus: Fraction, millicores: Fraction, mebibytes: Fraction
) -> Resources:
    numbers = [math.ceil(number) for number in (gpus, millicores, mebibytes)]
    most = 2**40
    if max(numbers) > most:
        field.fail(f"GPUs, thousandths of a core and MiB must be at most {most} each")
    return Resources(gpus=numbers[0], cpu_millicores=numbers[1], memory_mib=numbers[2])
