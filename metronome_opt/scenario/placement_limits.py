"""Limits on the nodes on which the tasks of one job may run together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from metronome_opt.errors import first_few, quote
from metronome_opt.scenario.cluster import ANY_COST, Cluster


class PlacementLimits(NamedTuple):
    """Limits of a job, as `JobSpec` has them; the defaults allow any nodes that are connected."""

    most_racks: int | None = None
    within: int | None = None
    allowed_nodes: tuple[str, ...] | None = None
    max_network_cost: int = ANY_COST

    @classmethod
    def of(cls, record: object) -> PlacementLimits:
        """Return the limits of a record with their fields."""
        return cls(*(getattr(record, field) for field in cls._fields))

    def allowed(self, cluster: Cluster) -> Set[str]:
        """Return the nodes that `allowed_nodes` names, itself or a rack above them; all if None."""
        if self.allowed_nodes is None:
            return cluster.nodes_by_name.keys()
        key = "allowed_nodes", tuple(self.allowed_nodes)
        if key not in cluster.memo:
            named = {*self.allowed_nodes}
            cluster.memo[key] = {
                node.name
                for node in cluster.nodes
                if node.name in named or not named.isdisjoint(cluster.uplink_paths[node.rack])
            }
        found: Set[str] = cluster.memo[key]
        return found

    def domains(self, cluster: Cluster) -> Mapping[str, str] | None:
        """Return by node the node or rack below which all tasks must run; None where all may."""
        if self.within is None and cluster.has_core:
            return None
        key = "within", self.within
        if key not in cluster.memo:
            cluster.memo[key] = _domains(cluster, self.within)
        found: Mapping[str, str] = cluster.memo[key]
        return found

    def rooms(
        self, cluster: Cluster, room: Mapping[str, int], tasks: int
    ) -> Iterator[Mapping[str, int]]:
        """Yield room for all tasks on nodes of which any choice is within the limits but costs.

        Parameters
        ----------
        room
            Number of tasks that there is room for, by node.
        """
        domains, allowed = self.domains(cluster), self.allowed(cluster)
        parts: dict[str, dict[str, int]] = defaultdict(dict)
        for node, count in room.items():
            if node in allowed and count:
                parts[domains[node] if domains else ""][node] = count
        for part in parts.values():
            if self.most_racks is not None:
                by_rack: dict[str | None, int] = defaultdict(int)
                for node, count in part.items():
                    by_rack[cluster.nodes_by_name[node].rack] += count
                racks = sorted(by_rack, key=lambda rack: -by_rack[rack])[: self.most_racks]
                part = {n: part[n] for n in part if cluster.nodes_by_name[n].rack in racks}
            if sum(part.values()) >= tasks:
                yield part

    def violation(self, cluster: Cluster, nodes: Sequence[str]) -> str | None:
        """Return in words which limit the nodes of tasks exceed; None if they exceed none."""
        if self.most_racks is not None:
            racks = len({cluster.nodes_by_name[node].rack for node in nodes})
            if racks > self.most_racks:
                return f"they stand in {racks} racks, and it may span {self.most_racks}"
        domains = self.domains(cluster)
        if domains is not None:
            other = next((node for node in nodes if domains[node] != domains[nodes[0]]), None)
            if other is not None:
                common = "switch" if self.within is None else f"switch up to tier {self.within}"
                return f"{nodes[0]} and {other} are below no common {common}"
        if self.allowed_nodes is not None:
            allowed = self.allowed(cluster)
            if other := next((node for node in nodes if node not in allowed), None):
                return f"{other} is none of its allowed_nodes"
        if self.max_network_cost < ANY_COST:
            from metronome_opt.scenario.overhead import is_tolerated  # few jobs need it

            if not is_tolerated(cluster, nodes, self.max_network_cost):
                return (
                    "network costs between them are higher than its max_network_cost, "
                    f"{self.max_network_cost}"
                )
        return None

    def describe(self, cluster: Cluster) -> str:
        """Return in words the limits, and the links that carry nothing; empty without any."""
        stated = self._replace(allowed_nodes=None).stated()
        if self.allowed_nodes is not None:
            stated["number of allowed_nodes"] = len(self.allowed_nodes)
        words = [f"{name} is {value}" for name, value in stated.items()]
        if not cluster.has_core:
            words.append("roots are not connected (has_core: false)")
        if failed := [link for link, mbps in cluster.capacities.items() if not mbps]:
            words.append(f"links that carry nothing: {first_few(failed)}")
        return ", ".join(words)

    def stated(self) -> dict[str, Any]:
        """Return the fields that limit anything."""
        usual = NO_LIMITS._asdict()
        return {name: value for name, value in self._asdict().items() if value != usual[name]}


NO_LIMITS = PlacementLimits()


def tier_of_racks(cluster: Cluster) -> Mapping[str, int]:
    """Return the tier of each rack: 1 of nodes, 2 of such racks, and so on."""
    tiers: dict[str, int] = defaultdict(int)
    for home in {node.rack for node in cluster.nodes}:
        for tier, rack in enumerate(cluster.uplink_paths[home], start=1):
            tiers[rack] = max(tier, tiers[rack])
    return tiers


def name_tiers(cluster: Cluster) -> str:
    """Return the tiers of a cluster in words, each with one of its switches."""
    by_tier = {tier: rack for rack, tier in tier_of_racks(cluster).items()}
    named = (f"{tier} (such as {quote(by_tier[tier])})" for tier in sorted(by_tier))
    return ", ".join(["0 (a node)", *named])


def _domains(cluster: Cluster, within: int | None) -> Mapping[str, str]:
    """Return the highest rack up to a tier above each node, or the node itself.

    Names of nodes and racks are told apart.
    """
    tiers, homes = tier_of_racks(cluster), {node.rack for node in cluster.nodes}
    above: dict[str | None, str | None] = {
        home: next(
            (
                f"rack {rack}"
                for rack in reversed(cluster.uplink_paths[home])
                if within is None or tiers[rack] <= within
            ),
            None,
        )
        for home in homes
    }
    return {node.name: above[node.rack] or f"node {node.name}" for node in cluster.nodes}
