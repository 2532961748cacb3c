"""What a placement predicts for a step, by the package's model of collectives.

All sizes are in bytes, all rates in 10^9 bytes a second, all times in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from metronome_opt.scenario.collectives import Transfer, Transport
from metronome_opt.scenario.traffic import MEGABIT_PER_BYTE

_MBPS = 8000  # Mbit/s of 10^9 bytes a second
_BUCKET = 25_000_000  # bytes; DistributedDataParallel, bucket_cap_mb
_BACKWARD = 2 / 3  # of computing, as in the traffic model

Placement = tuple[int, ...]  # GPUs on each node


class Crossing(StrEnum):
    """Where the hops of a ring go that end on the node where they begin."""

    PROCESSES = "processes"  # over the links between GPUs
    INTERFACE = "interface"  # through the interface: RDMA between containers of one GPU each
    STREAMS = "streams"  # through the kernel, a TCP stream each: containers without RDMA


@dataclass(frozen=True)
class Testbed:
    """What a cluster carries.

    Attributes
    ----------
    name
        As the publication calls it.
    link
        What all-reduces reach on the links between GPUs of one node.
    interface
        What all interfaces of a node carry, one way.
    crossing
        How the jobs of the publication ran.
    source
        Where the rates are from, and which is assumed.
    stream
        What one TCP stream carries, where hops are streams.
    """

    name: str
    link: float
    interface: float
    crossing: Crossing
    source: str
    stream: float = math.inf


_CONTAINERS = (
    "github.com/siasosp23/artifacts 87ab961, adaptdl/benchmark/models/*/adaptdljob.yaml: "
    "a container for each GPU, none with the network of the host; NCCL joins GPUs by host name and "
    "boot identifier (github.com/NVIDIA/nccl, issues 324 and 1781)"
)
TESTBEDS = {
    each.name: each
    for each in (
        Testbed(
            "azure",
            link=120,
            interface=12.5,
            crossing=Crossing.INTERFACE,
            source="ND40rs_v2 (artifact, sia-simulator/simulator_config.py): 8 V100, one EDR "
            "InfiniBand of 100 Gbit/s (learn.microsoft.com, NDv2 series); links: NVIDIA/nccl "
            f"5067397c, src/graph/topo.h, six of 20; {_CONTAINERS}",
        ),
        Testbed(
            "dgx-ext",
            link=231.6,
            interface=200,
            crossing=Crossing.INTERFACE,
            source="DGX A100 (artifact): eight interfaces of 200 Gbit/s (NVIDIA/nccl issue 812); "
            f"links: Azure/AI-benchmarking-guide 8fd0c6e, all_reduce_perf; {_CONTAINERS}",
        ),
        Testbed(
            "rtx",
            link=5.7,
            interface=6.25,
            crossing=Crossing.STREAMS,
            stream=1.25,
            source="8 RTX 2080 Ti (artifact), no peer-to-peer (NVIDIA/nccl-tests issue 117), "
            "copies at 5.7 GB/s; assumed: interface of 50 Gbit/s, and 10 Gbit/s for a TCP stream "
            "between containers (rdma/hca: 0). BERT on one GPU of each of two nodes says 10 to "
            f"19, by what of it the backward pass hides; {_CONTAINERS}",
        ),
        Testbed(
            "muri",
            link=120,
            interface=12.5,
            crossing=Crossing.PROCESSES,
            source="8 nodes of 8 V100 (github.com/Rivendile/Muri 0eca809, cluster_exp/README.md), "
            "processes of Horovod; assumed: an interface of 100 Gbit/s, the next that carries what "
            "its network times come to, 51 to 76 Gbit/s for BERT of 32 and 16 GPUs; links as azure",
        ),
    )
}

PARAMETERS = {
    # Sia, after Pollux (adaptdl/benchmark/models)
    "bert": 108_893_186,  # bert-base-uncased with the head for SQuAD, no pooler
    "imagenet": 25_557_032,  # ResNet50
    "yolov3": 61_626_049,  # 61,949,149 of 80 classes; of 20, three heads are narrower
    "deepspeech2": 41_187_968,  # two convolutions, five bidirectional GRU of 800, 29 labels
    "cifar10": 11_173_962,  # ResNet18 for images of 32 pixels
    # Muri (cluster_exp/workloads/models): defaults of transformers, torchvision
    "muri bert": 109_514_298,  # bert-base with the language model's head
    "muri gpt2": 124_439_808,
    "muri vgg16": 138_357_544,
    "muri vgg19": 143_667_240,
    "muri resnet18": 11_689_512,
    "muri shufflenet_v2_x1_0": 2_278_604,
}
_BYTES = 4  # of a gradient, in single precision


class Overlap(StrEnum):
    """What an all-reduce hides behind."""

    NONE = "nothing"
    HALF = "half of the backward pass"
    BACKWARD = "the backward pass"
    BUCKETS = "the backward pass, in buckets of 25 MB"


def gradient_bytes(model: str) -> int:
    """Return the gradients that a worker of a model exchanges."""
    return _BYTES * PARAMETERS[model]


def communication_s(
    testbed: Testbed, placement: Placement, size: int, crossing: Crossing | None = None
) -> float:
    """Return how long an all-reduce of `size` takes with the network to itself, in a ring."""
    everything = Transfer(
        kind="all-reduce",
        mbit=size * MEGABIT_PER_BYTE,
        ready_ms=Fraction(0),
        needed_ms=Fraction(0),
    )
    transport = _transport(testbed, placement, crossing or testbed.crossing)
    return float(transport.burst(everything).duration) / 1000


def _transport(testbed: Testbed, placement: Placement, crossing: Crossing) -> Transport:
    """Return what a placement means for collectives.

    Containers of one GPU are hosts of their own to NCCL: each of them has a flow at the interface,
    or a stream, wherever the next one runs.
    """
    rates = {
        Crossing.PROCESSES: testbed.interface,
        Crossing.INTERFACE: testbed.interface / max(placement),
        Crossing.STREAMS: testbed.stream,
    }
    together = crossing is Crossing.PROCESSES
    return Transport(
        algorithm="ring" if together else "tasks",
        gpus=sum(placement),
        nodes=len(placement) if together else sum(placement),
        gpus_per_node=max(placement) if together else 1,
        link_mbps=round(_MBPS * testbed.link),
        rate=Fraction(round(_MBPS * rates[crossing])),
    )


def step_s(computing: float, communication: float, size: int, overlap: Overlap) -> float:
    """Return how long a step takes whose computing and all-reduce take so long."""
    if overlap is Overlap.BUCKETS:
        return _in_buckets(computing, communication, size)
    return computing + max(0.0, communication - _HIDING[overlap] * computing)


_HIDING = {Overlap.NONE: 0.0, Overlap.HALF: _BACKWARD / 2, Overlap.BACKWARD: _BACKWARD}


def _in_buckets(computing: float, communication: float, size: int) -> float:
    """Send equal buckets as they become ready; the last one when the backward pass has ended."""
    buckets = math.ceil(size / _BUCKET)
    backward = _BACKWARD * computing
    last = max(backward + communication / buckets, backward / buckets + communication)
    return computing - backward + last
