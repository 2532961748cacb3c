"""From Nodes, their capacities and the network's topology to a cluster as scenarios have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.diktyo import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.needs import has_of
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.scenario.machines import Resources

_MEGA = 10**6
_SCOPES = ("Node", "Shared")
_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_MOST_TFLOPS = 10**6
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Links:
    """The links of a node: its own, and the one that it shares; capacities in Mbit/s."""

    interface: str
    capacity: int
    uplink: str | None = None
    uplink_capacity: int = 0


@dataclass(frozen=True)
class Machine:
    """A node as it was read.

    Attributes
    ----------
    name
        What the cluster calls it.
    where
        The object that it was read from.
    has
        What pods may take; None if no Node says.
    is_open
        Whether new pods may come.
    zone, region
        Where it stands; None where unknown.
    tainted
        Whether it keeps off pods that do not tolerate it.
    gpu, tflops
        The product's name, and what one of its GPUs sustains; None where unknown.
    """

    name: str
    where: str
    has: Resources | None
    is_open: bool = True
    zone: str | None = None
    region: str | None = None
    tainted: bool = False
    gpu: str | None = None
    tflops: Fraction | None = None


def read_nodes(
    found: Iterable[Found], gpu_resources: Sequence[str], group: str
) -> dict[str, Machine]:
    """Return the nodes that have GPUs, by name; `group` is the prefix of annotations."""
    machines = {}
    for each in found:
        has = has_of(each.root / "status", gpu_resources)
        if not has.gpus:
            continue
        taints = [(taint / "effect").text() for taint in (each.spec / "taints").items()]
        machines[each.name] = Machine(
            each.name,
            each.where,
            has,
            is_open=not (each.spec / "unschedulable").flag() and _is_ready(each),
            zone=each.labels.get(ZONE_KEY) or None,
            region=each.labels.get(REGION_KEY) or None,
            tainted=bool(set(taints) & {"NoSchedule", "NoExecute"}),
            gpu=each.labels.get(_PRODUCT) or None,
            tflops=_tflops(each, f"{group}/sustained-tflops"),
        )
    return machines


def gpu_of(machines: Iterable[Machine], tflops: Fraction | None) -> dict[str, Any] | None:
    """Return the kind of GPU as a scenario has it; None if nobody says how fast it is.

    Parameters
    ----------
    machines
        All of them have GPUs of one kind.
    tflops
        What is said beside the nodes, and counts more than what they say.

    Raises
    ------
    InputError
        If nodes say different things.
    """
    told: Machine | None = None
    for machine in machines:
        if machine.tflops is None:
            continue
        if told is not None and told.tflops != machine.tflops and tflops is None:
            raise InputError(
                f"{machine.where}: its GPUs sustain {float(machine.tflops):g} TFLOP/s, those of "
                f"{told.name} another number; a scenario has one kind of GPU, say which: "
                "--gpu-tflops"
            )
        told = told or machine
    speed = tflops if tflops is not None or told is None else told.tflops
    if speed is None:
        return None
    source = "the nodes' annotation" if tflops is None else "stated when the cluster was read"
    name = "GPU" if told is None or told.gpu is None else told.gpu
    value = int(speed) if speed.denominator == 1 else float(speed)
    return {"name": name, "sustained_tflops": {"value": value, "assumed": source}}


def _tflops(node: Found, annotation: str) -> Fraction | None:
    text = node.annotations.get(annotation)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None or not 0 < Fraction(text) <= _MOST_TFLOPS:
        raise InputError(
            f"{node.where}: annotation {annotation}: must be a number above 0 and up to "
            f"{_MOST_TFLOPS}, got {show(text)}"
        )
    return Fraction(text)


def _is_ready(node: Found) -> bool:
    return all(
        (condition / "status").value == "True"
        for condition in (node.root / "status" / "conditions").items()
        if (condition / "type").value == "Ready"
    )


def read_capacities(found: Iterable[Found]) -> dict[str, Links]:
    """Return the links of each node that has an STBandwidthCapacity.

    Raises
    ------
    InputError
        If one cannot be read, or nodes disagree: an interface belongs to one node, and a shared
        link carries the same for all.
    """
    capacities: dict[str, Links] = {}
    owner: dict[str, str] = {}
    carries: dict[str, tuple[int, str]] = {}
    for each in found:
        own: list[tuple[str, int]] = []
        shared: list[tuple[str, int]] = []
        links = each.spec / "links"
        for link in links.items():
            name, capacity = (link / "name").text(), _megabits(link / "capacity")
            scope = link / "scope"
            if scope.text() not in _SCOPES:
                scope.fail("must be Node or Shared")
            if scope.value == "Node":
                if owner.setdefault(name, each.name) != each.name:
                    (link / "name").fail(f"is the interface of {owner[name]} too; share it")
                own.append((name, capacity))
            else:
                known, first = carries.setdefault(name, (capacity, each.name))
                if known != capacity:
                    (link / "capacity").fail(f"is not the {known} Mbit/s that {first} states")
                shared.append((name, capacity))
        if len(own) != 1:
            links.fail(f"must have one link of scope Node, has {len(own)}; add several up to one")
        if len(shared) > 1:
            links.fail(
                f"must have at most one link of scope Shared, has {len(shared)}; keep the narrowest"
            )
        capacities[each.name] = Links(*own[0], *(shared[0] if shared else ()))
    return capacities


def _megabits(capacity: Field) -> int:
    """Return a bandwidth in whole Mbit/s, rounded down."""
    whole = int(capacity.quantity() // _MEGA)
    if not whole:
        capacity.fail("must be at least 1 Mbit/s (1M)")
    return whole


# ------------------------------------------------------------------ the network between zones


@dataclass(frozen=True)
class Ways:
    """Costs and bandwidths between zones, and costs between regions, by origin and destination."""

    zones: Mapping[tuple[str, str], int] = field(default_factory=dict)
    regions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    carries: Mapping[tuple[str, str], int] = field(default_factory=dict)


def read_topology(found: Sequence[Found]) -> Ways:
    """Return what a NetworkTopology says; nothing if there is none.

    Costs that a user defined come before measured ones.

    Raises
    ------
    InputError
        If there are several, or it cannot be read.
    """
    if not found:
        return Ways()
    if len(found) > 1:
        raise InputError(
            f"{found[1].where}: {found[0].namespace}/{found[0].name} is there as well; a cluster "
            "has one NetworkTopology, leave the other out"
        )
    weights = (found[0].spec / "weights").items()
    named = [weight for weight in weights if (weight / "name").text() == "UserDefined"]
    costs: dict[str, dict[tuple[str, str], int]] = {ZONE_KEY: {}, REGION_KEY: {}}
    carries: dict[tuple[str, str], int] = {}
    for topology in ((named or weights)[0] / "topologyList").items() if weights else ():
        key = topology / "topologyKey"
        if key.text() not in costs:
            key.fail(f"must be {ZONE_KEY} or {REGION_KEY}")
        for origin in (topology / "originList").items():
            here = (origin / "origin").text()
            for way in (origin / "costList").items():
                ends = here, (way / "destination").text()
                if ends in costs[key.value]:
                    (way / "destination").fail(f"is there twice from {here}")
                costs[key.value][ends] = (way / "networkCost").integer(0)
                if key.value == ZONE_KEY and way / "bandwidthCapacity":
                    carries[ends] = _megabits(way / "bandwidthCapacity")
    return Ways(costs[ZONE_KEY], costs[REGION_KEY], carries)
