"""Campaigns: each kind of failure has a record of its own kind, and no process is left."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import threading
from concurrent.futures import Executor, Future
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest

from metronome_opt.bench.campaign import Pool, local_pool, remaining_cases
from metronome_opt.bench.cases import measure, split_sections
from metronome_opt.bench.process import Limits, find_commit, run_task
from metronome_opt.bench.solver_runs import SolverRecord, read_records
from metronome_opt.child import MARK
from metronome_opt.files.journal import dump_line
from tests.bench.examples import LIMITS, campaign, solver_cases, write_suite
from tests.bench.fake_worker import run_fake
from tests.bench.report_examples import moments, record
from tests.builders import two_jobs
from tests.running import wait_until

# The outcome of each fake solver; the third column is in the error, a fault or a note.
ENDINGS = {
    "well": ("schedule", "optimal", ""),
    "abort": ("crash", None, "signal 6 (Aborted): free(): invalid pointer"),
    "abort_after_schedule": ("crash", None, "signal 6"),
    "abort_after_end": ("schedule", "optimal", "after its result: ended by signal 6"),
    "fail": ("crash", None, "ValueError: a fault of two lines"),
    "eat": ("out_of_memory", None, "more memory than 400 MB was needed"),
    "abort_without_memory": ("out_of_memory", None, "std::bad_alloc"),
    "hang": ("no_schedule", "unknown", "killed 0.6 s after its limit of 1 s"),
    "hang_after_schedule": ("schedule", "feasible", "killed 0.6 s after its limit of 1 s"),
    "hang_in_child": ("crash", None, "signal 6"),
    "fork_and_abort": ("crash", None, "signal 6"),
    "overlap_denied": ("invalid", "optimal", "objectives.contention: stated 0, but it is 6000"),
    "offset_outside": ("invalid", "optimal", "offsets.b: stated 28, but it must be in [0, 20)"),
    "bound_above_value": ("invalid", "feasible", "lower_bound: stated 1/3"),
    "bound_without_schedule": ("invalid", "unknown", "the contention unshifted is 6000"),
    "proof_denied": ("invalid", "optimal", "the bound is 1 and the contention 6000"),
    "infeasible": ("infeasible", "infeasible", ""),
    "nothing": ("no_schedule", "unknown", ""),
}


@pytest.fixture(scope="module")
def outcomes(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SolverRecord]:
    """Run all the fakes in one campaign; their records by name."""
    assert processes(scratch) == []
    folder = tmp_path_factory.mktemp("fakes")
    suite = write_suite(folder / "pair", [(two_jobs(), "test")])
    # Only those that hang are to meet the limit of time, however slow the machine is.
    patient = Limits(time_s=60, memory_mb=LIMITS.memory_mb)
    hanging = ["hang", "hang_after_schedule"]
    cases = solver_cases(suite, *(name for name in ENDINGS if name not in hanging), limits=patient)
    cases += solver_cases(suite, *hanging)
    watcher = campaign(cases, folder / "records.jsonl", kind=SolverRecord)
    assert watcher.losses == []
    written = read_records([folder / "records.jsonl"])
    assert written == watcher.records
    return {record.solver: record for record in written}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_is_a_record_of_its_own(name: str, outcomes: dict[str, SolverRecord]) -> None:
    kind, status, words = ENDINGS[name]
    record = outcomes[name]
    assert (record.kind, record.status) == (kind, status)
    assert words in " ".join([record.error or "", *record.faults, *record.notes])
    assert bool(record.faults) == (kind == "invalid")
    assert (record.value is None) == (kind != "schedule")
    assert record.wall_s > 0
    assert record.machine["memory_mb"]
    assert record.versions["python"]


@pytest.mark.slow
def test_last_schedule_of_a_killed_solver_is_kept(outcomes: dict[str, SolverRecord]) -> None:
    record = outcomes["hang_after_schedule"]
    assert record.offsets == {"a": 0, "b": 0}
    assert record.value == 6000
    assert record.lower_bound == 0
    assert record.stop == "killed"
    assert record.runtime_s is None
    assert record.trajectory == ((0.1, Fraction(6000), Fraction(0), "fake"),)


@pytest.mark.slow
def test_no_process_and_no_file_is_left(outcomes: dict[str, SolverRecord], scratch: Path) -> None:
    assert len(outcomes) == len(ENDINGS)
    assert processes(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_task_that_never_gets_ready_is_killed(suite: Path, tmp_path: Path) -> None:
    limits = Limits(time_s=100, startup_s=0.5)
    (record,) = campaign(
        solver_cases(suite, "never_ready", limits=limits), tmp_path / "r", kind=SolverRecord
    ).records
    assert (record.kind, record.error) == ("crash", "killed, not ready 0.5 s after its start")


class Unlucky(Executor):
    """An executor that loses a task, as a cluster does whose workers die."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if pickle.loads(args[0]).keywords["seed"] == 1:
            future.set_exception(RuntimeError("the worker died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_a_lost_case_is_not_recorded_and_the_others_go_on(suite: Path, tmp_path: Path) -> None:
    with local_pool() as local:
        pool = Pool(Unlucky(), 1, local.stop)
        watcher = campaign(
            solver_cases(suite, "well", seeds=3), tmp_path / "r", pool, kind=SolverRecord
        )
    assert [record.seed for record in watcher.records] == [0, 2]
    ((case, error),) = watcher.losses
    assert case.title == "two-jobs well seed 1"
    assert str(error) == "the worker died"


def processes(scratch: Path) -> list[int]:
    """Return the processes of tasks that work in `scratch`."""
    wanted = f"{MARK}={scratch}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_leaving_a_pool_kills_its_tasks(suite: Path, scratch: Path) -> None:
    (trial,) = solver_cases(suite, "hang", limits=Limits(time_s=600))
    with local_pool() as pool:
        future = pool.submit(trial)
        wait_until(lambda: future.running() and bool(processes(scratch)))
    assert future.result().ending == "stopped"
    assert processes(scratch) == []


def test_each_task_has_a_folder_of_its_own() -> None:
    work = pickle.dumps(partial(run_fake, solver="say_where")), LIMITS, ()
    first, second = (run_task(*work, threading.Event()).first("where") for _ in range(2))
    assert first["folder"] != second["folder"]
    assert all(where["temporary"] == where["folder"] for where in (first, second))


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


def test_a_case_whose_record_was_cut_off_runs_again(tmp_path: Path) -> None:
    """A file that ends with an earlier record states nothing false: reports mark its solver."""
    cases = solver_cases(write_suite(tmp_path / "s", [(two_jobs(), "test")]), "a", "b", "c")
    held: list[Any] = [Namespace(key=case.key, is_worth_repeating=never) for case in cases]
    assert remaining_cases(cases, held[:-1]) == cases[-1:]
    records = [record(name, solver, 1) for name in ("x", "y") for solver in ("a", "b")]
    (section,) = split_sections(measure(records[:-1]))
    assert section.summary["complete"].to_dict() == {"a": True, "b": False}


def never(_: Limits) -> bool:
    return False


def test_key_differs_between_cases() -> None:
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


# ------------------------------------------------------------------ provenance


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that is committed, in a checkout with a file that is not."""
    folder = tmp_path / "checkout" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    git(folder, *who, "commit", "--quiet", "--message", "first")
    (folder.parent / "notes.txt").write_text("not of the package")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_is_that_of_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = find_commit(package)
    assert commit == git(package, "rev-parse", "--short", "HEAD")
    (package / "new.py").write_text("")
    assert find_commit(package) == f"{commit}+"
    installed = package.parent / "environment" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert find_commit(installed) is None  # git does not track it
    (tmp_path / "away").mkdir()
    assert find_commit(tmp_path / "away") is None
    monkeypatch.setenv("PATH", "")
    assert find_commit(package) is None
