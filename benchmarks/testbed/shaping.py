"""Shaped devices: what `tc` is told to limit them, and who is served first.

A shaped device has a token bucket with a queue for data, and a class of its own for
acknowledgements. In one queue (`tbf`) those of one direction would wait behind the data of the
other: a burst of 180 ms that had the network to itself then took cubic 193 to 243 ms.

Data may have several classes, told apart by the TOS field of its packets: marks of sockets alone
(`skb->priority`) do not get through a `veth` pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

_BUCKET_S = 0.00025  # of its rate that a device may send at once, as timers are late
_LEAST_BUCKET = 16_384
_DATA, _SMALL = "1:1", "1:2"  # classes; small are packets of less than 128 bytes
_LEAST = 0.01  # of the rate of a link, that every class of data has for itself
_MARKED_RATE, _MARKED_QUEUE = 0.98, 0.25  # from which share of a link's rate and queue on
_HEADERS = 66  # bytes of each segment
_LAST_PRIO, _QUANTUM = 7, 60_000

SEGMENT = 1_448
"""Bytes of data in a packet."""

Service = Literal["fair", "weighted", "strict"]


@dataclass(frozen=True)
class DataClass:
    """A class of data, which has a queue of its own.

    Attributes
    ----------
    tos
        What the TOS field of its packets says.
    share
        Of the rate of a link, that is its own.
    prio
        Who gets what others leave: the classes of least `prio` first, and these by their shares.
    """

    tos: int
    share: float
    prio: int = 0


def data_classes(weights: Iterable[int], service: Service) -> dict[int, DataClass]:
    """Return a class for each weight of some jobs, the heaviest first; none if links are fair.

    Where links are shared by weight, a class has as much as all its jobs weigh, on every link:
    which of them cross it is not looked at. Where the heaviest is served first, each has 1 % for
    itself.
    """
    if service == "fair":
        return {}
    counts = Counter(weights)
    levels = sorted(counts, reverse=True)
    if service == "strict":
        return {
            weight: DataClass(_tos(index), _LEAST, min(index, _LAST_PRIO))
            for index, weight in enumerate(levels)
        }
    total = sum(counts.elements())
    shares = [max(_LEAST, weight * counts[weight] / total) for weight in levels]
    return {
        weight: DataClass(_tos(index), shares[index] / sum(shares))
        for index, weight in enumerate(levels)
    }


def _tos(index: int) -> int:
    return 4 * (index + 1)  # two bits are for congestion


def shape_lines(
    device: str, mbps: int, queue_ms: int, classes: Sequence[DataClass] = ()
) -> list[str]:
    """Return what `tc` is told to limit a device to a rate, with a queue of so much time."""
    leaves = [_leaf(index) for index in range(len(classes))] or [_DATA]
    small = f"u32 match u16 0x0000 0xff80 at 2 flowid {_SMALL}"
    return [
        f"qdisc add dev {device} root handle 1: htb default {leaves[-1].removeprefix('1:')}",
        *(f"class add {line}" for line in class_lines(device, mbps, classes)),
        f"class add dev {device} parent 1: classid {_SMALL} htb rate 1gbit quantum {_QUANTUM}",
        *(
            f"qdisc add dev {device} parent {leaf} bfifo limit {mbps * 125 * queue_ms}"
            for leaf in leaves
        ),
        f"filter add dev {device} parent 1: protocol ip prio 1 {small}",
        *(
            f"filter add dev {device} parent 1: protocol ip prio 2 "
            f"u32 match u8 {each.tos:#04x} 0xfc at 1 flowid {_leaf(index)}"
            for index, each in enumerate(classes)
        ),
    ]


def class_lines(device: str, mbps: int, classes: Sequence[DataClass]) -> list[str]:
    """Return the class of all data, and those in it, which lend one another what they leave."""
    size = max(_LEAST_BUCKET, round(_BUCKET_S * mbps * 125_000))
    bucket = f"burst {size} cburst {size} quantum"
    least = min((each.share for each in classes), default=1.0)
    return [
        f"dev {device} parent 1: classid {_DATA} htb rate {mbps}mbit {bucket} {_QUANTUM}",
        *(
            f"dev {device} parent {_DATA} classid {_leaf(index)} htb "
            f"rate {round(1000 * mbps * each.share)}kbit ceil {mbps}mbit prio {each.prio} "
            f"{bucket} {round(_QUANTUM * each.share / least)}"
            for index, each in enumerate(classes)
        ),
    ]


def mark_lines(device: str, mbps: int, queue_ms: int, segments: int) -> list[str]:
    """Return what `nft` is told to mark packets on their way to a device, for ECN.

    They are marked while a queue in thought, served a little slower than the device, is longer than
    a part of the real one. Of packets in one piece with others only the first one's headers count.
    """
    counted = (segments * SEGMENT + _HEADERS) / (segments * (SEGMENT + _HEADERS))
    rate = round(_MARKED_RATE * counted * mbps * 125_000)
    burst = round(_MARKED_QUEUE * mbps * 125 * queue_ms)
    hook = f"hook egress device {device}"
    limit = f"limit rate over {rate} bytes/second burst {burst} bytes"
    return [
        f"add table netdev {device}",
        f"add chain netdev {device} marks {{ type filter {hook} priority 0; }}",
        f"add rule netdev {device} marks ip ecn != not-ect {limit} ip ecn set ce",
    ]


def _leaf(index: int) -> str:
    return f"1:{16 + index:x}"
