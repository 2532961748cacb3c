"""A real Prometheus: what was scraped is what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metronome_opt.errors import InputError
from metronome_opt.profiles.profile import profile
from metronome_opt.profiles.prometheus import Prometheus, PrometheusError
from metronome_opt.profiles.samples import Samples
from tests.prometheus.history import EPOCH_S, History, Scraped, Traffic
from tests.prometheus.server import needs_prometheus, prometheus

COUNTER = "node_network_transmit_bytes_total"
TWO_BURSTS = Traffic(1.3, ((0.0, 0.4, 2000.0), (0.7, 0.3, 1500.0)), offset_s=0.25)
EVEN = Traffic(2.0, ((0.0, 0.5, 1000.0),))
LENGTH_S = 1500  # three pieces of raw samples
HISTORY = History(
    {
        "clean": Scraped(EVEN, length_s=LENGTH_S),
        "rough": Scraped(
            TWO_BURSTS,
            length_s=LENGTH_S,
            scrape_jitter_ms=30,
            gaps_s=((60, 70),),
            resets_s=(50.03,),
        ),
        "wandering": Scraped(
            Traffic(1.3, TWO_BURSTS.bursts, jitter=0.05, seed=1), length_s=LENGTH_S
        ),
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder, history=HISTORY.openmetrics()) as url:
        yield Prometheus(url)


def scraped(server: Prometheus, device: str, length_s: float = LENGTH_S) -> Samples:
    query = f'{COUNTER}{{device="{device}"}}'
    ((labels, samples),) = server.raw(query, EPOCH_S, EPOCH_S + length_s).items()
    assert labels == {"__name__": COUNTER, "device": device, "instance": "n-1:9100"}
    return samples


@needs_prometheus
@pytest.mark.parametrize("device", list(HISTORY.series))
def test_raw_samples_are_those_that_were_scraped(server: Prometheus, device: str) -> None:
    samples = scraped(server, device)
    times_ms, counts = HISTORY.series[device].counts()
    assert np.array_equal(np.rint(samples.times_s * 1000), times_ms[1:])
    sent = np.where(np.diff(counts) < 0, np.nan, np.diff(counts))
    assert samples.averaged_s is not None
    np.testing.assert_allclose(samples.rates_mbps * samples.averaged_s * 125_000, sent, atol=0.5)


@needs_prometheus
def test_what_is_lost_between_scrapes_is_unknown_not_zero(server: Prometheus) -> None:
    samples = scraped(server, "rough")
    assert np.isnan(samples.rates_mbps).sum() == 1
    assert samples.missing == pytest.approx((10 / 0.1 + 1) / (LENGTH_S / 0.1), rel=0.03)


@needs_prometheus
@pytest.mark.parametrize("device", list(HISTORY.series))
def test_a_profile_of_it_is_what_the_job_does(server: Prometheus, device: str) -> None:
    traffic = HISTORY.series[device].traffic
    found = profile(scraped(server, device, 300))
    assert found.period_ms == pytest.approx(1000 * traffic.period_s, rel=0.01)
    assert found.duty == pytest.approx(
        sum(length for _, length, _ in traffic.bursts) / traffic.period_s, abs=0.03
    )
    rates = sorted(burst.rate_mbps for burst in found.bursts)
    assert rates == pytest.approx(sorted(rate for _, _, rate in traffic.bursts), rel=0.02)


@needs_prometheus
def test_both_ends_are_included_and_nothing_else(server: Prometheus) -> None:
    (samples,) = server.raw(f'{COUNTER}{{device="clean"}}', EPOCH_S + 10.1, EPOCH_S + 20).values()
    assert list(np.rint((samples.times_s - EPOCH_S)[[0, -1]] * 1000)) == [10_200, 20_000]
    assert len(samples) == 99  # differences between 100


@needs_prometheus
def test_what_does_not_exist_is_no_series_and_no_error(server: Prometheus) -> None:
    assert server.raw(f'{COUNTER}{{device="other"}}', EPOCH_S, EPOCH_S + 10) == {}
    assert server.raw(COUNTER, EPOCH_S - 1000, EPOCH_S - 500) == {}


@needs_prometheus
@pytest.mark.parametrize("query", ["a{", f"{COUNTER} offset 1m"])
def test_queries_that_are_none_are_refused_in_one_line(server: Prometheus, query: str) -> None:
    with pytest.raises(PrometheusError, match="parse error") as caught:
        Prometheus(str(server), attempts=1).raw(query, EPOCH_S, EPOCH_S + 1)
    assert str(caught.value).startswith(f"{server}: ")
    assert "\n" not in str(caught.value)


@needs_prometheus
def test_an_address_may_have_a_path_and_a_closing_slash(server: Prometheus, tmp_path: Path) -> None:
    assert Prometheus(f"{server}/").raw("up", 0, 1) == {}
    with prometheus(tmp_path, prefix="/metrics/here") as url:
        assert Prometheus(f"{url}/metrics/here").raw("up", 0, 1) == {}
        with pytest.raises(PrometheusError, match="status 404"):
            Prometheus(url).raw("up", 0, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "localhost:9090"}, "not the address of a server"),
        ({"url": "ftp://host"}, "not the address of a server"),
        ({"url": "http://"}, "not the address of a server"),
        ({"url": "http://host:65536"}, "not the address of a server"),
        ({"url": "http://[::1"}, "no URL"),
        ({"url": "http://host/?query=secret"}, "question mark"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_what_cannot_be_used_is_refused_and_secrets_are_not_shown(
    arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Prometheus(**{"url": "http://127.0.0.1:1", **arguments})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("start", "end"),
    [(1.0, 0.0), (0.0, 0.0), (float("nan"), 1.0), (0.0, float("inf")), (0.0, 1e12)],
)
def test_times_that_are_none_or_too_long_are_refused(start: float, end: float) -> None:
    with pytest.raises(InputError):
        Prometheus("http://127.0.0.1:1").raw("up", start, end)
