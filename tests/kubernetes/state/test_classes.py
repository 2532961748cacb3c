"""Traffic classes of jobs that come to a cluster whose links serve several in strict order."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.manifests import build_manifests
from metronome_opt.kubernetes.claims.names import CLAIM
from metronome_opt.kubernetes.controller.claims import pod_annotations, slots_of
from metronome_opt.kubernetes.state.placement import _in_class
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import exported
from tests.kubernetes.state.states import reservation, spec


def classed(count: int) -> ClusterState:
    return ClusterState(spec().model_copy(update={"traffic_classes": count}))


def come(state: ClusterState, name: str, weight: int, length: int) -> int:
    """Let an ungated job come that sends for so many of its 200 slots; return its class."""
    asked = reservation(name, 0, length=length, weight=weight).model_copy(update={"gated": False})
    new = _in_class(state, asked, state.placement(asked))
    state.reserve(new)
    return new.traffic_class


@pytest.mark.parametrize(("count", "middle"), [(1, 0), (2, 0), (3, 1), (8, 3)])
def test_job_that_meets_no_other_gets_the_class_in_the_middle(count: int, middle: int) -> None:
    state = classed(count)
    assert come(state, "a", 1, length=120) == middle
    # Nothing is gained where bursts have room for one another either.
    assert come(state, "b", 4, length=1) == middle


@pytest.mark.parametrize(("weights", "classes"), [((1, 100), (1, 2)), ((100, 1), (1, 0))])
def test_heavier_job_goes_before_one_that_runs_and_a_lighter_one_after_it(
    weights: tuple[int, int], classes: tuple[int, int]
) -> None:
    # Sending for 60 of 200 slots they meet for a while, and then no more if one goes first.
    state = classed(4)
    came = zip("ab", weights, strict=True)
    assert tuple(come(state, name, weight, length=60) for name, weight in came) == classes


def test_no_job_goes_first_where_others_would_lose_too_much() -> None:
    # Two that send for 150 of 200 slots always meet: the one that goes first costs the other 50.
    state = classed(4)
    assert come(state, "a", 1, length=150) == come(state, "b", 100, length=150) == 1


def test_class_that_the_cluster_does_not_have_is_refused() -> None:
    held = reservation("a", 0).model_copy(update={"traffic_class": 2})
    with pytest.raises(InputError, match="a: traffic_class: 2: the cluster's highest is 1"):
        classed(2).reserve(held)


def test_class_is_stated_where_gates_and_nccl_read_it() -> None:
    state = classed(4)
    held: Reservation = reservation("a", 0).model_copy(update={"traffic_class": 3})
    state.reserve(held)
    annotations = pod_annotations(slots_of(state, held), "a-0")
    values = {key.rpartition("/")[2]: value for key, value in annotations.items()}
    assert '"traffic_class": 3' in values["slots"]
    assert (values["nccl-ib-tc"], values["nccl-ib-sl"]) == ("96", "3")  # CS3, 24, times 4
    manifests = build_manifests(*exported(state))
    claims = [item for some in manifests.values() for item in some if item["kind"] == CLAIM]
    assert [claim["spec"]["allocation"]["trafficClass"] for claim in claims] == [3, 3]
