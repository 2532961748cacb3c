"""Shaped devices: what `tc` is told to limit them.

A shaped device has a token bucket with a queue for data, and a class of its own for
acknowledgements. In one queue (`tbf`) those of one direction would wait behind the data of the
other: a burst of 180 ms that had the network to itself then took cubic 193 to 243 ms.
"""

from __future__ import annotations

_BUCKET_S = 0.00025  # of its rate that a device may send at once, as timers are late
_LEAST_BUCKET = 16_384
_DATA, _SMALL = "1:1", "1:2"  # classes; small are packets of less than 128 bytes
_MARKED_RATE, _MARKED_QUEUE = 0.98, 0.25  # from which share of a link's rate and queue on
_HEADERS = 66  # bytes of each segment
_QUANTUM = 60_000

SEGMENT = 1_448
"""Bytes of data in a packet."""


def shape_lines(device: str, mbps: int, queue_ms: int) -> list[str]:
    """Return what `tc` is told to limit a device to a rate, with a queue of so much time."""
    small = f"u32 match u16 0x0000 0xff80 at 2 flowid {_SMALL}"
    return [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add {class_line(device, mbps)}",
        f"class add dev {device} parent 1: classid {_SMALL} htb rate 1gbit quantum {_QUANTUM}",
        f"qdisc add dev {device} parent {_DATA} bfifo limit {mbps * 125 * queue_ms}",
        f"filter add dev {device} parent 1: protocol ip prio 1 {small}",
    ]


def class_line(device: str, mbps: int) -> str:
    """Return the class of data, which has a rate."""
    size = max(_LEAST_BUCKET, round(_BUCKET_S * mbps * 125_000))
    return (
        f"dev {device} parent 1: classid {_DATA} htb rate {mbps}mbit "
        f"burst {size} cburst {size} quantum {_QUANTUM}"
    )


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
