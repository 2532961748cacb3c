"""`fabric`: multi-node jobs on a leaf-spine network, in the fragments that coming and going leave.

A busy cluster is simulated until its placements have forgotten how it began. Every rack has a queue
that is never empty; again and again a random job ends, as if run times were exponential, and the
racks that it ran in look at their queues.

- A job is a gang of 2 to 16 tasks of which no two share a node. A node takes two tasks.
- A job may run in the rack where it waits and in the next one; racks stand in a ring, so that none
  is special. It gets the fuller one of those that have room for all its tasks. Only if none has, it
  is spilled: it takes what the emptier one has and the rest from the other. If that does not do, it
  waits, and those behind it with it.
- Within a rack empty nodes go first, so that jobs share nodes where a rack is nearly full.

Racks are alike, and each decides by itself. So the loads of links are the same at all sizes, up to
chance: a larger fabric is more of the same, not a denser one.
"""

from __future__ import annotations

import random
from collections import Counter

from benchmarks.families.bursts import bursts
from benchmarks.families.family import Family, cases
from metronome_opt.problem.instance import Instance, Job, Link

NIC = 50_000  # Mbit/s
RACK = 16  # nodes
OVERSUBSCRIPTION = 4
TASKS_PER_NODE = 2
TASKS = {2: 42, 3: 14, 4: 24, 6: 7, 8: 10, 16: 3}  # tasks of a job: how often, in percent
TURNOVER = 10  # jobs that end, for each one that runs at first
PERIODS = {40: 1, 60: 3, 80: 2, 120: 4, 240: 2}  # slots: how often; they divide 240
DUTY_PERCENT = (10, 45)


def generate(name: str, seed: int, *, nodes: int) -> Instance:
    """Return the traffic of a simulated cluster.

    A job is busy for 10 to 45 % of its period, in one or two bursts; each of its tasks sends 25 to
    50 Gbit/s, or the share that its uplinks leave it if that is less. A task crosses the interface
    of its node, and the uplink of its rack if the job has tasks in other racks.

    Parameters
    ----------
    name, seed
        The same seed gives the same instance.
    nodes
        A multiple of 16, at least 32.
    """
    draw = random.Random(seed)
    gangs = _simulate(draw, nodes // RACK)
    links = [Link(name=_node(node), capacity=NIC) for node in range(nodes)]
    uplink = RACK * NIC // OVERSUBSCRIPTION
    links += [Link(name=_uplink(rack), capacity=uplink) for rack in range(nodes // RACK)]
    return Instance(
        name=name,
        slot_ms=5,
        links=tuple(links),
        jobs=tuple(_job(draw, index, gang, uplink) for index, gang in enumerate(gangs)),
    )


def _node(index: int) -> str:
    return f"node-{index:04}"


def _uplink(rack: int) -> str:
    return f"rack-{rack:02}-uplink"


# ------------------------------------------------------------------ who runs where


class _Cluster:
    """Racks with their free GPUs and their queues.

    Parameters
    ----------
    draw
        Where chance comes from.
    racks
        How many.
    """

    def __init__(self, draw: random.Random, racks: int) -> None:
        self._draw = draw
        self._free = [[TASKS_PER_NODE] * RACK for _ in range(racks)]
        self._waiting = [self._arrival() for _ in range(racks)]
        self.running: list[list[int]] = []
        for rack in range(racks):
            self._serve(rack)

    def end_one(self) -> None:
        """End a random job and start those that fit then."""
        nodes = self.running.pop(self._draw.randrange(len(self.running)))
        for node in nodes:
            self._free[node // RACK][node % RACK] += 1
        for rack in sorted({node // RACK for node in nodes}):
            self._serve(rack)

    def _arrival(self) -> int:
        """Return the number of tasks of a new job."""
        (tasks,) = self._draw.choices(list(TASKS), list(TASKS.values()))
        return tasks

    def _serve(self, rack: int) -> None:
        """Start jobs from the queue of a rack until the first one does not fit."""
        while nodes := self._place(rack, self._waiting[rack]):
            self.running.append(nodes)
            self._waiting[rack] = self._arrival()

    def _place(self, rack: int, tasks: int) -> list[int]:
        """Take the nodes of a job; empty if there is no room for it."""
        near = (rack, (rack + 1) % len(self._free))
        room = {rack: sum(map(bool, self._free[rack])) for rack in near}
        fitting = [rack for rack in near if room[rack] >= tasks]
        if fitting:
            return self._take(min(fitting, key=room.__getitem__), tasks)
        if sum(room.values()) < tasks:
            return []
        fuller, emptier = sorted(near, key=room.__getitem__)
        rest = tasks - room[emptier]
        return self._take(emptier, room[emptier]) + self._take(fuller, rest)

    def _take(self, rack: int, tasks: int) -> list[int]:
        """Take a GPU on each of `tasks` nodes of a rack, on empty ones first."""
        places = self._free[rack]
        chosen = sorted(range(RACK), key=lambda node: -places[node])[:tasks]
        for node in chosen:
            places[node] -= 1
        return [rack * RACK + node for node in chosen]


def _simulate(draw: random.Random, racks: int) -> list[list[int]]:
    """Return the nodes of each job that runs in the end, oldest first."""
    cluster = _Cluster(draw, racks)
    for _ in range(TURNOVER * len(cluster.running)):
        cluster.end_one()
    return cluster.running


# ------------------------------------------------------------------ what it sends


def _job(draw: random.Random, index: int, nodes: list[int], uplink: int) -> Job:
    (period,) = draw.choices(list(PERIODS), list(PERIODS.values()))
    least, most = DUTY_PERCENT
    busy = draw.randint(period * least // 100, period * most // 100)
    racks = Counter(node // RACK for node in nodes)
    spilled = len(racks) > 1
    fastest = min(NIC, uplink // max(racks.values())) if spilled else NIC
    rates = [draw.randrange(25_000, NIC + 1, 500) for _ in range(draw.randint(1, 2))]
    links = {_node(node): 1 for node in sorted(nodes)}
    if spilled:
        links |= {_uplink(rack): count for rack, count in sorted(racks.items())}
    return Job(
        name=f"job-{index:03}",
        period=period,
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
        phases=bursts(draw, period, busy, [min(rate, fastest) for rate in rates]),
        links=links,
    )


_TEST = {64: 3, 128: 3, 256: 3, 512: 2, 1024: 2}  # nodes: instances

FAMILY = Family(
    name="fabric",
    about="multi-node jobs in fragments on a leaf-spine of 64 to 1,024 nodes",
    version=1,
    time_limit_s=30,
    cases=cases(
        "fabric",
        generate,
        test=[
            (str(nodes), {"nodes": nodes}) for nodes, copies in _TEST.items() for _ in range(copies)
        ],
        tune=[(str(nodes), {"nodes": nodes}) for nodes in _TEST],
    ),
)
