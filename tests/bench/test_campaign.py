"""Campaigns: every way to fail is a record of its own kind, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import Executor, Future
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import psutil
import pytest

from metronome_opt.bench.campaign import Pool, local_pool
from metronome_opt.bench.process import MARK, Limits
from metronome_opt.bench.trials import Record, read_records
from metronome_opt.errors import InputError
from metronome_opt.journal import Journal, dump_line
from tests.bench.examples import LIMITS, campaign, trials, write_suite
from tests.bench.report_examples import moments, record
from tests.builders import two_jobs

# What becomes of each fake solver; the third column is in the error, a fault or a note.
ENDINGS = {
    "well": ("schedule", "optimal", ""),
    "abort": ("crash", None, "signal 6 (Aborted): free(): invalid pointer"),
    "abort_after_schedule": ("crash", None, "signal 6"),
    "abort_after_end": ("schedule", "optimal", "after its result: ended by signal 6"),
    "fail": ("crash", None, "ValueError: a fault of two lines"),
    "leave": ("crash", None, "exit status 1: nothing to do"),
    "eat": ("out_of_memory", None, "above the limit of 250 MB"),
    "eat_in_child": ("out_of_memory", None, "above the limit of 250 MB"),
    "fail_to_allocate": ("out_of_memory", None, "an allocation failed"),
    "hang": ("no_schedule", "unknown", "killed 0.6 s after its limit of 1 s"),
    "hang_after_schedule": ("schedule", "feasible", "killed 0.6 s after its limit of 1 s"),
    "hang_in_child": ("crash", None, "signal 6"),
    "overlap_denied": ("invalid", "optimal", "objectives.contention: stated 0, but it is 6000"),
    "offset_outside": ("invalid", "optimal", "offsets.b: stated 28, but it must be in [0, 20)"),
    "offset_negative": ("invalid", "optimal", "offsets.b: must be at least 0, got -12"),
    "job_forgotten": ("invalid", "optimal", "offsets.b: stated nothing"),
    "bound_above_value": ("invalid", "feasible", "lower_bound: stated 1/3"),
    "bound_without_schedule": ("invalid", "unknown", "the contention unshifted is 6000"),
    "proof_denied": ("invalid", "optimal", "the bound is 1 and the contention 6000"),
    "infeasible": ("infeasible", "infeasible", ""),
    "nothing": ("no_schedule", "unknown", ""),
}


@pytest.fixture(scope="module")
def outcomes(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Run all the fakes in one campaign; their records by name."""
    assert processes(scratch) == []
    folder = tmp_path_factory.mktemp("fakes")
    suite = write_suite(folder / "pair", [(two_jobs(), "test")])
    # Who eats memory is to meet that limit first, however slowly processes start.
    patient = Limits(time_s=60, memory_mb=LIMITS.memory_mb)
    hungry = [name for name in ENDINGS if name.startswith("eat")]
    asked = trials(suite, *(name for name in ENDINGS if name not in hungry))
    asked = [*asked, *trials(suite, *hungry, limits=patient)]
    watcher = campaign(asked, folder / "records.jsonl", kind=Record)
    assert watcher.losses == []
    written = read_records([folder / "records.jsonl"])
    assert written == watcher.records
    return {record.solver: record for record in written}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_is_a_record_of_its_own(name: str, outcomes: dict[str, Record]) -> None:
    kind, status, words = ENDINGS[name]
    record = outcomes[name]
    assert (record.kind, record.status) == (kind, status)
    assert words in " ".join([record.error or "", *record.faults, *record.notes])
    assert bool(record.faults) == (kind == "invalid")
    assert (record.value is None) == (kind != "schedule")
    assert record.wall_s > 0
    assert record.machine["memory_mb"]
    assert record.versions["python"]


def test_what_a_killed_solver_had_found_is_kept(outcomes: dict[str, Record]) -> None:
    record = outcomes["hang_after_schedule"]
    assert record.offsets == {"a": 0, "b": 0}
    assert record.value == 6000
    assert record.lower_bound == 0
    assert record.stop == "killed"
    assert record.runtime_s is None
    assert record.trajectory == ((0.1, Fraction(6000), Fraction(0), "fake"),)


def test_what_a_solver_says_is_recorded(outcomes: dict[str, Record]) -> None:
    record = outcomes["well"]
    assert record.offsets == {"a": 0, "b": 8}
    assert record.value == record.lower_bound == 0
    assert [moment[1] for moment in record.trajectory] == [6000, 0]
    assert (record.stop, record.runtime_s, record.build_s) == ("finished", 0.2, 0.0)
    assert record.notes == ("fake",)


def test_memory_is_that_of_all_processes(outcomes: dict[str, Record]) -> None:
    assert (outcomes["eat_in_child"].peak_memory_mb or 0) > 250
    assert 5 < (outcomes["hang"].peak_memory_mb or 0) < 250


def test_nothing_that_was_started_is_left(outcomes: dict[str, Record], scratch: Path) -> None:
    assert len(outcomes) == len(ENDINGS)
    assert processes(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_task_that_never_gets_ready_is_killed(suite: Path, tmp_path: Path) -> None:
    limits = Limits(time_s=100, startup_s=0.5)
    (record,) = campaign(
        trials(suite, "never_ready", limits=limits), tmp_path / "r", kind=Record
    ).records
    assert (record.kind, record.error) == ("crash", "killed, not ready 0.5 s after its start")


@pytest.mark.slow
def test_a_campaign_killed_in_the_middle_resumes(
    suite: Path, tmp_path: Path, scratch: Path
) -> None:
    output = tmp_path / "records.jsonl"
    seeds = 8
    command = [sys.executable, "-m", "tests.bench.fake_campaign", str(suite), str(output)]
    with subprocess.Popen([*command, str(seeds)], cwd=os.environ["PYTHONPATH"]) as process:
        wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") >= 3)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes(scratch))  # the workers notice that nobody waits for them
    before = read_records([output])
    assert 3 <= len(before) < seeds
    with output.open("ab") as stream:
        stream.write(b'{"format":"metronome-record/1","kind":"sch')
    subprocess.run([*command, str(seeds)], cwd=os.environ["PYTHONPATH"], check=True)
    after = read_records([output])
    assert after[: len(before)] == before
    assert Counter(record.seed for record in after) == Counter(range(seeds))
    assert {record.kind for record in after} == {"schedule"}


class Unlucky(Executor):
    """An executor that loses a task, as a cluster does whose workers die."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if args[0].document["seed"] == 1:
            future.set_exception(RuntimeError("the worker died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_lost_case_is_not_recorded_and_the_others_go_on(suite: Path, tmp_path: Path) -> None:
    with local_pool() as local:
        pool = Pool(Unlucky(), 1, local.stop)
        watcher = campaign(trials(suite, "well", seeds=3), tmp_path / "r", pool, kind=Record)
    assert [record.seed for record in watcher.records] == [0, 2]
    ((case, error),) = watcher.losses
    assert str(case) == "two-jobs well seed 1"
    assert str(error) == "the worker died"


def processes(scratch: Path) -> list[int]:
    """Return what tasks that work in `scratch` started and what is still there."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(str(scratch)):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_until(condition: Any, patience_s: float = 60) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_leaving_a_pool_kills_what_runs(suite: Path, scratch: Path) -> None:
    (trial,) = trials(suite, "hang", limits=Limits(time_s=600))
    with local_pool() as pool:
        future = pool.submit(trial.task())
        wait_until(lambda: future.running() and bool(processes(scratch)))
    assert future.result().ending == "stopped"
    assert processes(scratch) == []


# ------------------------------------------------------------------ records

RECORD = record(
    "two-jobs", "auto", "199/5", lower_bound="1/3", trajectory=moments((0.5, 40), (1.5, "199/5"))
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_line(RECORD), encoding="utf-8")
    assert read_records([path, path]) == [RECORD, RECORD]
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["format"] == "metronome-record/1"
    assert document["objective"] == "199/5"
    assert document["trajectory"][0] == [0.5, "40", None, ""]


def test_the_key_tells_cases_apart() -> None:
    changes: dict[str, Any] = {
        "instance_sha256": "cd" * 32,
        "solver": "greedy",
        "seed": 1,
        "time_limit_s": 11.0,
        "memory_limit_mb": None,
        "workers": 1,
    }
    others = [replace(RECORD, **{name: value}) for name, value in changes.items()]
    assert len({each.key for each in (RECORD, *others)}) == 7
    assert replace(RECORD, kind="crash", commit=None, wall_s=1.0).key == RECORD.key


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "document: Invalid JSON"),
        ('{"format":"metronome-record/2"}', "format: "),
        (dump_line(RECORD)[:-1].replace('"seed":0', '"seed":-1'), "seed: must be at least 0"),
        (dump_line(RECORD)[:-1].replace("199/5", "39.8"), "objective: must be an exact number"),
        (dump_line(RECORD)[:-1].replace('"schedule"', '"success"'), "kind: must be 'schedule'"),
        ("", "document: Invalid JSON"),
    ],
)
def test_any_other_line_that_is_no_record_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_line(RECORD) + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"r\.jsonl: line 2: {message}"):
        read_records([path])
    with pytest.raises(InputError, match="line 2"):
        Journal(path, Record, resume=True)
