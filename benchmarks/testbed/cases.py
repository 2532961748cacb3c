"""Cases: which jobs run on which network, and the instance that each of them is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from benchmarks.testbed.network import GOODPUT, Layout
from benchmarks.testbed.shaping import SEGMENT
from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    Name,
    NonNegative,
    Positive,
    Record,
    Share,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.problem.instance import Instance

FORMAT = "metronome-testbed/1"
STORED = Path(__file__).with_name("cases.yaml")
JITTER = Path(__file__).with_name("jitter.yaml")
QUEUES = Path(__file__).with_name("queues.yaml")

TABLE = ("pair-80-36-38", "three-80-24", "mixed-60-60-120", "over-60-60-120-120")
"""The cases that say in short what a gate brings."""

CUSHION_MS = 2
"""By how much a gated job may be late for its very first window."""

Kind = Literal["bottleneck", "two-racks", "four-racks"]
Congestion = Literal["cubic", "reno", "bbr", "ecn"]

Burst = Annotated[tuple[NonNegative, Positive], Field(strict=False)]

RACKS: Mapping[Kind, int] = {"bottleneck": 2, "two-racks": 2, "four-racks": 4}


class BedJob(Record):
    """A job of a case; times in ms.

    Parameters
    ----------
    period
        Of an iteration that nothing holds up.
    bursts
        Beginning and length of each burst at the full rate of the link.
    racks
        Where its ranks are, one in each; all racks if it is empty.
    begin, end
        When it arrives, and when it leaves; None for the end of the run.
    iterations
        How many it runs, if it does not go on until then.
    """

    period: Positive
    bursts: Annotated[tuple[Burst, ...], Field(min_length=1, strict=False)]
    racks: Annotated[tuple[NonNegative, ...], Field(strict=False)] = ()
    begin: NonNegative = 0
    end: Positive | None = None
    iterations: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> BedJob:
        reached = 0
        for index, (start, length) in enumerate(self.bursts):
            if start < reached:
                refuse(f"bursts[{index}]", f"begins at {start}, before {reached}")
            reached = start + length
        if reached > self.period:
            refuse("bursts", f"end at {reached}, after the period of {self.period}")
        if self.end is not None and self.end <= self.begin:
            refuse("end", f"at {self.end}, not after the beginning at {self.begin}")
        return self


class Case(Record):
    """Jobs on a network.

    Parameters
    ----------
    name
        Unique.
    split
        Whether the simulator may be tuned on it.
    network
        Where the bottlenecks are: the first rack's uplink, or that of every rack.
    uplink_mbps, interface_mbps
        Rates of the limited uplinks, and of the nodes' interfaces; None for no limit.
    queue_ms
        How long a full queue of a limited link takes to be sent.
    congestion
        Congestion control of all connections; ``ecn`` is cubic on links that mark packets.
    seconds
        How long it runs.
    jitter
        Standard deviation of computing times, as a share of them; normal, cut off at three of them.
        None for times that are as stated, of which `solve` does not know.
    random_begins
        Whether each job begins at a random time within its first period, another in each repeat.
    slots_ms
        Period of all jobs in mode ``even``.
    program
        What ranks do: a ring all-reduce of as many bytes as a burst is long, or a step of PyTorch's
        DistributedDataParallel over gloo, whose gradients have about as many.
    jobs
        Called a, b, c and so on.
    """

    name: Name
    split: Literal["tuning", "test"]
    network: Kind = "two-racks"
    uplink_mbps: Positive = 200
    interface_mbps: Positive | None = None
    queue_ms: Positive = 20
    congestion: Congestion = "cubic"
    seconds: Positive = 12
    jitter: Share | None = None
    random_begins: bool = False
    slots_ms: Positive | None = None
    program: Literal["ring", "ddp"] = "ring"
    jobs: Annotated[tuple[BedJob, ...], Field(min_length=1, max_length=26, strict=False)]

    @model_validator(mode="after")
    def _check(self) -> Case:
        for index, job in enumerate(self.jobs):
            racks = self.racks(job)
            if len(set(racks)) < max(2, len(racks)) or max(racks) >= RACKS[self.network]:
                refuse(
                    f"jobs[{index}].racks",
                    f"must be two or more of the {RACKS[self.network]} racks, each once",
                )
            if self.program == "ddp" and (job.iterations is None or len(job.bursts) > 1):
                refuse(f"jobs[{index}]", "a job of DDP states iterations and has one burst")
            if max(job.begin + 1, job.end or 0) > 1000 * self.seconds:
                refuse(f"jobs[{index}]", f"is there after the end of the run, {self.seconds} s")
        return self

    def racks(self, job: BedJob) -> tuple[int, ...]:
        """Return the racks in which a job has a rank."""
        return job.racks or tuple(range(RACKS[self.network]))

    @property
    def job_names(self) -> list[str]:
        """Names of the jobs."""
        return [chr(ord("a") + index) for index in range(len(self.jobs))]

    @property
    def rate_mbps(self) -> float:
        """Rate of an undisturbed burst."""
        return GOODPUT * min(self.uplink_mbps, self.interface_mbps or self.uplink_mbps)

    def seed(self, job: str, repeat: int) -> str:
        """Return the seed of a job; modes share it."""
        return f"{self.name} {self.jitter} {job} {repeat}"

    @property
    def limited(self) -> tuple[int, ...]:
        """The racks whose uplinks are limited."""
        return (0,) if self.network == "bottleneck" else tuple(range(RACKS[self.network]))

    @property
    def layout(self) -> Layout:
        """The network, with a node for every rank."""
        crowd = Counter(rack for job in self.jobs for rack in self.racks(job))
        racks = range(RACKS[self.network])
        return Layout(
            nodes=tuple(crowd[rack] for rack in racks),
            uplink_mbps=tuple(self.uplink_mbps if rack in self.limited else None for rack in racks),
            interface_mbps=self.interface_mbps,
            queue_ms=self.queue_ms,
            segments=self.segments,
            marks=self.congestion == "ecn",
        )

    @property
    def burst_over_queue(self) -> float:
        """Mean length of a burst over that of a full queue."""
        lengths = [length for job in self.jobs for _, length in job.bursts]
        return sum(lengths) / len(lengths) / self.queue_ms

    @property
    def segments(self) -> int:
        """Segments that a node may hand over at once: a sixteenth of a queue."""
        rate = min(self.uplink_mbps, self.interface_mbps or self.uplink_mbps)
        return min(44, max(1, rate * 125 * self.queue_ms // (16 * SEGMENT)))

    def periods(self, stretch: float) -> dict[str, int]:
        """Return the periods in ms with so much idle time, a share of them."""
        return {
            name: math.ceil(round(job.period * (1 + stretch), 6))
            for name, job in zip(self.job_names, self.jobs, strict=True)
        }

    def instance(self, stretch: float = 0.0) -> Instance:
        """Return the case as an instance in slots of 1 ms.

        Parameters
        ----------
        stretch
            Idle time that is added to every period, as a share of it.
        """
        periods = self.periods(stretch)
        return Instance.from_dict(
            {
                "format": "metronome-instance/1",
                "name": self.name,
                "slot_ms": 1,
                "links": [
                    {"name": f"uplink-{rack}", "capacity": round(GOODPUT * self.uplink_mbps)}
                    for rack in self.limited
                ],
                "jobs": [
                    {
                        "name": name,
                        "period": periods[name],
                        "jitter": self.jitter,
                        "phases": [
                            {"start": start, "length": length, "rate": round(self.rate_mbps)}
                            for start, length in job.bursts
                        ],
                        "links": {
                            f"uplink-{rack}": 1 for rack in self.racks(job) if rack in self.limited
                        },
                    }
                    for name, job in zip(self.job_names, self.jobs, strict=True)
                ],
            }
        )


class Cases(Record):
    """A file of cases."""

    format: Literal["metronome-testbed/1"]
    cases: Annotated[tuple[Case, ...], Field(min_length=1, strict=False)]

    @model_validator(mode="after")
    def _check(self) -> Cases:
        for name, count in Counter(case.name for case in self.cases).items():
            if count > 1:
                refuse("cases", f"{quote(name)} is there {count} times")
        return self


def read_cases(path: str | Path, names: list[str] | None = None) -> list[Case]:
    """Read cases, all of them or those that are named.

    Raises
    ------
    InputError
        If the file is no file of cases, or has none of a name.
    """

    def make(document: dict[str, Any]) -> Cases:
        return parse_record(Cases, document, FORMAT)

    cases = {case.name: case for case in read_document_as(path, make).cases}
    for name in names or ():
        if name not in cases:
            raise InputError(f"{path}: has no case {quote(name)}")
    return [cases[name] for name in names or cases]
