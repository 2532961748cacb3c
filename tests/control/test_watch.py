"""Checks of a cluster that is kept in a folder: what they keep, and what they leave alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from metronome_opt.control.watch import MEMORY_FILE, Check, Read, Selector, check
from metronome_opt.profiles.prometheus import PrometheusError
from metronome_opt.profiles.samples import Samples

from metronome_opt.control import Verdict
from metronome_opt.control.metrics import Metrics
from metronome_opt.errors import InputError
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store
from tests.control.wires import (
    LENGTH_S,
    SELECTOR,
    SILENT,
    Wire,
    claim,
    content,
    state_of,
    traffic,
    two_apart,
)
from tests.prometheus.history import EPOCH_S, Traffic

NOW_S = EPOCH_S + LENGTH_S
OBEDIENT = {"a-0": traffic(), "b-0": traffic(0.5)}
DRIFTED = {"a-0": traffic(), "b-0": traffic(0.2)}  # into the middle of a
FAR = {"a-0": traffic(), "b-0": traffic()}  # 100 slots early, five times its cushion


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kept(two_apart(), tmp_path / "state")


def kept(state: ClusterState, folder: Path) -> Path:
    with Store.keep(folder, state):
        return folder


def look(
    folder: Path, sent: Mapping[str, Traffic] | Read, now_s: float = NOW_S, **options: Any
) -> Check:
    """Check once, by samples of what was sent or by what a function reads."""
    read = sent if callable(sent) else Wire(sent).read
    return check(folder, read, Selector(SELECTOR), now_s, window_s=100.0, **options)


def offsets(folder: Path) -> dict[str, int]:
    with Store(folder) as store:
        return {job: each.offset for job, each in store.state.claims.items()}


def test_a_drift_is_believed_when_it_lasts_and_the_lighter_job_waits(folder: Path) -> None:
    before = content(folder)
    first = look(folder, DRIFTED)
    assert first.decision is not None
    assert (first.decision.plan, first.kept) == (None, False)
    assert content(folder, but=[MEMORY_FILE]) == before
    # Another process goes on where the first one was.
    second = look(folder, DRIFTED)
    assert second.decision is not None
    assert second.decision.kind is Verdict.REPHASE
    assert second.decision.plan is not None
    (step,) = second.decision.plan.steps
    # From slot 40; both reserve 80 of 200 slots, a those from 0 on.
    assert (step.job, step.before, step.after, step.wait) == ("b", 40, 80, 40)
    assert second.kept
    assert offsets(folder) == {"a": 0, "b": 80}


def test_a_job_that_went_silent_gives_everything_back(folder: Path) -> None:
    found = look(folder, {"a-0": traffic(), "b-0": SILENT})
    assert found.kept
    assert offsets(folder) == {"a": 0}
    found = look(folder, {"a-0": SILENT})
    assert found.kept
    assert offsets(folder) == {}
    found = look(folder, {})
    assert (found.jobs, found.decision, found.kept) == (0, None, False)


def test_a_check_without_an_answer_changes_nothing(folder: Path) -> None:
    asked = []

    def read(query: str, start_s: float, end_s: float) -> Mapping[str, Samples]:
        asked.append(query)
        if "b-0" in query:
            raise PrometheusError("http://there: is away")
        return Wire(FAR).read(query, start_s, end_s)

    before = content(folder)
    metrics = Metrics()
    with pytest.raises(PrometheusError):
        look(folder, read, metrics=metrics)
    assert len(asked) == 2
    assert content(folder) == before
    assert metrics.value("metronome_decisions_total", decision="nothing") == 0
    assert look(folder, FAR).kept


def test_the_folder_is_free_between_two_checks(folder: Path) -> None:
    with Store(folder), pytest.raises(InputError, match="another process"):
        look(folder, OBEDIENT)
    look(folder, OBEDIENT)
    with Store(folder) as store:
        store.state.reserve(claim("c", 70, length=10))
    assert look(folder, OBEDIENT).jobs == 3


def test_others_may_change_the_state_while_samples_are_read(folder: Path) -> None:
    wire = Wire({"a-0": traffic(), "b-0": SILENT})

    def read(query: str, start_s: float, end_s: float) -> dict[str, Samples]:
        with Store(folder) as store:  # b goes, and another b comes that nobody has measured yet
            if store.state.claims["b"].offset == 100:
                store.state.unreserve("b")
                store.state.reserve(claim("b", 90))
        return wire.read(query, start_s, end_s)

    found = look(folder, read)
    assert (found.jobs, set(found.observations), found.kept) == (2, {"a"}, False)
    assert offsets(folder) == {"a": 0, "b": 90}


def test_a_memory_that_is_damaged_is_refused_by_name(folder: Path) -> None:
    (folder / MEMORY_FILE).write_text('{"format": "metronome-monitor/1", "seen": {"x": 0}}')
    before = content(folder)
    with pytest.raises(InputError, match=r"monitor.json: seen.x: must be at least 1, got 0"):
        look(folder, FAR)
    assert content(folder) == before


def test_what_a_check_came_to_can_be_scraped(folder: Path) -> None:
    metrics = Metrics()
    look(folder, FAR, metrics=metrics)

    def value(name: str, **labels: str) -> float | None:
        return metrics.value(f"metronome_{name}", **labels)

    assert value("jobs", state="measured") == 2
    assert value("jobs", state="gone") == value("jobs", state="unmeasured") == 0
    assert value("job_phase_drift_seconds", training_job="a") == pytest.approx(0.0, abs=0.01)
    assert abs(value("job_phase_drift_seconds", training_job="b") or 0) == pytest.approx(0.5, 0.01)
    assert value("job_cushion_seconds", training_job="b") == 0.1
    assert value("job_period_seconds", training_job="b") == pytest.approx(1.0, abs=0.001)
    assert value("findings_total", kind="drifted") == 1
    assert value("decisions_total", decision="rephase") == 1
    assert value("rephasings_total", training_job="b", priority="1") == 1
    assert value("rephasings_total", training_job="a", priority="4") == 0
    assert value("last_check_timestamp_seconds") == NOW_S
    assert value("prometheus_errors_total") == 0
    # Both burst together: of 1,800 Mbit/s 800 are late in 60 of 200 slots, on two links of weight
    # 1. With cushions it is 80 slots. A Mbit is 125,000 bytes.
    assert value("contention_weighted_bytes_per_second", state="claimed") == 0
    assert value("contention_weighted_bytes_per_second", state="measured") == 2 * 320 * 125_000
    assert value("contention_weighted_bytes_per_second", state="planned") == 0
    assert value("link_score", link="n0") == 1.0


def test_a_dry_run_decides_and_keeps_and_counts_nothing(folder: Path) -> None:
    metrics = Metrics()
    before = content(folder)
    found = look(folder, FAR, metrics=metrics, dry_run=True)
    assert found.decision is not None
    assert found.decision.plan is not None
    assert not found.kept
    assert content(folder) == before
    look(folder, OBEDIENT, metrics=metrics, dry_run=True)

    def value(name: str, **labels: str) -> float | None:
        return metrics.value(f"metronome_{name}", **labels)

    for verdict in Verdict:
        assert value("decisions_total", decision=verdict) == 0
    assert not value("rephasings_total", training_job="b", priority="1")
    assert value("findings_total", kind="drifted") == 1
    assert value("jobs", state="measured") == 2
    assert value("last_check_timestamp_seconds") == NOW_S


def test_links_that_are_late_as_measured_have_a_lower_score(tmp_path: Path) -> None:
    folder = kept(state_of(claim("a", 0), claim("b", 30)), tmp_path / "state")
    metrics = Metrics()
    look(folder, {"a-0": traffic(), "b-0": traffic(0.15)}, metrics=metrics)
    # 800 of 1,000 Mbit/s too much in 30 of 200 slots.
    assert metrics.value("metronome_link_score", link="n0") == pytest.approx(1 - 0.8 * 0.15)
    assert metrics.value("metronome_job_cushion_seconds", training_job="a") == 0


def test_what_it_remembers_is_a_document(folder: Path) -> None:
    look(folder, DRIFTED)
    assert json.loads((folder / MEMORY_FILE).read_text()) == {
        "format": "metronome-monitor/1",
        "seen": {"drifted b": 1},
        "moved": {},
    }
