"""`Model` builds the instance of its records, with the messages of `Instance`."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from metronome_opt import Instance, Job, Link, Model, Phase
from metronome_opt.errors import InputError


def test_model_builds_the_instance_of_the_same_records() -> None:
    model = Model("pair", slot_ms=5).add_link("l", capacity=100).add_link("m", capacity=50)
    model.add_job("a", period=8, phases=[(0, 3, 60), (4, 1, 9)], links=["l", "m"])
    model.add_job("b", period=4, phases=[{"start": 1, "length": 2, "rate": 7}], links={"l": 2})
    model.add_job("c", period=4, phases=[(0, 1, 1)], links=[], weight=0, max_stretch=2)
    assert model.solve("greedy", "contention").instance == model.instance()
    assert model.instance() == Instance(
        name="pair",
        slot_ms=5,
        links=(Link(name="l", capacity=100), Link(name="m", capacity=50)),
        jobs=(
            Job(
                name="a",
                period=8,
                phases=(Phase(start=0, length=3, rate=60), Phase(start=4, length=1, rate=9)),
                links={"l": 1, "m": 1},
            ),
            Job(name="b", period=4, phases=(Phase(start=1, length=2, rate=7),), links={"l": 2}),
            Job(
                name="c",
                period=4,
                phases=(Phase(start=0, length=1, rate=1),),
                links={},
                weight=0,
                max_stretch=2,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links": ["other"]}, r"jobs\[0\]\.links\.other: there is no such link"),
        ({"phases": [(0, 3)]}, r"jobs\[0\]\.phases\[0\]\.rate: missing"),
        ({"phases": [(0, 3, 4, 5)]}, r"jobs\[0\]\.phases\[0\]\.3: "),
        ({"wait": 3}, r"jobs\[0\]\.wait: "),
    ],
)
def test_model_has_messages_of_instance(change: dict[str, Any], message: str) -> None:
    fields = {"period": 8, "phases": [(0, 3, 60)], "links": ["l"], **change}
    with pytest.raises(InputError, match=message) as refusal:
        Model().add_link("l", capacity=100).add_job("a", **fields).instance()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("written", ["100000", "1e5", "100000.0"])
def test_float_with_integer_value_is_integer(written: str) -> None:
    capacity: Any = json.loads(written)
    built = Model().add_link("l", capacity=capacity)
    built.add_job("a", period=8.0, phases=[(0, 3, 6e1)], links={"l": 2.0})  # type: ignore[arg-type, dict-item, list-item]
    instance = built.instance()
    for link in (*instance.links, Link(name="l", capacity=capacity)):
        assert link == Link(name="l", capacity=100_000)
        assert type(link.capacity) is int
    (job,) = instance.jobs
    numbers = [job.period, job.phases[0].rate, job.links["l"]]
    assert (numbers, set(map(type, numbers))) == ([8, 60, 2], {int})


@pytest.mark.parametrize("capacity", [1.5, math.nan, math.inf, -math.inf, True, "100000", "1e5"])
def test_capacity_must_be_integer(capacity: Any) -> None:
    with pytest.raises(InputError, match=r"^Link: capacity: must be an integer, got "):
        Link(name="l", capacity=capacity)
    with pytest.raises(InputError, match=r"^Link: capacity: must be at least 1, got 0"):
        Link(name="l", capacity=0)
