"""How fast GPUs of a node send to one another, of the kinds that are named in the field.

Numbers are what nccl-tests reach (bus bandwidth of an all-reduce over the GPUs of a node), not line
rates, which are 25 % (A100) to 40 % (MI300X) higher.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class LinkSpeed(NamedTuple):
    """What one GPU sends to the others of its node, in one direction."""

    gbps: float
    source: str


_PCIE = LinkSpeed(160, "NVIDIA/nccl-tests issue 178: three and more A100 over PCIe, 20 GB/s")

LINK_SPEEDS = {
    "PCIE": _PCIE,
    "V100": LinkSpeed(960, "NVIDIA/nccl src/graph/topo.h: six links of 20 GB/s; not measured"),
    "A100": LinkSpeed(1852.8, "Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 231.6 GB/s"),
    "H100": LinkSpeed(3831.2, "Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 478.9 GB/s"),
    "H200": LinkSpeed(3840, "Azure/AI-benchmarking-guide, all_reduce_perf, 8 GPUs: 480.0 GB/s"),
    "MI300X": LinkSpeed(2552, "ROCm/rocm-blogs, mi300x-rccl-xgmi: all_reduce_perf, 319 GB/s"),
}
"""By name of the GPU, in capitals; ``PCIE`` for GPUs without links of their own."""

ASSUMED = _PCIE
"""Of GPUs that are not named, or not known."""


def link_speed(name: str) -> LinkSpeed | None:
    """Return the speed of a kind of GPU, by a word of its name; None if it is not known.

    ``H100``, ``NVIDIA-H100-80GB-HBM3`` and ``nvidia h100`` are one; ``H100-PCIE`` has no links.
    """
    words = re.findall(r"[A-Z0-9]+", name.upper())
    return next((speed for kind, speed in LINK_SPEEDS.items() if kind in words), None)
