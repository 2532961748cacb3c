"""Network costs that break ties: the golden check of the real plugin, and every rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from metronome_opt.instance import Link
from metronome_opt.scenario.cluster import ClusterSpec, Distance, Host, Rack, Resources
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.nodes import network_costs, normalise, normalised
from metronome_opt.scheduling.state import ClusterState
from tests.scheduling.clusters import gang

Label = str | None
Ways = Mapping[tuple[str, str], int]


def labelled(labels: Sequence[tuple[Label, Label]], zones: Ways, regions: Ways) -> Cycle:
    """Return a gang and a cluster whose nodes have these regions and racks."""
    names = [f"n-{number}" for number in range(1, len(labels) + 1)]
    racks = {rack for _, rack in labels if rack}
    known = racks | {region for region, _ in labels if region}
    zone_costs, region_costs = (
        tuple(
            Distance(origin=one, destination=other, cost=cost)
            for (one, other), cost in ways.items()
            if {one, other} <= known
        )
        for ways in (zones, regions)
    )
    spec = ClusterSpec(
        name="labelled",
        slot_ms=1,
        hyperperiod=12,
        nodes=tuple(
            Host(name=name, has=Resources(gpus=9), interface=name, region=region, rack=rack)
            for name, (region, rack) in zip(names, labels, strict=True)
        ),
        racks=tuple(Rack(name=rack) for rack in sorted(racks)),
        links=tuple(Link(name=name, capacity=100) for name in names),
        zone_costs=zone_costs,
        region_costs=region_costs,
    )
    return Cycle(ClusterState(spec), gang(8))


def costs(cycle: Cycle, placed: Sequence[int]) -> list[int]:
    every = np.arange(len(cycle.room))
    found: list[int] = network_costs(cycle, cycle.partial(placed), every).tolist()
    return found


WEST, EAST = "us-west-1", "us-east-1"
NODES = [(WEST if n < 5 else EAST, f"z{(n + 1) // 2}") for n in range(1, 9)]
ZONES = {("z1", "z2"): 5, ("z2", "z1"): 5, ("z3", "z4"): 10, ("z4", "z3"): 10}
REGIONS = {(WEST, EAST): 20, (EAST, WEST): 20}


@pytest.mark.parametrize(
    ("placed", "raw", "scores"),
    [
        ([4], [20, 20, 20, 20, 0, 1, 10, 10], [0, 0, 0, 0, 100, 95, 50, 50]),
        ([0], [0, 1, 5, 5, 20, 20, 20, 20], [100, 95, 75, 75, 0, 0, 0, 0]),
        ([], [0] * 8, [0] * 8),
    ],
)
def test_the_real_plugin_gave_the_same_costs_and_scores(
    placed: list[int], raw: list[int], scores: list[int]
) -> None:
    assert costs(labelled(NODES, ZONES, REGIONS), placed) == raw
    assert normalised(np.array(raw)).tolist() == scores


@pytest.mark.parametrize(
    ("there", "cost"),
    [
        (("r", "a"), 1),  # one zone
        (("r", "b"), 7),
        (("r", "c"), 100),  # nothing known
        (("r", None), 100),
        (("s", "d"), 30),  # another region
        (("t", "e"), 100),
        ((None, "f"), 100),
        ((None, None), 100),  # no labels
    ],
)
def test_a_way_costs_what_zones_and_regions_say(there: tuple[Label, Label], cost: int) -> None:
    zones, regions = {("a", "b"): 7, ("b", "a"): 8}, {("r", "s"): 30, ("s", "r"): 40}
    assert costs(labelled([("r", "a"), there], zones, regions), [1]) == [cost, 0]


def test_ties_are_broken_by_network_score_and_then_by_name() -> None:
    names = ["d", "c", "b", "a"]
    order = normalise(names, np.array([90, 90, 100, 90]), np.array([50, 80, 0, 50]))
    assert [names[index] for index in order] == ["b", "c", "a", "d"]
