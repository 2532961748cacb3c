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


SHARED = job("a", 10, (6, 4, 100), links={"link": 1, "other": 1})


@pytest.mark.parametrize(
    ("jobs", "sharing", "change", "expected"),
    [
        # 4000 from 60 on: 2000 until 80, then 2000 at 50 instead of 100.
        ([job("a", 10, (6, 4, 100))], "fair", (80, "link", 50), {"a": 120}),
        # a wants 20 of 100, and b 80: nobody is late until 80. Then 30 are 15 for each. a has sent
        # 400 of 800 and ends its burst 400 / 15 later, at 106.67. b has sent 1600 and 400 since;
        # the other 1200 of 3200 take 40 ms at 30.
        (
            [job("a", 10, (6, 4, 20)), job("b", 10, (6, 4, 80))],
            "fair",
            (80, "link", 30),
            {"a": 80 + 400 / 15, "b": 80 + 400 / 15 + 40},
        ),
        # a has 100 until 80, and 50 then: its last 2000 take 40 ms. b waits until 120: 4000 at 50.
        (
            [job("a", 10, (6, 4, 100), weight=2), job("b", 10, (6, 4, 100))],
            "strict",
            (80, "link", 50),
            {"a": 120, "b": 200},
        ),
        # a is on both links, b on the other one: 50 each. At 80 a has no more than 20, b 80 then.
        # 1000 of 4000 of both are gone at 80. b's other 3000 take until 117.5, a has sent 750 more
        # by then; 2250 at 20 take 112.5.
        (
            [SHARED, job("b", 10, (6, 4, 100), links={"other": 1})],
            "fair",
            (80, "link", 20),
            {"a": 230, "b": 117.5},
        ),
    ],
)
def test_bursts_take_as_long_as_was_worked_out(
    jobs: list[Job], sharing: str, change: Change, expected: dict[str, float]
) -> None:
    instance = links(*jobs, other=100)
    told = ends(engine_of(instance, sharing=sharing), instance.jobs, [change])
    assert told == pytest.approx(expected, rel=ROUNDING)


# ------------------------------------------------------------------ what links tell


def test_a_link_that_carries_enough_again_is_over_no_more() -> None:
    """Over from 80 to 90 and from 95 to 100; 4000 - 2000 - 500 - 500 - 250 are left then."""
    instance = links(job("a", 10, (6, 4, 100)))
    engine = engine_of(instance)
    changes = [(80, "link", 50), (90, "link", 100), (95, "link", 50), (100, "link", 120)]
    assert ends(engine, instance.jobs, changes) == {"a": 107.5}
    busy, over = engine.busy()
    assert (busy.tolist(), over.tolist()) == ([47.5], [15])


def test_the_trace_shows_the_new_rates_from_the_moment_of_the_change_on() -> None:
    instance = links(job("a", 10, (6, 4, 100)))
    engine = engine_of(instance)
    ends(engine, instance.jobs, [(80, "link", 50)])
    trace = engine.trace()
    assert trace["time_ms"].tolist() == [60, 80, 120]
    assert trace["rate_mbps"].tolist() == [100, 50, 0]


def test_a_trace_holds_more_changes_than_fit_into_its_memory() -> None:
    """Two bursts of 1000 s; the link is halved and comes back 70,000 times in the first 100."""
    instance = links(*(job(name, 100_000, (0, 100_000, 50)) for name in "ab"))
    engine = engine_of(instance)
    for index in range(2):
        engine.enter(index, {"link": 1})
    times = 70_000
    for change in range(times):
        engine.run(float(1 + change))
        engine.set_capacity("link", 100 if change % 2 else 50)
    assert engine.run(math.inf) in (0, 1)
    # 1 s at 100, 69,999 changes a ms apart, half of them at 50, and then at 100.
    assert engine.now == pytest.approx(1_000_000 + times / 2 / 2)
    trace = engine.trace()
    assert len(trace) == 2 + 2 * times + 1
    assert trace["rate_mbps"].iloc[2:-1].tolist() == [25, 25, 50, 50] * (times // 2)


def test_a_network_that_is_never_in_the_way_stays_so() -> None:
    instance = links(*(job(name, 10, (6, 4, 100)) for name in "ab"))
    engine = engine_of(instance, contends=False)
    assert ends(engine, instance.jobs, [(80, "link", 1)]) == {"a": 100, "b": 100}


# ------------------------------------------------------------------ laws


def named(instance: Instance, changes: Sequence[tuple[int, int, int]]) -> list[Change]:
    names = [link.name for link in instance.links]
    return [(float(at), names[link % len(names)], float(rate)) for at, link, rate in changes]


def started(instance: Instance, offsets: Mapping[str, int]) -> dict[str, float]:
    return {name: float(offset * instance.slot_ms) for name, offset in offsets.items()}


@examples(100)
@given(assigned(crowded(fixed=False)), CHANGES, SHARINGS)
def test_whatever_changes_all_is_carried_and_no_link_carries_too_much(
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
