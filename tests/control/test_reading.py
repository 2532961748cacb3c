"""What is asked of Prometheus for each job, and what the samples say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from metronome_opt.control.watch import (
    DEFAULT_SELECTOR,
    Read,
    Selector,
    claims_of,
    observation,
    observe,
)
from metronome_opt.profiles.samples import Samples

from metronome_opt.control import Claims, Observation
from metronome_opt.errors import InputError
from metronome_opt.scheduling.state import ClusterState
from tests.control.wires import (
    LENGTH_S,
    SELECTOR,
    SILENT,
    Wire,
    claim,
    samples,
    state_of,
    traffic,
    two_apart,
)
from tests.prometheus.history import EPOCH_S, Traffic


def claims_in(state: ClusterState) -> Claims:
    claims = claims_of(state)
    assert claims is not None
    return claims


def look(
    state: ClusterState,
    read: Read,
    *,
    moved_s: Mapping[str, float] | None = None,
    selector: str = SELECTOR,
) -> tuple[dict[str, Observation], dict[str, str]]:
    """Return what is seen in the last 100 s, and of whom nothing is, why."""
    found = observe(
        state,
        claims_in(state),
        Selector(selector),
        read,
        now_s=EPOCH_S + LENGTH_S,
        for_s=100.0,
        moved_s={job: EPOCH_S + at_s for job, at_s in (moved_s or {}).items()},
    )
    seen = {job: each for job, each in found.items() if isinstance(each, Observation)}
    return seen, {job: each for job, each in found.items() if isinstance(each, str)}


# ------------------------------------------------------------------ selectors


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (DEFAULT_SELECTOR, 'container_network_transmit_bytes_total{pod="b-1"}'),
        ('sent{job="$job",task="$task"}', 'sent{job="b",task="1"}'),
        (
            'sent{instance="$node:9100",device="${interface}"}',
            'sent{instance="n1:9100",device="n1"}',
        ),
        ('sent{pod=~"$pod$$"}', 'sent{pod=~"b-1$"}'),
    ],
)
def test_a_selector_names_a_task(text: str, selected: str) -> None:
    assert Selector(text).of_task(two_apart(), "b", 1) == selected


def test_names_are_quoted_in_strings_of_either_kind() -> None:
    odd = 'it\'s "odd" \\ é {}'
    state = state_of(claim(odd, 0))
    quoted = r"it\x27s \x22odd\x22 \x5c é {}"
    assert Selector('a{b="$job"}').of_task(state, odd, 0) == f'a{{b="{quoted}"}}'
    assert Selector("a{b='$pod'}").of_task(state, odd, 1) == f"a{{b='{quoted}-1'}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a{b="$pods"}', r"\$pods is not known; choose from \$job, \$task, \$pod, \$node, \$int"),
        ('a{b="c"}', r"is the same for all jobs; name \$pod, say"),
        ("", "is the same for all jobs"),
        ('a{b="$$pod"}', "is the same for all jobs"),
        ('a{b=~"$pod.*$"}', r"a \$ must be followed by a name; write \$\$ for a \$ itself"),
    ],
)
def test_a_selector_that_tells_nobody_apart_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Selector(text)


# ------------------------------------------------------------------ what is asked


def test_every_job_is_measured_by_its_first_task_that_has_samples() -> None:
    wire = Wire({"a-0": traffic(), "a-1": traffic(0.7), "b-1": traffic(0.5)})
    alone = claim("alone", 0, nodes="n0 n0")  # uses no link, so nobody asks
    seen, _ = look(state_of(alone, claim("a", 0, weight=4), claim("b", 100)), wire.read)
    assert [query for query, _, _ in wire.asked] == [
        f'sent_bytes_total{{pod="{pod}"}}' for pod in ("a-0", "b-0", "b-1")
    ]
    assert {(begin, end) for _, begin, end in wire.asked} == {(20.0, 120.0)}
    assert set(seen) == {"a", "b"}
    for job, due_ms in (("a", 0.0), ("b", 500.0)):
        assert seen[job].period_ms == pytest.approx(1000.0, abs=1.0)
        origin_ms = seen[job].origin_ms
        assert origin_ms is not None
        assert (origin_ms - due_ms + 500) % 1000 - 500 == pytest.approx(0.0, abs=5.0)


def test_tasks_of_a_ring_that_send_inside_their_node_are_not_asked() -> None:
    """They send nothing over the network, and would tell that the job is gone."""
    ring = claim("a", 0, nodes="n0 n0 n1")
    ring = ring.model_copy(update={"gang": ring.gang.model_copy(update={"allreduce": "ring"})})
    state = state_of(ring)
    wire = Wire({"a-0": SILENT, "a-1": traffic(), "a-2": traffic()})
    seen, _ = look(state, wire.read)
    assert [query[-5:-2] for query, _, _ in wire.asked] == ["a-1"]
    assert not seen["a"].gone
    # Of the two on n0 one sends, and so of the three two do.
    assert Selector('sent{job="$job",instance="$node"}').counted(state, "a", 1) == 1
    assert Selector('sent{job="$job"}').counted(state, "a", 1) == 2


def test_a_job_without_samples_is_not_asked_for_forever() -> None:
    wire = Wire({})
    assert look(state_of(claim("a", 0, nodes="n0 n0 n0 n1 n1", rate=300)), wire.read)[0] == {}
    assert [query[-5:-2] for query, _, _ in wire.asked] == ["a-0", "a-1", "a-2"]


def test_why_a_job_was_not_measured_is_told() -> None:
    even = Traffic(1.0, ((0.0, 1.0, 300.0),))
    state = state_of(claim("a", 0), claim("b", 100), claim("c", 70, length=5))
    wire = Wire({"a-0": even})
    seen, unmeasured = look(state, wire.read, moved_s={"c": 118.0})
    assert seen == {}
    assert unmeasured == {
        "a": "not periodic: the rate is constant",
        "b": "no samples in 100 s; check selector and window",
        "c": "waits, as it was told to",
    }
    assert not any("c-0" in query for query, _, _ in wire.asked)


@pytest.mark.parametrize(("moved_s", "since_s"), [(60.0, 62.0), (10.0, 20.0)])
def test_what_a_job_did_before_it_was_moved_says_nothing(moved_s: float, since_s: float) -> None:
    wire = Wire({"a-0": traffic(), "b-0": traffic(0.5)})
    look(two_apart(), wire.read, moved_s={"b": moved_s})
    # It may take two periods of a second until it has waited.
    assert [(query[-5:-2], begin) for query, begin, _ in wire.asked] == [
        ("a-0", 20.0),
        ("b-0", since_s),
    ]


def test_a_selector_that_matches_several_series_is_refused() -> None:
    two = {"eth0": samples(traffic()), "lo": samples(SILENT)}
    with pytest.raises(InputError, match=r"matches 2 series for task 0 of a; .* the interface"):
        look(two_apart(), lambda *_: two)


NODE = 'node_bytes_total{instance="$node",device="$interface"}'


def looked_at(state: ClusterState, selector: str, rate: float) -> Mapping[str, Observation]:
    """Return what is seen where every counter has that rate in each burst."""
    sent = Traffic(1.0, ((0.0, 0.3, rate),))
    return look(state, lambda *_: {"it": samples(sent)}, selector=selector)[0]


@pytest.mark.parametrize(
    ("selector", "counted"),
    [
        (SELECTOR, 1),
        ('sent{instance="$node",task="$task"}', 1),
        (NODE, 2),
        ('sent{instance="$node",job="$job"}', 2),
        ('sent{job="$job"}', 3),
    ],
)
def test_a_counter_of_several_tasks_is_shared_out_among_them(selector: str, counted: int) -> None:
    state = state_of(claim("a", 0, nodes="n0 n0 n1", rate=300))
    (burst,) = looked_at(state, selector, 300.0 * counted)["a"].bursts or ()
    assert burst.volume == pytest.approx(300.0 * 300, rel=0.02)


def test_a_counter_of_several_jobs_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^selector: counts all that 'n0' sends, .* 'a' and 'b'; name \$pod"
    ):
        looked_at(two_apart(), NODE, 900.0)
    assert looked_at(two_apart(), 'sent{instance="$node",job="$job"}', 900.0).keys() == {"a", "b"}
    # Those that send nothing over the interface do not matter.
    state = state_of(claim("alone", 0, nodes="n0 n0"), claim("a", 0))
    assert looked_at(state, NODE, 900.0).keys() == {"a"}


# ------------------------------------------------------------------ what they say


def silent_since(silence_s: float) -> Samples:
    """Return samples of a job that sent its last byte so long ago."""
    sent = samples(traffic(), end_s=60.0)
    rates = sent.rates_mbps.copy()
    last_s = sent.times_s[-1] - silence_s
    rates[sent.times_s > last_s + 1e-6] = 0.0
    rates[np.argmin(abs(sent.times_s - last_s))] = float(900)
    return Samples(sent.times_s, rates)


def test_a_job_is_gone_after_ten_periods_without_a_byte() -> None:
    claims = claims_in(two_apart())
    assert observation(claims, "a", silent_since(10.1)) == Observation(gone=True)
    assert not observation(claims, "a", silent_since(9.9)).gone


def test_a_job_that_was_never_seen_for_ten_periods_is_not_gone() -> None:
    claims = claims_in(two_apart())
    assert observation(claims, "a", samples(SILENT, end_s=9.9)) == Observation()
    assert observation(claims, "a", samples(SILENT, end_s=10.1)).gone


def test_what_was_not_measured_is_no_silence() -> None:
    sent = samples(SILENT, end_s=20.0)
    rates = sent.rates_mbps.copy()
    rates[-20] = np.nan
    assert not observation(claims_in(two_apart()), "a", Samples(sent.times_s, rates)).gone


@pytest.mark.parametrize("drift_ms", [-310.0, -40.0, 0.0, 25.0, 310.0])
def test_a_drift_is_what_it_was(drift_ms: float) -> None:
    seen = observation(claims_in(two_apart()), "b", samples(traffic(1.5 + drift_ms / 1000)))
    assert seen.origin_ms is not None
    drift = (seen.origin_ms - 500.0 + 500.0) % 1000.0 - 500.0
    assert drift == pytest.approx(drift_ms, abs=25.0)  # half the time between two samples
    assert 0 < seen.origin_error_ms < 25.0
    assert seen.bursts is not None
    (burst,) = seen.bursts
    assert burst.rate_mbps * burst.length_ms == pytest.approx(900.0 * 300.0, rel=0.02)
