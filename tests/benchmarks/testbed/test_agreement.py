"""Statistics of recorded and simulated runs, for a few made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from benchmarks.testbed.agreement import (
    come_apart,
    compare,
    slowdowns,
    usable,
)
from benchmarks.testbed.cases import Case
from benchmarks.testbed.run import BedRun, JobRun
from tests.benchmarks.testbed.bed import bed_case, bed_job, bed_run, begins

FITTING = bed_case(bed_job(100, (0, 40)), bed_job(100, (0, 50)), name="fitting")
SLOTS = {"a": 0, "b": 40}


def rows(table: pd.DataFrame, *names: str) -> list[tuple[object, ...]]:
    return list(zip(*(table[name].tolist() for name in names), strict=True))


# ------------------------------------------------------------------ which runs count


def test_only_undisturbed_runs_in_which_all_jobs_ran_to_their_end_are_usable() -> None:
    good = bed_run("case", "free", {"a": begins(100, 101), "b": begins(100)})
    busy = bed_run("case", "free", {"a": begins(100), "b": begins(100)}, busy=True)
    lost = {
        "a": JobRun(begins_ms=(0.0, 100.0), bursts_ms=()),
        "b": JobRun(begins_ms=(0.0, 100.0), bursts_ms=(), ended="left by the rank before"),
    }
    ended = bed_run("case", "free", {}, jobs=lost)
    never = bed_run("case", "free", {"a": begins(100), "b": begins()})
    assert usable([busy, good, ended, never, good]) == [good, good]


# ------------------------------------------------------------------ how far off

ALONE = bed_case(
    bed_job(100, (0, 40)), name="alone", split="tuning", congestion="bbr", interface_mbps=100
)


def test_means_are_over_repeats_and_errors_of_simulations() -> None:
    """Alone 100 in the simulation; 110 and 120 were seen."""
    runs = [
        bed_run("alone", "free", {"a": begins(110, 110, 110)}, congestion="bbr"),
        bed_run("alone", "free", {"a": begins(130, 110)}, repeat=1, congestion="bbr"),
        bed_run("other", "free", {"a": begins(500)}),
    ]
    for sharing in ("fair", "tcp"):
        table = compare([ALONE], runs, sharing)
        (row,) = table.to_dict("records")
        assert row == {
            "case": "alone",
            "split": "tuning",
            "congestion": "bbr",
            "mode": "free",
            "job": "a",
            "period_ms": 100,
            "repeats": 2,
            "real_ms": pytest.approx(115),
            "spread_ms": pytest.approx(10),
            "simulated_ms": pytest.approx(100),
            "error": pytest.approx(100 / 115 - 1),
        }


def test_modes_are_simulated_separately_with_their_offsets() -> None:
    """Free they burst side by side: a for 80 ms and b for 90, so that both begin anew at 140."""
    free = {"a": begins(140, 130), "b": begins(140, 140)}
    gated = {"a": begins(100, 100), "b": begins(140, 100)}
    runs = [
        bed_run("fitting", "free", free),
        bed_run("fitting", "gated", gated, offsets=SLOTS),
    ]
    table = compare([FITTING], runs, "fair", skip=1)
    assert rows(table, "mode", "job", "real_ms", "simulated_ms") == [
        ("free", "a", 130, pytest.approx(140)),
        ("free", "b", 140, pytest.approx(140)),
        ("gated", "a", 100, pytest.approx(100)),
        ("gated", "b", 100, pytest.approx(100)),
    ]


def test_slowdowns_are_means_over_jobs_without_the_first_iteration() -> None:
    """Seen: 10 and 20 % longer free, nothing and 2 % gated. Their links are not the same."""
    case = bed_case(
        bed_job(100, (0, 40), racks=(0, 1)),
        bed_job(200, (0, 60), racks=(2, 3)),
        name="two",
        network="four-racks",
    )
    runs = [
        bed_run("two", "free", {"a": begins(300, 110, 110), "b": begins(900, 240)}),
        bed_run("two", "gated", {"a": begins(300, 100), "b": begins(900, 204)}, offsets=SLOTS),
    ]
    table = slowdowns([case], runs)
    assert list(table.columns) == ["simulated, fair", "simulated, tcp", "on the network"]
    assert list(table.index) == [("two", "free"), ("two", "gated")]
    assert list(table["on the network"]) == pytest.approx([0.15, 0.01])
    assert list(table["simulated, fair"]) == pytest.approx([0, 0])
    assert list(table["simulated, tcp"]) == pytest.approx([0, 0])


# ------------------------------------------------------------------ when jobs come apart


def apart(free: Sequence[dict[str, list[float]]], case: Case = FITTING) -> pd.DataFrame:
    runs: list[BedRun] = [bed_run(case.name, "free", each, repeat=i) for i, each in enumerate(free)]
    gated = {"a": begins(100), "b": begins(100)}
    return come_apart([case], [*runs, bed_run(case.name, "gated", gated, offsets=SLOTS)], seeds=5)


QUIET = [100.0] * 4


def test_jobs_are_separate_after_the_last_much_longer_iteration() -> None:
    """Longer by more than a twentieth: the second of a, the third of b."""
    free = {"a": begins(140, 106, 104, *QUIET), "b": begins(150, 105, 110, *QUIET)}
    table = apart([free])
    assert rows(table, "case", "split", "congestion", "real") == [("fitting", "test", "cubic", 3)]
    assert 1 <= table["simulated"].tolist()[0] <= 10
    assert table["factor"].tolist() == [table["simulated"].tolist()[0] / 3]


@pytest.mark.parametrize(
    "case",
    [
        bed_case(bed_job(100, (0, 60)), bed_job(100, (0, 60)), name="over"),
        bed_case(bed_job(100, (0, 40)), bed_job(100, (0, 50), end=900), name="leaves"),
        bed_case(bed_job(100, (0, 40)), bed_job(100, (0, 50), begin=100), name="comes"),
    ],
    ids=lambda case: case.name,
)
def test_jobs_that_do_not_fit_or_are_not_always_there_do_not_count(case: Case) -> None:
    assert apart([{"a": begins(*QUIET), "b": begins(*QUIET)}], case).empty
