"""Nodes: their GPUs, resources and interfaces; racks and their links."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Self

from pydantic import Field, model_validator

from metronome_opt.files.records import Name, Record, refuse
from metronome_opt.scenario.workload import IF_GIVEN, Speed, megabits

# So many times the largest number of tasks fits 64 bits.
_Amount = Annotated[int, Field(ge=0, le=2**40)]


class Resources(Record):
    """Resources that a task needs, or a node has."""

    gpus: _Amount = 0
    cpu_millicores: _Amount = 0
    memory_mib: _Amount = 0

    @property
    def vector(self) -> tuple[int, int, int]:
        """All three, in this order."""
        return self.gpus, self.cpu_millicores, self.memory_mib


ONE_GPU = Resources(gpus=1)

LINK_SPEEDS = {
    "PCIE": 160,  # NVIDIA/nccl-tests issue 178: three and more A100 over PCIe, 20 GB/s
    "V100": 960,  # NVIDIA/nccl src/graph/topo.h: six links of 20 GB/s; not measured
    "A100": 1852.8,  # Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 231.6 GB/s
    "H100": 3831.2,  # Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 478.9 GB/s
    "H200": 3840,  # Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 480.0 GB/s
    "MI300X": 2552,  # ROCm/rocm-blogs, mi300x-rccl-xgmi: all_reduce_perf, 319 GB/s
}
"""Gbit/s that one GPU sends to the others of its node, by name of the GPU, in capitals.

``PCIE`` is for GPUs without links of their own, and assumed for GPUs that are not known.
"""


def link_speed(name: str) -> float | None:
    """Return the Gbit/s of a kind of GPU, by a word of its name; None if it is not known.

    ``H100``, ``NVIDIA-H100-80GB-HBM3`` and ``nvidia h100`` are one; ``H100-PCIE`` has no links.
    """
    words = re.findall(r"[A-Z0-9]+", name.upper())
    return next((speed for kind, speed in LINK_SPEEDS.items() if kind in words), None)


class Gpu(Record):
    """A kind of GPU.

    Parameters
    ----------
    name
        Name of the kind, such as ``A100``.
    sustained_tflops
        What training reaches, not the peak; only jobs by model that are computed need it.
    link_gbps
        What one GPU sends to the others of its node, in one direction; if omitted, what is known
        of the kind, see `LINK_SPEEDS`.
    """

    name: Name
    sustained_tflops: Annotated[Speed | None, IF_GIVEN] = None
    link_gbps: Annotated[Speed | None, IF_GIVEN] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.link_gbps is not None:
            megabits("link", self.link_gbps.value, None)
        return self

    @property
    def flops(self) -> Fraction | None:
        """What training reaches, in floating-point operations per second; None where unknown."""
        speed = self.sustained_tflops
        return None if speed is None else 10**12 * speed.value

    @property
    def link_mbps(self) -> int | None:
        """What one GPU sends to the others of its node, in Mbit/s; None where unknown."""
        gbps = link_speed(self.name) if self.link_gbps is None else self.link_gbps.value
        return None if gbps is None else round(1000 * gbps)


class Node(Record):
    """A machine that tasks run on.

    Parameters
    ----------
    interface, interfaces
        The link that is its own; or several, each next to an equal share of its GPUs.
    rack, region
        Where it stands; None where unknown. A rack is a zone to Kubernetes.
    """

    name: Name
    has: Resources
    interface: Name | None = None
    interfaces: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)] | None = None
    rack: Name | None = None
    region: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.interface is None) == (self.interfaces is None):
            refuse("interface", "give either interface or interfaces")
        return self

    @property
    def rails(self) -> tuple[str, ...]:
        """Its own links."""
        return self.interfaces or (self.interface or "",)

    def rails_near(self, first: int, gpus: int) -> tuple[str, ...]:
        """Return the links next to `gpus` of its GPUs from the GPU `first` on, at least one.

        That is how machines with several interfaces are built, and what NCCL looks for. Without
        GPUs all links are equally near.
        """
        if not gpus:
            return self.rails
        total = max(1, self.has.gpus)
        end = -(-(first + gpus) * len(self.rails) // total)
        return self.rails[first * len(self.rails) // total : end]


_Links = Annotated[tuple[Name, ...] | None, Field(strict=False, min_length=1), IF_GIVEN]


class Rack(Record):
    """A switch: nodes, or other racks, that share an uplink.

    Parameters
    ----------
    uplink, uplinks
        The link that all crosses which leaves them, or several, one to each spine, of which a flow
        takes one; neither if nothing limits it.
    downlinks
        The links by which traffic enters from the spines of several uplinks. If omitted, they carry
        as much as the uplinks, and are named after these, with ``-down``.
    within
        The rack that it stands in, a switch of the next tier; None at the top.
    """

    name: Name
    uplink: Name | None = None
    uplinks: _Links = None
    downlinks: _Links = None
    within: Annotated[Name | None, IF_GIVEN] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.uplink is not None and self.uplinks is not None:
            refuse("uplinks", "give either uplink or uplinks")
        count = len(self.ups)
        if self.downlinks is not None and len(self.downlinks) != (count if count > 1 else 0):
            refuse(
                "downlinks",
                f"{len(self.downlinks)} of them for {count} uplinks; name one for each of several, "
                "or leave them out",
            )
        return self

    @property
    def ups(self) -> tuple[str, ...]:
        """Its uplinks, one to each spine; a single one if there is one path; none without limit."""
        return self.uplinks or ((self.uplink,) if self.uplink else ())
