"""The state of a cluster: what is free and what links carry, whatever has happened to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.records import Change, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.store import Store, read_cluster_state
from metronome_opt.scenario.cluster_input import ClusterSpec
from tests.kubernetes.state.events import differences, draw, rebuilt, small_cluster
from tests.kubernetes.state.small import A, B, cluster, running, state_of
from tests.tiers import examples


def test_a_reservation_that_is_in_force_is_not_taken_twice() -> None:
    events: list[Change] = []
    state = ClusterState(cluster([2, 2]))
    state.note = events.append
    assert state.reserve(A)
    before = rebuilt(state)
    assert not state.reserve(A)
    assert not state.revise([A])
    assert not state.revise([])
    assert not state.set_capacity("n0", 100)
    assert not state.set_node("n0", up=True)
    assert not state.unreserve("nobody")
    assert events == [Change({"a": A})]
    assert differences(state, before) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), InputError("no")])
def test_what_cannot_be_noted_does_not_happen(error: Exception) -> None:
    state = state_of(cluster([2, 2]), A, B)
    before = rebuilt(state)

    def note(_: Change) -> None:
        raise error

    state.note = note
    shifted = A.model_copy(update={"offset": 3})
    calls: list[Callable[[], object]] = [
        lambda: state.reserve(running("c", "n3 n2")),
        lambda: state.unreserve("a"),
        lambda: state.revise([shifted]),
        lambda: state.set_capacity("n0", 5),
        lambda: state.set_node("n0", up=False),
    ]
    for call in calls:
        with pytest.raises(type(error)):
            call()
    assert differences(state, before) == []


def flows_by_definition(spec: ClusterSpec, reservation: Reservation, link: str) -> int:
    """Count the tasks that cross a link: those that have others of their job on its far side."""
    homes = {node.name: node for node in spec.nodes}
    uplinks = {rack.name: rack.uplink for rack in spec.racks}
    count = 0
    for node in reservation.nodes:
        rack = homes[node].rack
        leaves_node = any(other != node for other in reservation.nodes)
        leaves_rack = any(homes[other].rack != rack for other in reservation.nodes)
        count += leaves_node and homes[node].rails[0] == link
        count += leaves_rack and rack is not None and uplinks[rack] == link
    return count


def residual_by_definition(state: ClusterState, link: str) -> list[int]:
    """Look up slot by slot what all reservations leave of a link."""
    left = [int(state.capacities[link])] * state.cluster.hyperperiod
    for reservation in state.reservations.values():
        flows = flows_by_definition(state.cluster, reservation, link)
        for slot in range(state.cluster.hyperperiod):
            at = (slot - reservation.offset) % (reservation.gang.period + reservation.stretch)
            for phase in reservation.gang.phases:
                if phase.start <= at < phase.start + phase.length:
                    left[slot] -= flows * phase.rate
    return left


class AnyLife(RuleBasedStateMachine):
    """Whatever happens, or is refused: a state is what its reservations say, and so is its file."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.store = Store.create(Path(self.folder.name) / "state", small_cluster())
        self.state = self.store.state

    @rule(chance=st.randoms(use_true_random=False))
    def something_happens(self, chance: random.Random) -> None:
        event = draw(chance, self.state)
        if event is None:
            return
        before = rebuilt(self.state)
        try:
            self.state.apply(event)
        except InputError:
            assert differences(self.state, before) == []

    @rule(chance=st.randoms(use_true_random=False))
    def once_more(self, chance: random.Random) -> None:
        if self.state.reservations:
            reservation = chance.choice(list(self.state.reservations.values()))
            assert not self.state.reserve(reservation)
            assert self.state.unreserve(reservation.job)
            assert not self.state.unreserve(reservation.job)

    @invariant()
    def nothing_is_left_over(self) -> None:
        assert differences(self.state, rebuilt(self.state)) == []

    @invariant()
    def what_is_left_of_links_is_by_definition(self) -> None:
        for link in self.state.cluster.links:
            found = self.state.residual(link.name).tolist()
            assert found == residual_by_definition(self.state, link.name)
        for job, reservation in self.state.reservations.items():
            for link in self.state.cluster.links:
                count = flows_by_definition(self.state.cluster, reservation, link.name)
                assert self.state.flows[job].get(link.name, 0) == count

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        path = Path(self.folder.name) / "state"
        assert differences(self.state, read_cluster_state(path)) == []
        self.store.close()
        self.folder.cleanup()


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = examples(50, stateful_step_count=30)
