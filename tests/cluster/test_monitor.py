"""The monitor: claims of a state, decisions about them, and what is applied.

Iteration times under it are in test_rephase.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.gates import Read
from metronome_opt.cluster.monitor import (
    Monitor,
    Question,
    Rephased,
    claims_of,
    with_cushions,
)
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import snapshot_of
from metronome_opt.errors import RemoteError
from tests.cluster.states import reading, reservation, state_of, totals

OBEYS = totals(computing_ms=700, burst_ms=300)
SENDS_LESS = totals(computing_ms=700, burst_ms=200, waited_ms=100)


def apart() -> ClusterState:
    """Return a, which is important, and b, half a period later: 40 slots between any two bursts."""
    return state_of(reservation("a", 0, weight=4), reservation("b", 100))


@pytest.mark.parametrize(
    ("placed", "cushions"),
    [
        ([reservation("a", 0), reservation("b", 100)], {"a": 20, "b": 20}),
        # 41 slots after a and 39 before it: each may use half of the smaller gap, in whole slots.
        ([reservation("a", 0), reservation("b", 101)], {"a": 19, "b": 19}),
        # On n1 c begins 10 slots after a; on n2 d begins 30 after c.
        (
            [
                reservation("a", 0),
                reservation("b", 100),
                reservation("c", 70, length=10, nodes="n1 n2"),
                reservation("d", 110, length=10, nodes="n2 n3"),
            ],
            {"a": 5, "b": 5, "c": 5, "d": 15},
        ),
        # Where something is late there is none; a job that meets no other may be anywhere.
        (
            [reservation("a", 0), reservation("b", 30), reservation("c", 0, nodes="n2 n3")],
            {"a": 0, "b": 0, "c": 100},
        ),
        ([reservation("a", 0), reservation("b", 100, period=190, stretch=10)], {"a": 20, "b": 20}),
    ],
)
def test_each_of_two_jobs_may_use_half_of_the_gap_between_them(
    placed: list[Reservation], cushions: dict[str, int]
) -> None:
    claims = claims_of(state_of(*placed, nodes=4))
    assert claims is not None
    assert with_cushions(claims).cushions == cushions
    assert claims.stretch == {each.job: each.stretch for each in placed}
    assert claims.hyperperiod == 400


def test_jobs_that_use_no_link_have_no_claims() -> None:
    alone = reservation("alone", 0, nodes="n0 n0")
    assert claims_of(state_of()) is None
    assert claims_of(state_of(alone)) is None
    claims = claims_of(state_of(alone, reservation("a", 7)))
    assert claims is not None
    assert dict(claims.offsets) == {"a": 7}


# ------------------------------------------------------------------ checks


@dataclass
class Watched:
    """A monitor of a state, under a clock of its own."""

    state: ClusterState
    read: Read | None
    now_s: float = 1000.0
    rephased: list[Rephased] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.monitor = Monitor(self.read, clock=lambda: self.now_s)
        self.monitor.follow(self.state)
        self.lines: list[str] = []

    def run(self, seconds: int) -> None:
        """Let time pass; decide as often as the monitor wants to."""
        for _ in range(seconds):
            self.now_s += 1
            following = self.monitor.next(self.state)
            if isinstance(following, Question):
                following = self.monitor.apply(
                    self.state, following, self.monitor.answer(following)
                )
            if following is not None:
                self.rephased.append(following)
                self.lines.append(following.line)


def test_jobs_that_obey_keep_their_slots() -> None:
    state = apart()
    before = dict(state.claims)
    watched = Watched(state, reading({"a": OBEYS, "b": OBEYS}))
    watched.run(65)
    assert state.claims == before
    assert {each.gangs for each in watched.rephased} == {0}
    assert watched.lines[-1] == "all is as claimed"


def test_what_differs_has_to_be_seen_twice() -> None:
    state = apart()
    watched = Watched(state, reading({"a": OBEYS, "b": SENDS_LESS}))
    watched.run(12)
    assert watched.lines[-1].startswith("not believed yet: b: period without waiting in ms 900")
    assert state.claims["b"] == apart().claims["b"]
    watched.run(10)
    gang = state.claims["b"].gang
    assert (gang.period, gang.phases[0].length, state.claims["b"].period) == (180, 40, 200)
    assert "b: bursts as measured" in watched.lines[-1]


def test_jobs_that_come_are_decided_about_without_measurements() -> None:
    # Three bursts of 60 slots fit beside each other in 200, of which 5 are idle.
    def short(name: str, offset: int) -> Reservation:
        return reservation(name, offset, length=60, period=195, stretch=5)

    state = state_of(short("a", 0), short("b", 70))
    watched = Watched(state, None)
    watched.run(5)
    state.reserve(short("c", 10))  # amid a
    watched.run(5)
    assert watched.rephased[-1].gangs
    starts = sorted(each.offset for each in state.claims.values() if each.gated)
    assert len(starts) == 3
    following = [*starts[1:], starts[0] + 200]
    assert all(after - start >= 60 for start, after in zip(starts, following, strict=True))


def test_a_decision_about_other_claims_is_not_applied() -> None:
    state = apart()
    monitor = Monitor(reading({"a": OBEYS, "b": SENDS_LESS}), persist=1, clock=lambda: 1000.0)
    question = monitor.ask(state, measured=True)
    assert question is not None
    answer = monitor.answer(question)
    assert answer.claims is not None
    state.revise([state.claims["b"].model_copy(update={"offset": 110})])
    before = snapshot_of(state)
    assert monitor.apply(state, question, answer).gangs == 0
    assert snapshot_of(state) == before
    state = apart()
    monitor.apply(state, question, answer)
    before = snapshot_of(state)
    assert before.claims[1].gang.phases[0].length == 40  # of slots of 5 ms
    assert monitor.apply(state, question, answer).gangs == 0  # a second time
    assert snapshot_of(state) == before


def test_without_an_answer_nothing_changes_and_the_fault_is_told() -> None:
    def broken(*_: float) -> list[object]:
        raise RemoteError("http://p: cannot be reached")

    state = apart()
    watched = Watched(state, broken)  # type: ignore[arg-type]
    watched.run(25)
    assert [each.fault for each in watched.rephased if each.fault] == [
        "http://p: cannot be reached"
    ] * 2
    assert state.claims == apart().claims
