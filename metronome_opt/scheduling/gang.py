"""What asks for a place: the tasks of one job, all alike, and the traffic of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT, Job, Phase
from metronome_opt.records import (
    Name,
    NonNegative,
    Positive,
    Record,
    build,
    explain,
    refuse,
)
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scheduling.cluster import ClusterSpec, Resources

JOB_FORMAT = "metronome-job/1"


class Gang(Record):
    """The tasks of one job: all of them are placed, or none.

    Parameters
    ----------
    name
        Unique among the jobs of a cluster.
    tasks
        How many.
    each
        What one task needs.
    period, phases
        The traffic of one task, in slots and Mbit/s, wherever it runs.
    weight
        Priority, larger is more important.
    ready
        The slot at which it would start if nobody shifted it.
    max_stretch
        How many idle slots may be added to its period, so that it divides the hyperperiod.
    most_racks
        How many racks it may span; None for any number.
    """

    format: Literal["metronome-job/1"] = "metronome-job/1"
    name: Name
    tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    each: Resources = Resources(gpus=1)
    period: Positive
    phases: Annotated[tuple[Phase, ...], Field(strict=False, min_length=1)]
    weight: NonNegative = 1
    ready: NonNegative = 0
    max_stretch: NonNegative = 0
    most_racks: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.job({})
        except ValidationError as error:
            where, _, fault = explain(error).partition(": ")
            refuse(where, fault)
        longest = self.period + self.max_stretch
        if longest > HYPERPERIOD_LIMIT:
            refuse(
                "max_stretch" if self.max_stretch else "period",
                f"an iteration may take {show(longest)} slots, above the limit of "
                f"{HYPERPERIOD_LIMIT}; coarsen the slots",
            )
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a gang from a document of format ``metronome-job/1``.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        return build(cls, data, JOB_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the gang as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    def job(
        self, links: Mapping[str, int], *, stretch: int = 0, current_offset: int | None = None
    ) -> Job:
        """Return it as a job of an instance.

        Parameters
        ----------
        links
            Flows per link.
        stretch
            What is to be possible at least.
        current_offset
            As in `Job`.
        """
        return Job(
            name=self.name,
            period=self.period,
            weight=self.weight,
            ready=self.ready,
            max_stretch=max(stretch, self.max_stretch),
            phases=self.phases,
            links=dict(links),
            current_offset=current_offset,
        )

    @property
    def peak(self) -> int:
        """The fastest that a task sends, in Mbit/s."""
        return max(phase.rate for phase in self.phases)

    @property
    def volume(self) -> int:
        """What a task sends in one iteration, in Mbit/s * slots."""
        return sum(phase.length * phase.rate for phase in self.phases)


def stretch_for(gang: Gang, hyperperiod: int) -> int:
    """Return the fewest idle slots that make the period divide the hyperperiod.

    Raises
    ------
    InputError
        If it takes more of them than the gang allows.
    """
    longest = gang.period + gang.max_stretch
    for period in range(gang.period, min(longest, hyperperiod) + 1):
        if hyperperiod % period == 0:
            return period - gang.period
    least = next((p for p in range(gang.period, hyperperiod + 1) if hyperperiod % p == 0), None)
    remedy = (
        f"allow a max_stretch of {least - gang.period}"
        if least is not None
        else "choose a longer hyperperiod"
    )
    raise InputError(
        f"{gang.name}: period: {gang.period} slots do not divide the hyperperiod of "
        f"{hyperperiod}, nor does anything up to {longest}; {remedy}"
    )


def flows_of(spec: ClusterSpec, nodes: Sequence[str]) -> dict[str, int]:
    """Return how many tasks of a job cross each link, given the node of each.

    A task crosses its node's interface if its job has tasks on other nodes, and its rack's uplink
    if it has tasks in other racks.

    Raises
    ------
    InputError
        If a node is not known.
    """
    hosts = spec.hosts
    for node in nodes:
        if node not in hosts:
            raise InputError(f"there is no node {show(node)}")
    if len(set(nodes)) < 2:
        return {}
    flows = Counter(hosts[node].interface for node in nodes)
    racks = [hosts[node].rack for node in nodes]
    if len(set(racks)) > 1:
        ways = (spec.uplinks[rack] for rack in racks if rack is not None)
        flows.update(uplink for uplink in ways if uplink is not None)
    return dict(sorted(flows.items()))
