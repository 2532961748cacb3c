"""Prometheus: what it has is read, and what is no answer is refused in one line."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import parse_qsl

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles import prometheus
from metronome_opt.kubernetes.profiles.prometheus import Prometheus, PrometheusError
from tests.kubernetes.prometheus import fake
from tests.kubernetes.prometheus.fake import Answer, matrix, says

BURSTS = {"__name__": "metronome_gate_bursts_total", "job": "bert", "task": "0"}
VALUES = [[9.9, "0"], [11.0, "5"], [12.0, "NaN"], [13.0, "7"]]
GOOD = matrix((BURSTS, VALUES), ({"__name__": "up"}, []), new={"deep": []})


def refusal(answer: Answer, **options: float) -> str:
    """Return the line in which asking ends."""
    with fake.fake(answer) as server:
        with pytest.raises(PrometheusError) as caught:
            Prometheus(server.url, **{"timeout_s": 5.0, **options}).read(10, 20)
        line = str(caught.value)
        assert line.startswith(f"{server.url}: ")
        assert "\n" not in line
        assert len(line) < 400
        assert len(server.asked) == 1
        return line.removeprefix(f"{server.url}: ")


def test_counters_of_gates_are_read_as_they_were_scraped() -> None:
    with fake.fake(GOOD) as server:
        (counter,) = Prometheus(server.url.replace("//", "//me:secret@"), timeout_s=5).read(10, 20)
    assert (counter.job, counter.name) == ("bert", "bursts")
    # What is before the time asked for depends on the version; what is no number was not scraped.
    assert (counter.times_s.tolist(), counter.values.tolist()) == ([11, 13], [5, 7])
    ((_, path, headers, body),) = server.asked
    form = dict(parse_qsl(body))
    assert path == "/api/v1/query"
    assert form["query"].startswith('{__name__=~"metronome_gate_(iterations|')
    assert form["query"].endswith(')_total"}[10001ms]')
    assert (form["time"], form["timeout"]) == ("20.000", "5")
    assert headers["Authorization"] == "Basic bWU6c2VjcmV0"


def of(data: Any) -> Answer:
    return says(json.dumps({"status": "success", "data": data}))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("", status=500), "status 500, not an answer of Prometheus"),
        (
            says('{"status": "error", "errorType": "bad_data", "error": "no\\nway"}', 400),
            "status 400, bad_data: no way; is the address right?",
        ),
        (says("", 302, Location="http://me:secret@elsewhere/"), "status 302, not an answer"),
        (says("<html>Log in</html>"), "not an answer of Prometheus"),
        (says('{"status": "maybe"}'), "status: must be 'success', got 'maybe'"),
        (says('{"status": "success"}'), "data: missing"),
        (of({"resultType": "vector", "result": []}), "data.resultType: must be 'matrix'"),
        (matrix(({}, [[10]])), "data.result[0].values[0]"),
        (matrix((BURSTS, [[11, "1"], [10, "1"]])), "goes back in time"),
        (matrix((BURSTS, []), (BURSTS, [])), "is answered twice"),
        (matrix((BURSTS, VALUES), warnings=["a store is\naway"]), "not complete (a store is away)"),
        (fake.breaks_off, "cannot be reached"),
        (says(b"not packed", Content_Encoding="gzip"), "cannot be reached"),
    ],
)
def test_what_is_no_whole_answer_is_refused_in_one_line(answer: Answer, said: str) -> None:
    assert said in refusal(answer)


@pytest.mark.parametrize("slow", [fake.says_nothing, fake.dribbles_its_body])
def test_an_answer_that_takes_too_long_is_abandoned(slow: Answer) -> None:
    assert refusal(slow, timeout_s=0.3).startswith("no whole answer within 0.3 s;")


def test_an_answer_that_is_too_large_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_MAX_BYTES", 1_000_000)
    assert refusal(says(b" " * 2_000_000)) == "the answer is larger than 1000000 bytes"


def test_an_address_without_a_server_is_told() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(PrometheusError, match=f"{url}: cannot be reached"):
        Prometheus(url.replace("//", "//me:secret@")).read(10, 20)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:9090", "not the address of a server"),
        ("http://host:65536", "not the address of a server"),
        ("http://[::1", "no URL"),
        ("http://host/?query=secret", "not the address of a server"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_secrets(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Prometheus(url)
    assert "secret" not in str(caught.value)
