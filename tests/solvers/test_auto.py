"""The default solver: repeatable runs, faults in threads, signals and short limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from metronome_opt import solve
from metronome_opt.errors import SolverError
from metronome_opt.problem.instance import Instance, read_instance
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import Status, read_schedule
from metronome_opt.solvers import auto, local
from metronome_opt.solvers.auto import _Portfolio
from metronome_opt.solvers.link_groups import LinkGroups
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import verify_schedule
from tests.builders import HARD, evaluation_of, hard_instance
from tests.running import let_work

SUITES = Path(__file__).parents[2] / "benchmarks" / "suites"
TOUGH = hard_instance(14, 5)  # not proved in two rounds, which are shorter than those of HARD


def repeatable(result: Result) -> tuple[object, ...]:
    """Return everything of a result but times."""
    events = [(event.incumbent, event.bound, event.source) for event in result.trajectory]
    return events, result.offsets, result.notes, result.stop_reason


@pytest.mark.parametrize("name", ["paper/paper-tune-0", "fabric/fabric-64-tune-0"])
def test_run_of_one_worker_is_repeatable(name: str) -> None:
    instance = read_instance(SUITES / f"{name}.json")
    runs = [solve(instance, time_limit=None, threads=1, seed=3) for _ in range(2)]
    assert repeatable(runs[0]) == repeatable(runs[1])
    assert runs[0].status is Status.OPTIMAL


def after(rounds: int, instance: Instance) -> tuple[object, ...]:
    """Return what so many rounds of one thread come to."""
    search = SolverRun(instance, time_limit=None, seed=3, threads=1, rounds=rounds)
    auto.run(search)
    events = [(event.incumbent, event.bound, event.source) for event in search.trajectory]
    return search.incumbent, search.best, search.bound, events, search.notes


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 1])
def test_rounds_do_not_depend_on_clock(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_leisure = after(rounds, TOUGH)
    clock = count(step=1000)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    assert after(rounds, TOUGH) == at_leisure
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    assert after(rounds, TOUGH) == at_leisure


@pytest.mark.slow
@pytest.mark.parametrize(("where", "threads"), [("proof", 1), ("proof", 3), ("search", 2)])
def test_exception_in_thread_ends_run(
    where: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others would go on for as long as there is time."""
    with monkeypatch.context() as patch:
        _let_fail(where, SolverError("it fell over"), patch)
        result = solve(TOUGH, time_limit=100, threads=threads)
    assert result.stop_reason is StopReason.FINISHED
    assert result.status is Status.FEASIBLE
    assert verify_schedule(TOUGH, result.schedule) == ()
    assert any("it fell over" in note for note in result.notes)
    _let_fail(where, ZeroDivisionError("a mistake"), monkeypatch)
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        solve(TOUGH, time_limit=100, threads=threads)


def _let_fail(where: str, fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second round of proofs, or the first search after the start, fail."""
    rounds: list[object] = []
    step = LinkGroups.step

    def failing_step(self: LinkGroups, **rest: int) -> None:
        rounds.append(self)
        if rounds.count(self) > 1:
            raise fault
        step(self, **rest)

    def failing_improve(_: _Portfolio) -> bool:
        raise fault

    if where == "proof":
        monkeypatch.setattr(LinkGroups, "step", failing_step)
    else:
        monkeypatch.setattr(_Portfolio, "_improve_one", failing_improve)


def test_short_limit_gives_valid_schedule_of_many_jobs() -> None:
    instance = read_instance(SUITES / "fabric" / "fabric-256-tune-0.json")
    for threads in (1, 2):
        result = solve(instance, time_limit=0.1, threads=threads)
        assert verify_schedule(instance, result.schedule) == ()
        assert (result.status is Status.OPTIMAL) == (result.bound == result.value)
        assert result.bound is None or result.bound <= evaluation_of(result).contention


@pytest.mark.slow
def test_signal_during_search_writes_schedule(tmp_path: Path) -> None:
    instance = SUITES / "dense" / "dense-30-tune-0.json"
    arguments = [sys.executable, "-m", "metronome_opt", "solve", str(instance), "--threads", "2"]
    runs = []
    for number in (signal.SIGINT, signal.SIGTERM):
        target = tmp_path / f"{number.name}.json"
        process = subprocess.Popen(
            [*arguments, "--output", str(target), "--time-limit", "200"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        runs.append((number, target, process))
    for number, _, process in runs:
        let_work(process, cpu_s=4)
        process.send_signal(number)
    for _, target, process in runs:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert "Traceback" not in said
        schedule = read_schedule(target)
        assert verify_schedule(read_instance(instance), schedule) == ()
        assert schedule.status is Status.FEASIBLE
        assert schedule.runtime_s < 100


def test_lack_of_memory_keeps_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(local, "begin", starved)
    result = solve(HARD, time_limit=5, threads=2)
    assert result.status is Status.FEASIBLE
    assert verify_schedule(HARD, result.schedule) == ()
    assert "stopped: out of memory" in result.notes


def test_threads_end_with_run() -> None:
    before = threading.active_count()
    result = solve(HARD, time_limit=1, threads=3)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert threading.active_count() == before
