"""Collectives: how much of one crosses the network at a placement, and how fast it goes there.

Sources: NVIDIA/nccl 5067397c (2.30.7). A ring visits all GPUs one after the other and leaves each
node once (`connectRings` in src/graph/connect.cc, 2 (n - 1) steps in src/device/all_reduce.h); a
tree is a double binary tree over nodes (src/graph/trees.cc). models/formulations/iteration.md has
the derivations.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError
from metronome_opt.files.records import Exact, Positive, Record, refuse
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario.iteration import Burst, Iteration

_MEMBERS = 2  # GPUs of a collective, at least

_BY_GPU = ("all-to-all", "point-to-point")

AllReduce = Literal["ring", "tree", "tasks"]
"""How tasks all-reduce: in a ring, in trees over nodes, or with a flow for each task."""

Algorithm = Literal["ring", "tree", "tasks", "all-to-all"]
"""How the collectives of a job cross the network."""

Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point"]
"""Kind of a collective."""

Collective = Kind | Literal["stated"]
"""Kind of a collective, or stated: only the traffic of a worker over the network is known."""


def sent(kind: Collective, size: Fraction, group: int) -> Fraction:
    """Return what a member of a group sends to the others.

    Parameters
    ----------
    kind, size, group
        The collective, the size of its buffer, and the number of its members.

    Returns
    -------
    Fraction
        In the unit of the size.
    """
    match kind:
        case "all-reduce":
            return Fraction(2 * (group - 1), group) * size
        case "all-gather" | "reduce-scatter" | "all-to-all":
            return Fraction(group - 1, group) * size
        case _:
            return size


class Transfer(Record):
    """A collective of an iteration.

    Parameters
    ----------
    kind
        Kind of the collective.
    mbit
        Size of its buffer, in Mbit.
    ready_ms
        Computing time of the iteration after which it can begin.
    needed_ms
        Computing time of the iteration that waits for its end.
    group
        GPUs that take part; None for all of the job.
    max_mbps
        The fastest that a worker sends over the network; None for no limit. Of a stated one, its
        rate.
    is_late
        Whether it begins as late as it can without being late, rather than as soon as it can.
    is_idle
        True where others send and this worker waits for them.
    """

    kind: Collective
    mbit: Annotated[Exact, Field(gt=0)]
    ready_ms: Annotated[Exact, Field(ge=0)]
    needed_ms: Annotated[Exact, Field(ge=0)]
    group: Positive | None = None
    max_mbps: Positive | None = None
    is_late: bool = False
    is_idle: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "stated" and self.max_mbps is None:
            refuse("max_mbps", "missing; state the rate, or of which kind the collective is")
        if self.needed_ms < self.ready_ms:
            needed, ready = float(self.needed_ms), float(self.ready_ms)
            refuse("needed_ms", f"{needed:g}: is before ready_ms, {ready:g}; begin earlier")
        return self

    @property
    def start(self) -> tuple[Fraction, Fraction] | None:
        """When all GPUs begin it, by which it is one burst with others; None if not all do."""
        if self.group is not None or self.is_idle or self.kind == "stated":
            return None
        return self.ready_ms, self.needed_ms


class Transport(NamedTuple):
    """How the placement of a job carries its collectives.

    Attributes
    ----------
    algorithm
        How they cross the network.
    gpus, nodes, gpus_per_node
        GPUs of the job, nodes that it runs on, and the most GPUs that it has on one of them.
    link_mbps
        What a GPU sends to the others of its node, in Mbit/s.
    rate
        The fastest that one flow may be if the job has the network to itself, in Mbit/s; bursts are
        sent at the whole number below.
    flows
        Number of flows into which the traffic of a worker is divided.
    pairs
        Pairs of GPUs whose traffic is one flow of an all-to-all.
    rings
        The part of a ring's traffic that one flow of an all-to-all carries.
    gpus_per_worker
        GPUs of a worker.
    """

    algorithm: Algorithm
    gpus: int
    nodes: int
    gpus_per_node: int
    link_mbps: int
    rate: Fraction
    flows: int = 1
    pairs: Fraction = Fraction(1)
    rings: Fraction = Fraction(1)
    gpus_per_worker: int = 1

    def burst(self, transfer: Transfer) -> Burst:
        """Return the burst of one flow, or of a GPU to the others of its node."""
        kind, size = transfer.kind, transfer.mbit
        group = transfer.group or self.gpus
        limit = transfer.max_mbps
        if kind == "stated":
            assert limit is not None  # noqa: S101 (the rate that is stated)
            flows = 1 if self.nodes == 1 else self.flows
            return Burst(Fraction(0), size / flows, Fraction(limit, flows))
        inside = sent(kind, size, group)
        if self.nodes == 1:
            return Burst(Fraction(0), inside, Fraction(self.link_mbps))
        volume = inside / self.flows
        if self.algorithm == "all-to-all":
            volume = self.rings * inside
            if kind == "all-to-all":
                volume = self.pairs * size / self.gpus
                inside = Fraction(self.gpus_per_node - 1, self.gpus) * size
        elif self.algorithm == "tree" and kind == "all-reduce":
            volume = sent(kind, size, self.nodes) / self.flows
        elif self.algorithm == "tasks" and (transfer.group or kind in _BY_GPU):
            volume *= self.gpus_per_worker  # no ring that leaves a worker once
        rate = Fraction(math.floor(self.rate))
        if limit is not None:
            rate = min(rate, Fraction(limit, self.flows))
        if self.algorithm != "tasks" and self.gpus_per_node > 1 and inside:
            rate = min(rate, volume / inside * self.link_mbps)
        return Burst(Fraction(0), volume, rate)


class TrainingStep(Record):
    """An iteration wherever it runs: computing, and collectives in the order in which they begin.

    Parameters
    ----------
    compute_ms
        Computing time of a worker, including what goes on beside collectives.
    transfers
        Its collectives.
    is_fine
        As in `Iteration`.
    """

    compute_ms: Annotated[Exact, Field(ge=0)]
    transfers: Annotated[tuple[Transfer, ...], Field(strict=False, min_length=1)]
    is_fine: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if all(transfer.is_idle for transfer in self.transfers):
            refuse("transfers", "all are idle; leave is_idle out of what this worker sends")
        for index, transfer in enumerate(self.transfers):
            if transfer.needed_ms > self.compute_ms:
                end = f"the end of computing, {float(self.compute_ms):g} ms; state compute_ms"
                where = f"transfers[{index}].needed_ms"
                refuse(where, f"{float(transfer.needed_ms):g}: is after {end}")
        return self

    @property
    def usual_algorithm(self) -> Algorithm:
        """How its collectives cross the network if nothing else is said.

        Where groups are smaller than the job it is not known which of them cross what: each worker
        counts in full.
        """
        kinds = {transfer.kind for transfer in self.transfers}
        has_groups = any(transfer.group for transfer in self.transfers)
        if has_groups or kinds & {"stated", "point-to-point"}:
            return "tasks"
        return "all-to-all" if "all-to-all" in kinds else "ring"

    @property
    def is_stated(self) -> bool:
        """Whether it is only known what workers send over the network, not of which collectives."""
        return all(transfer.kind == "stated" for transfer in self.transfers)

    def check_groups(self, gpus: int, field: str = "transfers", kind: str = "kind") -> None:
        """Refuse a collective of more GPUs than the job has, or of a single one.

        Errors name the field of the traffic that lists them, and that of one that states its kind.
        """
        for index, transfer in enumerate(self.transfers):
            where, members = f"traffic.{field}[{index}]", transfer.group or gpus
            if members > gpus:
                raise InputError(
                    f"{where}.group: {members}: is larger than the job, which has {gpus} "
                    "GPUs; use at most as many"
                )
            if transfer.kind != "stated" and members < _MEMBERS:
                raise InputError(
                    f"{where}.{kind}: {transfer.kind} over one worker: sends nothing; leave it out"
                )

    def limited_to(self, rate: int) -> TrainingStep:
        """Return the iteration of workers that send at no more than `rate` Mbit/s."""
        transfers = [
            transfer.model_copy(update={"max_mbps": min(rate, transfer.max_mbps or rate)})
            for transfer in self.transfers
        ]
        return self.model_copy(update={"transfers": tuple(transfers)})

    def at(self, transport: Transport) -> Iteration:
        """Return the iteration at a placement, of a job that has the network to itself.

        Collectives are sent one after the other, as one burst where all GPUs begin both at once.
        Computing waits for those that it needs. Bursts that are only stated are as fast as stated,
        whatever links carry.
        """
        bursts: list[Burst] = []
        end = last = delay = Fraction(0)  # of the last collective, of the last burst
        needed: list[tuple[Fraction, Fraction]] = []
        start = None  # of the last collective
        for transfer in self.transfers:
            arrived = (ended - by for by, ended in needed if by <= transfer.ready_ms)
            delay = max([delay, *arrived])
            begin = max(transfer.ready_ms + delay, end)
            burst = transport.burst(transfer)
            if start and transfer.start == start:
                bursts[-1] = bursts[-1].joined(burst)
                end = last = end + burst.duration
            else:
                if transfer.is_late:
                    begin = max(begin, transfer.needed_ms + delay - burst.duration)
                end = begin + burst.duration
                if not transfer.is_idle:
                    bursts.append(replace(burst, after=begin - last))
                    last = end
            needed.append((transfer.needed_ms, end))
            start = transfer.start
        delay = max([delay, *(ended - by for by, ended in needed)])
        rest = self.compute_ms + delay - last
        return Iteration(tuple(bursts), rest, self.is_fine)

    def in_slots(self, transport: Transport, slot_ms: int) -> tuple[tuple[Phase, ...], int]:
        """Return its bursts in slots at a placement, and the slots of the iteration."""
        exact, is_inside = self.at(transport), transport.nodes == 1 and not self.is_stated
        return exact.to_slots_inside(slot_ms) if is_inside else exact.to_slots(slot_ms)
