"""States as documents, instances, schedules and deployments, and compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.files.records import parse_record
from metronome_opt.kubernetes.state.records import STATE_FORMAT, Reservation, StateSnapshot
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import instance_of, schedule_of
from metronome_opt.verify import verify_schedule
from tests.kubernetes.state.small import A, B, cluster, gang, state_of, usual

# ------------------------------------------------------------------ documents


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(usual().snapshot.model_dump_json())
    return found


def changed(path: str, value: Any) -> dict[str, Any]:
    found = document()
    *way, last = path.split(".")
    inner: Any = found
    for step in way:
        inner = inner[int(step) if step.isdecimal() else step]
    inner[int(last) if last.isdecimal() else last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "metronome-state/2", "format: must be 'metronome-state/1'"),
        ("claims.1.gang.name", "a", "claims[1]: a: is there twice"),
        ("claims.1.nodes", ["n0", "n9"], "claims[1]: b: nodes[1]: there is no node 'n9'"),
        ("claims.1.offset", 8, "claims[1]: b: offset: 8 must be below the period of 8 slots"),
        ("claims.1.gang.each.gpus", 2, "claims[1]: b: node n0: has less than its tasks take"),
        ("claims.1.gang.phases.0.rate", 2**30, "claims[1]: b: 1073741824 Mbit/s: must be"),
        ("capacities", {"none": 1}, "capacities.none: there is no link 'none'"),
        ("capacities", {"n0": 2**30}, "capacities.n0: n0: 1073741824 Mbit/s: must be below"),
        ("down", ["n0", "none"], "down[1]: there is no node 'none'"),
        ("cluster.hyperperiod", 10, "claims[0]: a: period: 12 slots do not divide"),
        ("more", 1, "more: unknown field, got 1"),
    ],
)
def test_a_contradiction_is_named_with_its_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        ClusterState.of_snapshot(parse_record(StateSnapshot, changed(path, value), STATE_FORMAT))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ in the words of others


def test_without_reservations_there_is_no_instance() -> None:
    with pytest.raises(InputError, match="no reservations are in force"):
        instance_of(ClusterState(cluster([2])))


def test_the_judge_finds_nothing_false_in_the_schedule() -> None:
    asked = gang(2, (0, 5, 90), name="stretched", period=7)
    stretched = Reservation(gang=asked, nodes=("n0", "n2"), offset=7, stretch=1)
    state = state_of(cluster([2, 2], gpus=3), A, B, stretched)
    schedule = schedule_of(state)
    assert dict(schedule.offsets) == {"a": 2, "b": 7, "stretched": 7}
    assert dict(schedule.stretch) == {"a": 0, "b": 0, "stretched": 1}
    assert verify_schedule(instance_of(state), schedule) == ()
    assert schedule.objectives["contention"]
    assert schedule.objectives["moves"] == 0
