"""A cluster whose machines are listed one by one, as a real one has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from metronome_opt.scenario.machines import MAX_RACKS, Fabric, Rack


class ListedCluster(Fabric):
    """Machines with names, GPUs and interfaces of their own; see `Fabric` for the fields."""

    topology: Literal["listed"]
    racks: Annotated[tuple[Rack, ...], Field(strict=False, max_length=MAX_RACKS)] = ()

    @model_serializer(mode="wrap")
    def _lead(self, as_usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write what it is before what it is made of."""
        return {"topology": self.topology, **as_usual(self)}

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(node.name for node in self.nodes)

    @property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs of each node."""
        return {node.name: node.has.gpus for node in self.nodes}

    @cached_property
    def nic(self) -> int:
        """The widest interface of a node in Mbit/s."""
        carries = {link.name: link.capacity for link in self.links}
        return max(carries[node.interface] for node in self.nodes)

    @cached_property
    def rack_cost(self) -> Mapping[tuple[str, str], int]:
        """Network costs between racks; those in two regions are as far apart as the regions."""
        region_of = {node.rack: node.region for node in self.nodes if node.rack is not None}
        costs = dict(self.zone_ways)
        if not self.region_ways:
            return costs
        for here, one in region_of.items():
            for there, other in region_of.items():
                cost = self.region_ways.get((one or "", other or ""))
                if cost is not None:
                    costs[here, there] = cost
        return costs
