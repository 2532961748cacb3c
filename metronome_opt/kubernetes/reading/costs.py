"""Network costs of a NetworkTopology as costs between racks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import permutations
from typing import Any

from metronome_opt.errors import first_few
from metronome_opt.kubernetes.claims.manifests import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject
from metronome_opt.kubernetes.reading.kinds import NETWORK_TOPOLOGY
from metronome_opt.kubernetes.reading.machines import Machine
from metronome_opt.kubernetes.reading.objects import Objects

_DEFAULT, _WEIGHTS = "nt-default", "UserDefined"  # which NetworkOverhead takes unless told
_MAX_RACKS = 512  # whose costs are written out for each pair

_Costs = Mapping[str, Mapping[tuple[str, str], int]]  # by ends, for regions and for zones


def read_costs(
    objects: Objects, machines: Mapping[str, Machine], cluster: Mapping[str, Any], notes: list[str]
) -> list[dict[str, Any]]:
    """Return the costs between the racks of a cluster's document.

    As the plugin does, costs between zones are taken within a region, others from the regions.
    """
    topology = _topology(objects.of(NETWORK_TOPOLOGY))
    if topology is None:
        return []
    costs = _costs_of(topology)
    ends: dict[str, tuple[str, str]] = {}
    for node in cluster["nodes"]:
        machine, rack = machines[node["name"]], node.get("rack")
        own = machine.region or "", machine.zone or ""
        if rack is not None and ends.setdefault(rack, own) != own:
            both = f"{'/'.join(own)} and {'/'.join(ends[rack])}"
            topology.fail(f"rack {rack} has nodes in two zones, {both}; label them equally")
    if len(ends) > _MAX_RACKS:
        topology.fail(f"is for at most {_MAX_RACKS} racks, and there are {len(ends)}; remove it")
    there = {REGION_KEY: {own[0] for own in ends.values()}, ZONE_KEY: {z for _, z in ends.values()}}
    for key, known in there.items():
        unknown = {name for pair in costs[key] for name in pair} - known
        if unknown:
            kind = key.rpartition("/")[2]
            notes.append(f"{topology.title}: no node is in {kind} {first_few(sorted(unknown))}")
    found = []
    for origin, destination in permutations(ends, 2):
        here, to = ends[origin], ends[destination]
        key, at = (REGION_KEY, 0) if here[0] != to[0] else (ZONE_KEY, 1)
        cost = costs[key].get((here[at], to[at]))
        if cost is not None:
            found.append({"origin": origin, "destination": destination, "cost": cost})
    return found


def _topology(known: list[KubernetesObject]) -> KubernetesObject | None:
    """Return the one NetworkTopology, of several the one of the default name; None without any."""
    chosen = [item for item in known if len(known) == 1 or item.name == _DEFAULT]
    if len(chosen) != 1 and known:
        known[1].fail(f"one of {len(known)}; keep the one that the scheduler plugin is told of")
    return chosen[0] if chosen else None


def _costs_of(topology: KubernetesObject) -> _Costs:
    weights = topology.at("spec.weights")
    sets = {(weight / "name").text(): weight for weight in weights.items()}
    if not sets:
        weights.fail("missing; a NetworkTopology states costs there")
    if _WEIGHTS not in sets and len(sets) > 1:
        weights.fail(f"several, and none is called {_WEIGHTS}; keep one")
    costs: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    chosen = sets.get(_WEIGHTS) or next(iter(sets.values()))
    for level in (chosen / "topologyList").items():
        key = level / "topologyKey"
        if key.text() not in (REGION_KEY, ZONE_KEY):
            key.fail(f"must be {REGION_KEY} or {ZONE_KEY}")
        for origin in (level / "originList").items():
            for item in (origin / "costList").items():
                _add(costs[key.value], (origin / "origin").text(), item)
    return costs


def _add(costs: dict[tuple[str, str], int], origin: str, item: Field) -> None:
    ends = origin, (item / "destination").text()
    cost = (item / "networkCost").integer(0)
    if costs.setdefault(ends, cost) != cost:
        (item / "networkCost").fail(f"{ends[0]} to {ends[1]} costs {costs[ends]} as well; keep one")
