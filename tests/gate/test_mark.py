"""Sockets carry the traffic class of the claim."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from metronome_opt.gate import Gate
from tests.gate.clock import MS, claim

CS3 = 24 << 2  # the code point above two bits for congestion


def marked(traffic_class: int) -> Gate:
    return Gate(claim(0, 100)._replace(traffic_class=traffic_class))


def test_both_ends_of_a_connection_are_marked() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        for end in (one, other):
            marked(3).mark(end)
            assert end.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == CS3
        one.sendall(b"x")
        assert other.recv(1) == b"x"
        marked(0).mark(one)
        assert one.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0


def test_a_socket_of_version_6_is_marked() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with socket.socket(socket.AF_INET6) as made:
            marked(3).mark(made)
            assert made.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == CS3
    except OSError:
        pytest.skip("this machine has no IPv6")


def test_what_cannot_be_marked_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    gate = marked(3)
    with one, other:
        gate.mark(one)
        gate.mark(other)
        Gate(file="/nowhere").mark(one)  # nothing is known, so nothing is set
    first = caplog.records[0].getMessage()
    assert first.endswith("; a socket is not marked")
    assert sum(record.getMessage() == first for record in caplog.records) == 1


def test_files_of_claims_state_the_class(tmp_path: Path) -> None:
    path = tmp_path / "claim"
    path.write_text(json.dumps({"offset_ms": 0, "period_ms": 5, "traffic_class": 2}))
    assert Gate(file=path).claim == claim(0, 5)._replace(job="", traffic_class=2)
    traffic = {"periodMicroseconds": 5000, "phases": [{"startMicroseconds": 0}]}
    allocation = {"offsetMicroseconds": 0, "trafficClass": 4}
    spec = {"job": "bert", "traffic": traffic, "allocation": allocation}
    path.write_text(json.dumps({"kind": "STBandwidthClaim", "spec": spec}))
    read = Gate(file=path).claim
    assert read == claim(0, 5)._replace(traffic_class=4)
    assert read.period_ns == 5 * MS
