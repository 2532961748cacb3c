"""Waiting for a cluster to serve what is defined."""

from __future__ import annotations

from typing import Any, cast

import pytest

from metronome_opt.kubernetes.cluster import ClusterError, Connection
from metronome_opt.kubernetes.cluster.definitions import wait_established
from metronome_opt.kubernetes.cluster.kinds import DEFINITIONS
from metronome_opt.kubernetes.crd import custom_resource_definitions
from tests.kubernetes.cluster.exports import GROUP
from tests.kubernetes.cluster.fake import FakeCluster


def condition(kind: str, status: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status}]}


def test_a_definition_is_waited_for_until_its_status_says_that_it_is_established() -> None:
    cluster = FakeCluster()
    definition = custom_resource_definitions(GROUP)[0]
    # What a server says of a definition one moment after the other.
    said = iter(
        [
            None,
            {"conditions": None},
            condition("NamesAccepted", "True"),
            condition("Established", "False"),
            condition("Established", "True"),
        ]
    )

    def pass_on(_seconds: float = 0) -> None:
        cluster.seed(DEFINITIONS, {**definition, "status": next(said)})

    pass_on()
    wait_established(cast(Connection, cluster), [definition], 60, sleep=pass_on)
    assert list(said) == []


def test_a_definition_that_is_not_established_in_time_is_named() -> None:
    cluster = FakeCluster()
    definition = custom_resource_definitions(GROUP)[0]
    with pytest.raises(ClusterError, match=f"stbandwidthcapacities.{GROUP} is not established"):
        wait_established(cast(Connection, cluster), [definition], 0)
