"""The flows of a job on links, given the nodes of its tasks, from the definitions.

A task gets the next GPUs of its node and sends equally by the interfaces beside them. Traffic that
leaves a switch crosses its uplink. The flows of a job with n tasks are

``tasks``
    one per task by its interfaces, and one on every uplink above it that has not all n below;
``ring``, ``tree``
    one per node by the interfaces of its tasks, to the node whose first task is next in order, and
    one on every uplink between them;
``all-to-all``
    per task and link the number of tasks beyond the link, in units of the greatest common divisor
    of all numbers, or in larger units such that no task has more than 64 on a link.

Racks with several uplinks have one to every spine, and links for the traffic from the spines.
Traffic that leaves a rack by a spine, as stated by interface or equally by all spines, enters from
that spine: the rack of the next node in a ring or tree, else the rack that it left. In an
all-to-all all spines have equal shares.

If several interfaces or spines share a flow, all flows are divided into equal parts, at most 1024.
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
    """Properties of the nodes of a job for its collectives.

    Attributes
    ----------
    gpus, nodes, gpus_per_node
        Numbers of GPUs and nodes of the job, and its largest number of GPUs on a node.
    rate
        Largest rate of a flow, Mbit/s; on one node the rate of a GPU to the others.
    parts
        Flows of a task by its interfaces.
    pairs
        Pairs of GPUs with traffic in one flow of an all-to-all.
    rings
        Part of the traffic of a ring in a flow of an all-to-all.
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
    """A task that sends to another one, its interfaces, and the switches that are left, entered."""

    task: int
    to: int
    rails: Sequence[str]
    left: Sequence[str]
    entered: Sequence[str]


class Tree:
    """A cluster by name: capacities of links, and the switches above nodes with their links."""

    def __init__(self, cluster: Document) -> None:
        taken = cluster.get("background", {})
        self.capacity = {
            link["name"]: _left(link["capacity"], taken.get(link["name"], "0%"))
            for link in cluster["links"]
        }
        self.link_mbps: int = cluster["link_mbps"]
        self.nodes = {node["name"]: node for node in cluster["nodes"]}
        self.rails: dict[str, list[str]] = {
            name: node["interfaces"] or [node["interface"]] for name, node in self.nodes.items()
        }
        racks = {rack["name"]: rack for rack in cluster["racks"]}
        self._up: dict[str, list[str]] = {  # one by spine, or one, or none without limit
            name: rack.get("uplinks") or [up for up in [rack["uplink"]] if up is not None]
            for name, rack in racks.items()
        }
        self._down: dict[str, list[str]] = {
            name: rack.get("downlinks", []) for name, rack in racks.items()
        }
        self.spines = max([1, *map(len, self._up.values())])
        self.above: dict[str, list[str]] = {name: [] for name in self.nodes}  # the lowest first
        for name, node in self.nodes.items():
            rack = node["rack"]
            while rack is not None:
                self.above[name].append(rack)
                rack = racks[rack].get("within")

    def place(
        self,
        nodes: Sequence[str],
        gpus: int,
        algorithm: str,
        used: Counter[str],
        paths: Sequence[Sequence[int]] = (),
    ) -> tuple[Mapping[str, int], Place] | None:
        """Return the flows of a job on links, and its place; None if there are too many parts.

        Parameters
        ----------
        nodes, gpus, algorithm
            Nodes of the tasks, GPUs of a task, and how collectives cross the network.
        used
            GPUs of earlier tasks by node; the GPUs of the job are added.
        paths
            Spines by task and interface, true by `senders`; empty for equal shares of all spines.
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
        flows, parts = self._of_senders(list(self.senders(nodes, rails, algorithm)), paths)
        if parts > _MAX_PARTS:
            return None
        if algorithm == "all-to-all":
            ring, ring_parts = flows, parts
            flows, parts, pairs = self._of_all(nodes, rails)
            rings = max(Fraction(ring[link], ring_parts * flows[link]) for link in ring)
            place = place._replace(pairs=per_task**2 * pairs, rings=rings)
        rate = min(Fraction(self.capacity[link], count) for link, count in flows.items())
        return flows, place._replace(rate=rate, parts=parts)

    def rails_of(self, nodes: Sequence[str], gpus: int, used: Counter[str]) -> list[list[str]]:
        """Return the interfaces beside the GPUs of tasks, which are added to the used ones.

        All interfaces of a node have equal shares of its GPUs. Tasks without GPUs use all of them.
        """
        found = []
        for node in nodes:
            rails, first, end = self.rails[node], used[node], used[node] + gpus
            total, count = max(1, self.nodes[node]["has"]["gpus"]), len(rails)
            near = [
                rail
                for index, rail in enumerate(rails)
                if index * total < end * count and first * count < (index + 1) * total
            ]
            found.append(near if gpus else rails)
            used[node] = end
        return found

    def senders(
        self, nodes: Sequence[str], rails: Sequence[list[str]], algorithm: str
    ) -> Iterator[Sender]:
        """Yield the tasks that send to other nodes: all tasks, or the last one of every node."""
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

    def is_by_spine(self, sender: Sender) -> bool:
        """Return whether the traffic of a task crosses one of several spines."""
        return any(self._down[switch] for switch in (*sender.left, *sender.entered))

    def _of_senders(
        self, senders: Sequence[Sender], paths: Sequence[Sequence[int]]
    ) -> tuple[Counter[str], int]:
        """Return flows on links, and the number of parts of the traffic of a task."""
        parts = math.lcm(*(len(sender.rails) for sender in senders), *map(len, filter(None, paths)))
        if not paths and any(self.is_by_spine(sender) for sender in senders):
            parts = math.lcm(parts, self.spines)
        flows: Counter[str] = Counter()
        for sender in senders:
            flows.update(dict.fromkeys(sender.rails, parts // len(sender.rails)))
            between = [self._up[switch] for switch in sender.left]
            between += [self._down[switch] for switch in sender.entered]
            spines = paths[sender.task] if paths else range(self.spines)
            for spine in spines:
                crossed = [links[spine] for links in between if links]
                flows.update(dict.fromkeys(crossed, parts // len(spines)))
        return flows, parts

    def _of_all(
        self, nodes: Sequence[str], rails: Sequence[list[str]]
    ) -> tuple[Counter[str], int, Fraction]:
        """Return the flows of an all-to-all, their maximum by task, and pairs of tasks per flow."""
        tasks_on, below = Counter(nodes), self._below(nodes)
        parts = math.lcm(self.spines, *map(len, rails))
        beyond: list[dict[str, int]] = []  # parts of pairs by task and link
        for node, its in zip(nodes, rails, strict=True):
            pairs = dict.fromkeys(its, parts // len(its) * (len(nodes) - tasks_on[node]))
            for switch in self.above[node]:
                if below[switch] < len(nodes):
                    links = [*self._up[switch], *self._down[switch]]
                    share = parts // self.spines * (len(nodes) - below[switch])
                    pairs.update(dict.fromkeys(links, share))
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
        """Return the number of tasks below every switch."""
        return Counter(switch for node in nodes for switch in self.above[node])


def _left(capacity: int, taken: str) -> int:
    """Return the whole Mbit/s of a link beside a share or a rate of other traffic."""
    number, unit = re.findall(r"[0-9.]+|\S+$", taken.replace(" ", ""))
    units = {"%": Fraction(capacity, 100), "M": Fraction(1), "G": Fraction(10**3)}
    return math.floor(capacity - Fraction(number) * units.get(unit[0], Fraction(10**6)))
