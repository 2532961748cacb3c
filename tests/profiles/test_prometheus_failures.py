"""Servers that do not answer, or not as they should: one line, after as many tries as help."""

from __future__ import annotations

import gzip
import importlib
import json
import socket
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest

from metronome_opt.errors import MissingBackendError
from metronome_opt.profiles import prometheus
from metronome_opt.profiles.prometheus import Prometheus, PrometheusError
from tests.prometheus import fake
from tests.prometheus.fake import Answer, matrix, says

GOOD_VALUES = [[10.0, "0"], [11.0, "1000000"], [12.0, "1000000"]]
GOOD = matrix(({"pod": "a"}, GOOD_VALUES))


class Ask:
    """Asks for ten seconds of a counter and keeps the waits in between."""

    def __init__(self, **options: Any) -> None:
        self.waits: list[float] = []
        self._options = {"timeout_s": 5.0, **options}

    def __call__(self, url: str) -> list[float]:
        server = Prometheus(url, sleep=self.waits.append, **self._options)
        (samples,) = server.raw("sent_bytes_total", 10, 20).values()
        return list(samples.rates_mbps)


def refusal(*answers: Answer, **options: Any) -> tuple[str, int]:
    """Return the line in which asking ends, and how often it was asked."""
    with fake.fake(*answers) as told:
        with pytest.raises(PrometheusError) as caught:
            Ask(**options)(told.url)
        line = str(caught.value)
        assert line.startswith(f"{told.url}: ")
        assert "\n" not in line
        assert len(line) < 400
        assert caught.value.exit_status == 1
        return line.removeprefix(f"{told.url}: "), len(told.asked)


def test_a_good_answer_is_taken_at_once() -> None:
    ask = Ask()
    with fake.fake(GOOD) as told:
        assert ask(told.url) == [8.0, 0.0]
    assert ask.waits == []
    ((path, form, _),) = told.asked
    assert path == "/api/v1/query"
    assert form == {"query": "sent_bytes_total[10001ms]", "time": "20.000", "timeout": "5"}


@pytest.mark.parametrize(
    "bad",
    [
        says("", status=500),
        says("<html>Bad Gateway</html>", status=502),
        says("slow down", status=429),
        says("", status=408),
        matrix(({}, []), warnings=["one store did not answer"]),
        fake.breaks_off,
        fake.hangs_up,
    ],
)
def test_what_may_pass_is_asked_again_with_growing_waits(bad: Answer) -> None:
    ask = Ask()
    with fake.fake(bad, bad, bad, GOOD) as told:
        assert ask(told.url) == [8.0, 0.0]
    assert len(ask.waits) == 3
    assert all(0 <= wait <= longest for wait, longest in zip(ask.waits, [1, 2, 4], strict=True))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            says('{"status": "error", "errorType": "bad_data", "error": "no"}', 400),
            "status 400, bad_data: no",
        ),
        (says("who are you?", 401), "status 401,"),
        (says("", 403), "status 403,"),
        (says(b"\xff\xfe", 422), "status 422,"),
    ],
)
def test_what_will_not_pass_is_asked_once(answer: Answer, said: str) -> None:
    line, asked = refusal(answer)
    assert line.startswith(said)
    assert asked == 1


def test_it_waits_as_long_as_the_server_says() -> None:
    ask = Ask()
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    with fake.fake(
        says("", 429, Retry_After="20"),
        says("", 503, Retry_After=later),
        says("", 503, Retry_After="soon"),
        GOOD,
    ) as told:
        assert ask(told.url) == [8.0, 0.0]
    assert ask.waits[0] == 20
    assert 30 < ask.waits[1] <= 50
    assert ask.waits[2] <= 4


def test_a_server_that_wants_to_be_left_alone_for_long_is_left_alone() -> None:
    line, asked = refusal(says("", 429, Retry_After="3600"))
    assert "left alone for 3600 s" in line
    assert asked == 1


def test_nobody_follows_a_redirect() -> None:
    with fake.fake(GOOD) as elsewhere:
        address = elsewhere.url.replace("//", "//me:secret@") + "/x?token=secret"
        line, asked = refusal(says("", 302, Location=address))
        assert f"status 302, go to {elsewhere.url}/x;" in line
        assert asked == 1
        assert elsewhere.asked == []


def test_where_nobody_listens_is_not_reached() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    ask = Ask(attempts=3)
    with pytest.raises(PrometheusError, match=f"{url}: cannot be reached"):
        ask(url)
    assert len(ask.waits) == 2


@pytest.mark.parametrize(
    "slow", [fake.says_nothing, fake.dribbles_its_head, fake.dribbles_its_body]
)
def test_an_answer_that_takes_too_long_is_abandoned(slow: Answer) -> None:
    line, asked = refusal(slow, timeout_s=0.3, attempts=2)
    assert line.startswith("no whole answer within 0.3 s;")
    assert asked == 2


@pytest.mark.parametrize(
    "large",
    [says(b" " * 2_000_000), says(gzip.compress(b" " * 2_000_000), Content_Encoding="gzip")],
)
def test_an_answer_that_is_too_large_is_abandoned(
    large: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_MAX_BYTES", 1_000_000)
    line, asked = refusal(large)
    assert line.startswith("the answer is larger than 1000000 bytes;")
    assert asked == 1


def test_a_packed_answer_is_unpacked() -> None:
    data = {"resultType": "matrix", "result": [{"metric": {}, "values": GOOD_VALUES}]}
    body = gzip.compress(json.dumps({"status": "success", "data": data}).encode())
    with fake.fake(says(body, Content_Encoding="gzip")) as told:
        assert Ask()(told.url) == [8.0, 0.0]


def test_an_answer_that_does_not_unpack_is_none() -> None:
    line, _ = refusal(says(b"not packed", Content_Encoding="gzip"), attempts=1)
    assert line.startswith("the exchange broke off")


def of(data: Any) -> Answer:
    return says(json.dumps({"status": "success", "data": data}))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("<html>Log in</html>"), "not an answer of Prometheus"),
        (says("[" * 100_000), "not an answer of Prometheus"),
        (says('{"status": "maybe"}'), "status: must be 'success', got 'maybe'"),
        (
            says('{"status": "error", "errorType": "internal", "error": "no\\ndisk"}'),
            "status 200, internal: no disk",
        ),
        (says('{"status": "success"}'), "data: missing"),
        (of({"resultType": "vector", "result": []}), "data.resultType: must be 'matrix'"),
        (of({"resultType": "matrix", "result": {}}), "data.result"),
        (of({"resultType": "matrix", "result": [{"metric": {}}]}), "data.result[0].values"),
        (matrix(({"a": 1}, [])), "data.result[0].metric.a"),  # type: ignore[dict-item]
        (matrix(({}, [[10]])), "data.result[0].values[0]"),
        (matrix(({}, [[10, None]])), "data.result[0].values[0][1]"),
        (matrix(({}, [[float("nan"), "1"]])), "data.result[0].values[0][0]"),
        (matrix(({}, [[1e300, "1"]])), "out of this world"),
        (matrix(({"pod": "a"}, [[10, "-1"]])), "series {pod='a'} has the negative value -1.0"),
        (matrix(({"pod": "a"}, [[11, "1"], [10, "1"]])), "series {pod='a'} goes back in time"),
        (
            matrix(({"__name__": "x", "pod": "a"}, []), ({"pod": "a", "__name__": "x"}, [])),
            "series x{pod='a'} is answered twice",
        ),
        (matrix(({}, [[9, "1"]])), "samples from outside the time asked for"),
        (matrix(({}, [[21, "1"]])), "samples from outside the time asked for"),
        (
            matrix(({}, GOOD_VALUES), warnings=["store \u2028 is\naway"]),
            "not complete (store \\u2028 is away)",
        ),
    ],
)
def test_nonsense_is_refused_by_what_is_wrong_with_it(answer: Answer, said: str) -> None:
    line, asked = refusal(answer, attempts=2)
    assert said in line
    assert asked == 2


@pytest.mark.parametrize("missing", ["NaN", "+Inf", "-Inf", "1e999"])
def test_a_value_that_is_no_number_is_a_sample_that_is_missing(missing: str) -> None:
    values = [[10, "0"], [11, missing], [12, "1000000"]]
    with fake.fake(matrix(({}, values))) as told:
        assert Ask()(told.url) == [4.0]


def test_fields_that_later_versions_add_do_no_harm() -> None:
    with fake.fake(matrix(({}, GOOD_VALUES), infos=["a hint"], new={"deep": []})) as told:
        assert Ask()(told.url) == [8.0, 0.0]


def test_credentials_are_sent_and_never_shown() -> None:
    with fake.fake(says("", 401)) as told:
        with pytest.raises(PrometheusError) as caught:
            Ask()(told.url.replace("//", "//me:secret@"))
        ((_, _, headers),) = told.asked
    assert headers["Authorization"] == "Basic bWU6c2VjcmV0"
    assert str(caught.value).startswith(f"{told.url}: ")
    assert "secret" not in str(caught.value)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anyio", None)
    monkeypatch.delitem(sys.modules, prometheus.__name__)
    with pytest.raises(MissingBackendError, match=r"needs anyio, .* 'metronome-opt\[monitor\]'"):
        importlib.import_module(prometheus.__name__)


def test_it_can_be_used_where_an_event_loop_runs() -> None:
    async def notebook() -> list[float]:
        return Ask()(told.url)

    with fake.fake(GOOD) as told:
        assert anyio.run(notebook) == [8.0, 0.0]
