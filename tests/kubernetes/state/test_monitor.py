"""The monitor: decisions about the reservations of a state, and what is applied.

Iteration times under it are in test_rephase.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from metronome_opt.errors import RemoteError
from metronome_opt.kubernetes.state.monitor import Monitor, SlotDecision
from metronome_opt.kubernetes.state.observations import Read
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from tests.kubernetes.state.states import reading, reservation, spec, state_of, totals

OBEYS = totals(computing_ms=700, burst_ms=300)
SENDS_LESS = totals(computing_ms=700, burst_ms=200, waited_ms=100)


def apart() -> ClusterState:
    """Return a, which is important, and b, half a period later: 40 slots between any two bursts."""
    return state_of(reservation("a", 0, weight=4), reservation("b", 100))


@dataclass
class Watched:
    """A monitor of a state, under a clock of its own."""

    state: ClusterState
    read: Read | None
    now_s: float = 1000.0
    moved: list[int] = field(default_factory=list)  # gangs, by decision
    decisions: list[SlotDecision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.monitor = Monitor(self.read, clock=lambda: self.now_s)
        self.monitor.follow(self.state)

    def run(self, seconds: int) -> None:
        """Let time pass; decide as often as the monitor wants to."""
        for _ in range(seconds):
            self.now_s += 1
            review = self.monitor.next(self.state)
            if review is not None:
                self.decisions.append(self.monitor.decide(review))
                self.moved.append(self.monitor.apply(self.state, review, self.decisions[-1]))


def test_what_differs_has_to_be_seen_twice() -> None:
    state = apart()
    watched = Watched(state, reading({"a": OBEYS, "b": SENDS_LESS}))
    watched.run(12)
    assert watched.decisions[-1].reason.startswith(
        "not confirmed yet: b: period without waiting in ms 900"
    )
    assert state.reservations["b"] == apart().reservations["b"]
    watched.run(10)
    gang = state.reservations["b"].gang
    assert (gang.period, gang.phases[0].length, state.reservations["b"].period) == (180, 40, 200)
    assert "b: bursts as measured" in watched.decisions[-1].reason


def test_jobs_that_come_are_decided_about_without_measurements() -> None:
    # Three bursts of 60 slots fit beside each other in 200, of which 5 are idle.
    def short(name: str, offset: int) -> Reservation:
        return reservation(name, offset, length=60, period=195, stretch=5)

    state = state_of(short("a", 0), short("b", 70))
    watched = Watched(state, None)
    watched.run(5)
    state.reserve(short("c", 10))  # amid a
    watched.run(5)
    assert watched.moved[-1]
    starts = sorted(held.offset for held in state.reservations.values() if held.gated)
    assert len(starts) == 3
    following = [*starts[1:], starts[0] + 200]
    assert all(after - start >= 60 for start, after in zip(starts, following, strict=True))


def test_jobs_of_any_periods_are_decided_about() -> None:
    state = ClusterState(spec(hyperperiod=25_200))
    for name, period, offset in (("a", 997, 0), ("b", 991, 300), ("c", 983, 600)):
        stretch = 1008 - period
        state.reserve(reservation(name, offset, length=200, period=period, stretch=stretch))
    watched = Watched(state, None)
    watched.run(5)
    assert watched.moved == [0]  # they fit, and stay
    state.reserve(reservation("d", 0, length=200, period=977, stretch=31))
    watched.run(5)
    starts = sorted(held.offset for held in state.reservations.values() if held.gated)
    assert len(starts) == 4


def test_jobs_that_use_no_link_are_no_matter() -> None:
    alone = reservation("alone", 0, nodes="n0 n0")
    monitor = Monitor(None)
    assert monitor.review(state_of(alone), measured=True) is None
    review = Monitor(None).review(state_of(alone, reservation("a", 7)), measured=True)
    assert review is not None
    assert list(review.reservations) == ["a"]


def test_a_decision_about_other_reservations_is_not_applied() -> None:
    state = apart()
    monitor = Monitor(reading({"a": OBEYS, "b": SENDS_LESS}), persist=1, clock=lambda: 1000.0)
    review = monitor.review(state, measured=True)
    assert review is not None
    decision = monitor.decide(review)
    assert decision.reservations
    state.revise([state.reservations["b"].model_copy(update={"offset": 110})])
    before = state.snapshot
    assert monitor.apply(state, review, decision) == 0
    assert state.snapshot == before
    state = apart()
    monitor.apply(state, review, decision)
    before = state.snapshot
    assert before.claims[1].gang.phases[0].length == 40  # of slots of 5 ms
    assert monitor.apply(state, review, decision) == 0  # a second time
    assert state.snapshot == before


def test_without_an_answer_nothing_changes_and_the_fault_is_told() -> None:
    def broken(*_: float) -> list[object]:
        raise RemoteError("http://p: cannot be reached")

    state = apart()
    watched = Watched(state, broken)  # type: ignore[arg-type]
    watched.run(25)
    assert [decision.fault for decision in watched.decisions if decision.fault] == [
        "http://p: cannot be reached"
    ] * 2
    assert state.reservations == apart().reservations
