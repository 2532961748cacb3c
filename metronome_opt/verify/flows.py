"""The flows of a job on links, given the node of each task, from the definitions.

A task gets the next GPUs of its node and sends equally by the interfaces beside them. What leaves a
switch crosses its uplink. Of the n tasks of a job, flows are

``tasks``
    one of each task by its interfaces, and one on each uplink above it below which not all n are;
``ring``, ``tree``
    one of each node by the interfaces of its tasks, to the node whose first task is next in order,
    and one on each uplink between them;
``all-to-all``
    of each task as many on a link as tasks are beyond it, in units of the greatest common divisor
    of these numbers, or in larger ones such that no task has more than 64 on a link.

Racks with several uplinks have one to each spine, and links by which the spines' traffic comes in.
What leaves a rack by a spine, as stated for each interface or equally by all of them, comes in from
the same spine: to the next node's rack in a ring or tree, else to the rack that it left. In an
all-to-all each spine has an equal share.

Where several interfaces or spines share a flow, all are divided into equal parts, at most 1024.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Document = Mapping[str, Any]
_MAX_PARTS = 1024
_MAX_UNITS = 64  # flows of a task on a link in an all-to-all


class Place(NamedTuple):
    """What a job's nodes mean for its collectives.

    Attributes
    ----------
    gpus, nodes, gpus_per_node
        GPUs of the job, its nodes, and its most GPUs on one of them.
    rate
        The fastest that one flow may be, in Mbit/s; on one node what a GPU sends to the others.
    parts
        Flows of a task by its interfaces.
    pairs
        Of an all-to-all: the pairs of GPUs whose traffic is one flow.
    rings
        Of an all-to-all: the part of a ring's traffic that a flow has to carry.
    per_task
        GPUs of a task.
    """

    gpus: int
    nodes: int
    gpus_per_node: int
    rate: Fraction
    parts: int = 1
    pairs: Fraction = Fraction(1)
    rings: Fraction = Fraction(1)
    per_task: int = 1


class Sender(NamedTuple):
    """A task that sends by interfaces to another one; switches that the traffic leaves, enters."""

    task: int
    to: int
    rails: Sequence[str]
    left: Sequence[str]
    entered: Sequence[str]


class Tree:
    """A cluster by the names of its parts: what links carry, and the switches above nodes."""

    def __init__(self, cluster: Document) -> None:
        taken = cluster.get("background", {})
        self.capacity = {
            link["name"]: _left(link["capacity"], taken.get(link["name"], "0%"))
            for link in cluster["links"]
        }
        self.link_mbps: int = cluster["link_mbps"]
        self.nodes = {node["name"]: node for node in cluster["nodes"]}
        self.uplink = {rack["name"]: rack["uplink"] for rack in cluster["racks"]}
        self.to_spines = {
            rack["name"]: list(zip(rack["uplinks"], rack["downlinks"], strict=True))
            for rack in cluster["racks"]
            if "downlinks" in rack
        }
        self.spines = max([1, *map(len, self.to_spines.values())])
        within = {rack["name"]: rack.get("within") for rack in cluster["racks"]}
        self.above: dict[str, list[str]] = {name: [] for name in self.nodes}  # the lowest first
        for name, node in self.nodes.items():
            rack = node["rack"]
            while rack is not None:
                self.above[name].append(rack)
                rack = within[rack]

    def place(
        self,
        nodes: Sequence[str],
        gpus: int,
        algorithm: str,
        used: Counter[str],
        paths: Sequence[Sequence[int]] = (),
    ) -> tuple[Mapping[str, int], Place] | None:
        """Return the flows of a job on links and what they mean; None if there are too many parts.

        Parameters
        ----------
        gpus
            Of a task.
        used
            GPUs that earlier tasks have of each node; those of the job are added.
        paths
            The spines of each task by interface, true by `senders`; empty for equal shares of all.
        """
        rails = self.rails_of(nodes, gpus, used)
        tasks_on, per_task = Counter(nodes), max(1, gpus)
        place = Place(
            per_task * len(nodes),
            len(tasks_on),
            per_task * max(tasks_on.values()),
            Fraction(self.link_mbps),
            per_task=per_task,
        )
        if place.nodes == 1:
            return {}, place
        flows, parts = self._of_senders(self.senders(nodes, rails, algorithm), paths)
        if parts > _MAX_PARTS:
            return None
        if algorithm == "all-to-all":
            ring, ring_parts = flows, parts
            flows, parts, pairs = self._of_all(nodes, rails)
            rings = max(Fraction(ring[link], ring_parts * flows[link]) for link in ring)
            place = place._replace(pairs=per_task**2 * pairs, rings=rings)
        rate = min(Fraction(self.capacity[link], count) for link, count in flows.items())
        return flows, place._replace(rate=rate, parts=parts)

    def interfaces(self, node: str) -> list[str]:
        """Return the links of a node's own."""
        its: list[str] = self.nodes[node]["interfaces"] or [self.nodes[node]["interface"]]
        return its

    def rails_of(self, nodes: Sequence[str], gpus: int, used: Counter[str]) -> list[list[str]]:
        """Return the interfaces of tasks, given the GPUs that are used before; these are added."""
        rails = []
        for node in nodes:
            rails.append(self._rails(node, used[node], gpus))
            used[node] += gpus
        return rails

    def _rails(self, node: str, first: int, gpus: int) -> list[str]:
        """Return the interfaces beside GPUs from one on; each is next to an equal share of them.

        Tasks without GPUs are beside all of them.
        """
        rails = self.interfaces(node)
        total, count = max(1, self.nodes[node]["has"]["gpus"]), len(rails)
        return [
            rail
            for index, rail in enumerate(rails)
            if not gpus
            or (index * total < (first + gpus) * count and first * count < (index + 1) * total)
        ]

    def senders(
        self, nodes: Sequence[str], rails: Sequence[list[str]], algorithm: str
    ) -> Iterator[Sender]:
        """Yield the tasks that send to other nodes: all of them, or the last one on each node."""
        if algorithm == "tasks":
            below = self._below(nodes)
            for task, node in enumerate(nodes):
                around = [*range(task + 1, len(nodes)), *range(task)]
                to = next(other for other in around if nodes[other] != node)
                left = [switch for switch in self.above[node] if below[switch] < len(nodes)]
                yield Sender(task, to, rails[task], left, left)
            return
        last = {node: task for task, node in enumerate(nodes)}
        ring = [*last]
        for node, following in zip(ring, ring[1:] + ring[:1], strict=True):
            its: dict[str, None] = {}  # in the order of its tasks
            for at, near in zip(nodes, rails, strict=True):
                its |= dict.fromkeys(near if at == node else ())
            here, there = self.above[node], self.above[following]
            left = [switch for switch in here if switch not in there]
            entered = [switch for switch in there if switch not in here]
            yield Sender(last[node], last[following], [*its], left, entered)

    def _of_senders(
        self, senders: Iterator[Sender], paths: Sequence[Sequence[int]]
    ) -> tuple[Counter[str], int]:
        """Return flows on links, and the parts that what a task sends is divided into."""
        sending = [*senders]
        parts = math.lcm(*(len(each.rails) for each in sending))
        if not paths and any(self.is_by_spine(each) for each in sending):
            parts = math.lcm(parts, self.spines)
        flows: Counter[str] = Counter()
        for each in sending:
            flows.update(dict.fromkeys(each.rails, parts // len(each.rails)))
            flows.update(dict.fromkeys(self._uplinks(each.left), parts))
            if self.is_by_spine(each):
                crossed = paths[each.task] if paths else range(self.spines)
                for spine in crossed:
                    ends = [
                        self.to_spines[rack][spine][end]
                        for end, racks in enumerate((each.left, each.entered))
                        for rack in racks
                        if rack in self.to_spines
                    ]
                    flows.update(dict.fromkeys(ends, parts // len(crossed)))
        return flows, parts

    def is_by_spine(self, sender: Sender) -> bool:
        """Return whether what a task sends crosses links to one of several spines."""
        return any(switch in self.to_spines for switch in (*sender.left, *sender.entered))

    def _of_all(
        self, nodes: Sequence[str], rails: Sequence[list[str]]
    ) -> tuple[Counter[str], int, Fraction]:
        """Return the flows of an all-to-all, the most of a task, and the pairs of tasks in one."""
        tasks_on, below = Counter(nodes), self._below(nodes)
        parts = math.lcm(self.spines, *map(len, rails))
        beyond: list[dict[str, int]] = []  # of each task, parts of pairs by link
        for node, its in zip(nodes, rails, strict=True):
            pairs = dict.fromkeys(its, parts // len(its) * (len(nodes) - tasks_on[node]))
            for switch in self.above[node]:
                outside = len(nodes) - below[switch]
                if outside:
                    pairs.update(dict.fromkeys(self._uplinks([switch]), parts * outside))
                    by_spine = [link for both in self.to_spines.get(switch, []) for link in both]
                    pairs.update(dict.fromkeys(by_spine, parts // self.spines * outside))
            beyond.append(pairs)
        counts = {count for pairs in beyond for count in pairs.values()}
        unit = max(math.gcd(*counts), math.ceil(Fraction(max(counts), _MAX_UNITS)))
        flows: Counter[str] = Counter()
        most = 0
        for its, pairs in zip(rails, beyond, strict=True):
            own = {link: math.ceil(Fraction(count, unit)) for link, count in pairs.items()}
            flows.update(own)
            most = max(most, sum(own[rail] for rail in its))
        return flows, most, Fraction(unit, parts)

    def _below(self, nodes: Sequence[str]) -> Counter[str]:
        """Return how many tasks are below each switch."""
        return Counter(switch for node in nodes for switch in self.above[node])

    def _uplinks(self, switches: Sequence[str]) -> Iterator[str]:
        return (up for switch in switches if (up := self.uplink[switch]) is not None)


def _left(capacity: int, taken: str) -> int:
    """Return the whole Mbit/s of a link that a share or a rate of other traffic leaves."""
    number, unit = re.findall(r"[0-9.]+|\S+$", taken.replace(" ", ""))
    units = {"%": Fraction(capacity, 100), "M": Fraction(1), "G": Fraction(10**3)}
    return math.floor(capacity - Fraction(number) * units.get(unit[0], Fraction(10**6)))
