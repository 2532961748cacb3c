"""Links that come to carry more or less while jobs run, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.simulate.engine import Engine
from tests.builders import job
from tests.simulate.cases import links
from tests.simulate.played import engine_of
from tests.simulate.test_conservation import moments
from tests.strategies import assigned, crowded
from tests.tiers import examples

ROUNDING = 1e-9
SHARINGS = st.sampled_from(("fair", "strict", "weighted"))
CHANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(1, 120)))
ITERATIONS = 3

Change = tuple[float, str, float]
"""When, on which link, and how much it carries from then on."""


def ends(
    engine: Engine,
    jobs: Sequence[Job],
    changes: Sequence[Change],
    starts: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return when each job ends, if capacities change meanwhile."""
    for index, each in enumerate(jobs):
        engine.enter(index, each.links, at=(starts or {}).get(each.name, 0.0))
    found: dict[str, float] = {}
    for at, link, capacity in sorted(changes):
        _run_until(engine, at, found)
        engine.set_capacity(link, capacity)
    _run_until(engine, math.inf, found)
    return found


def _run_until(engine: Engine, until: float, found: dict[str, float]) -> None:
    while len(found) < len(engine.runners):
        finished = engine.run(until)
        if finished is None:
            return
        found[engine.runners[finished].name] = engine.now


# ------------------------------------------------------------------ what links tell


def test_a_link_that_carries_enough_again_is_over_no_more() -> None:
    """Over from 80 to 90 and from 95 to 100; 4000 - 2000 - 500 - 500 - 250 are left then."""
    instance = links(job("a", 10, (6, 4, 100)))
    engine = engine_of(instance)
    changes = [(80, "link", 50), (90, "link", 100), (95, "link", 50), (100, "link", 120)]
    assert ends(engine, instance.jobs, changes) == {"a": 107.5}
    busy, over = engine.busy()
    assert (busy.tolist(), over.tolist()) == ([47.5], [15])


# ------------------------------------------------------------------ laws


def named(instance: Instance, changes: Sequence[tuple[int, int, int]]) -> list[Change]:
    names = [link.name for link in instance.links]
    return [(float(at), names[link % len(names)], float(rate)) for at, link, rate in changes]


def started(instance: Instance, offsets: Mapping[str, int]) -> dict[str, float]:
    return {name: float(offset * instance.slot_ms) for name, offset in offsets.items()}


@examples(100)
@given(assigned(crowded(fixed=False)), CHANGES, SHARINGS)
def test_volume_is_carried_within_changing_capacities(
    drawn: tuple[Instance, dict[str, int]], changes: Sequence[tuple[int, int, int]], sharing: str
) -> None:
    instance, offsets = drawn
    engine = engine_of(instance, iterations=ITERATIONS, sharing=sharing)
    told = named(instance, changes)
    done = ends(engine, instance.jobs, told, started(instance, offsets))
    assert set(done) == {each.name for each in instance.jobs}
    sent = [
        sum(
            each.volume * instance.slot_ms * each.links.get(link.name, 0) * ITERATIONS
            for each in instance.jobs
        )
        for link in instance.links
    ]
    assert engine.carried().tolist() == pytest.approx(sent, rel=ROUNDING)
    for moment in moments(engine.trace()):
        for link in instance.links:
            carried = sum(rate for (name, _), rate in moment.rates.items() if name == link.name)
            assert carried <= carries(link, told, moment.time) * (1 + ROUNDING)


def carries(link: Link, changes: Sequence[Change], time: float) -> float:
    """Return the capacity of a link from a moment on."""
    past = [rate for at, name, rate in sorted(changes) if name == link.name and at <= time]
    return past[-1] if past else link.capacity


def test_a_link_that_carries_nothing_is_refused() -> None:
    engine = Engine({"l": 100.0}, [])
    with pytest.raises(InputError, match="l: capacity: must be above 0"):
        engine.set_capacity("l", 0.0)
