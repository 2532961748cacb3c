"""The cluster that jobs are placed on: its machines, and the grid of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.records import Name, Positive, Record, build, explain, read_as
from metronome_opt.scenario.machines import Distance, Fabric, Host, ListedCluster, Rack, Resources
from metronome_opt.scenario.model import Cluster, network_of

__all__ = ["CLUSTER_FORMAT", "ClusterSpec", "Distance", "Host", "Rack", "Resources", "read_cluster"]

CLUSTER_FORMAT = "metronome-cluster/1"


class _Grid(Record):
    format: Literal["metronome-cluster/1"] = "metronome-cluster/1"
    name: Name
    slot_ms: Positive
    hyperperiod: Annotated[int, Field(ge=1, le=HYPERPERIOD_LIMIT)]


class ClusterSpec(Fabric, _Grid):  # the fields of the last base come first
    """A cluster: a tree of interfaces and uplinks, and the grid of time that its jobs keep.

    All periods divide one hyperperiod, so that all links repeat together: what a link carries at
    which slot can then be kept as one row of numbers, and scored for any job that comes.

    Parameters
    ----------
    name
        Of the cluster.
    slot_ms, hyperperiod
        Length of a slot, and the hyperperiod in slots.
    nodes, racks, links, zone_costs, region_costs, gpu
        As in `Fabric`.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a cluster from a document of format ``metronome-cluster/1``."""
        return build(cls, data, CLUSTER_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    @classmethod
    def of_cluster(
        cls, name: str, cluster: Cluster | ListedCluster, slot_ms: int, hyperperiod_ms: int
    ) -> Self:
        """Return a scenario's cluster with a grid of time.

        Raises
        ------
        InputError
            If a number is out of range, or the slots do not fill the hyperperiod.
        """
        if slot_ms < 1 or hyperperiod_ms % slot_ms:
            raise InputError(
                f"{name}: slots of {show(slot_ms)} ms do not fill a hyperperiod of "
                f"{show(hyperperiod_ms)} ms; choose a divisor"
            )
        listed = network_of(cluster)
        tree = {field: getattr(listed, field) for field in Fabric.model_fields}
        try:
            return cls(name=name, slot_ms=slot_ms, hyperperiod=hyperperiod_ms // slot_ms, **tree)
        except ValidationError as error:
            raise InputError(f"{show(name)}: {explain(error)}") from None

    @cached_property
    def locales(self) -> tuple[tuple[str | None, str | None], ...]:
        """Region and rack of the nodes, each pair once."""
        return tuple(dict.fromkeys((node.region, node.rack) for node in self.nodes))

    @cached_property
    def locale_of(self) -> tuple[int, ...]:
        """The index in `locales` of each node."""
        index = {locale: i for i, locale in enumerate(self.locales)}
        return tuple(index[node.region, node.rack] for node in self.nodes)


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file; errors name the file, the place and the value."""
    return read_as(path, ClusterSpec.from_dict)
