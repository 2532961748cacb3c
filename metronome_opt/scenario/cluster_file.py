"""Clusters in files of their own, with a grid of time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    Name,
    Positive,
    Record,
    explain,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import ROOM

CLUSTER_FORMAT = "metronome-cluster/1"


class _Grid(Record):
    format: Literal["metronome-cluster/1"] = "metronome-cluster/1"
    name: Name
    slot_ms: Positive
    hyperperiod: Annotated[int, Field(ge=1, le=HYPERPERIOD_LIMIT)] = ROOM


class ClusterSpec(Cluster, _Grid):  # the fields of the last base come first
    """A cluster: a tree of interfaces and uplinks, and the grid of time that its jobs keep.

    All periods divide one hyperperiod, so that all links repeat together: what a link carries at
    which slot can then be kept as one row of numbers, and scored for any job that comes.

    Parameters
    ----------
    name
        Of the cluster.
    slot_ms, hyperperiod
        Length of a slot, and the hyperperiod in slots; left out, one with many divisors.
    nodes, racks, links, zone_costs, gpu, background, traffic_classes, network
        As in `Cluster`.
    """

    topology: Annotated[Literal["listed"], Field(exclude=True)] = "listed"

    @model_validator(mode="after")
    def _check_interfaces(self) -> Self:
        if self.spines > 1 and self.routing == "spray":
            refuse(
                "routing",
                "spray: is as one uplink of each rack that carries what all carry together; write "
                "that",
            )
        # Searches count tasks on one link a node, and the GPUs of a task are not known yet.
        for index, node in enumerate(self.nodes):
            if len(node.rails) > 1:
                refuse(
                    f"nodes[{index}].interfaces",
                    f"{len(node.rails)} of them, and places need nodes with one; write an "
                    "interface that carries what they do together",
                )
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a cluster from a document of format ``metronome-cluster/1``."""
        return parse_record(cls, data, CLUSTER_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    @classmethod
    def of_cluster(cls, name: str, cluster: Cluster, slot_ms: int, hyperperiod_ms: int) -> Self:
        """Return a cluster with a grid of time.

        Raises
        ------
        InputError
            If a number is out of range, or the slots do not fill the hyperperiod.
        """
        if slot_ms < 1 or hyperperiod_ms % slot_ms:
            raise InputError(
                f"{name}: slots of {quote(slot_ms)} ms do not fill a hyperperiod of "
                f"{quote(hyperperiod_ms)} ms; choose a divisor"
            )
        tree = {field: getattr(cluster, field) for field in Cluster.model_fields}
        grid = {"slot_ms": slot_ms, "hyperperiod": hyperperiod_ms // slot_ms}
        try:
            return cls.model_validate({"name": name, **grid, **tree})
        except ValidationError as error:
            raise InputError(f"{quote(name)}: {explain(error)}") from None


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file; errors name the file, the place and the value."""
    return read_document_as(path, ClusterSpec.from_dict)
