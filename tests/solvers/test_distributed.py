"""Proofs by tasks: the same optimum in any process, also where processes are killed."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import pools, solve
from metronome_opt.__main__ import main
from metronome_opt.errors import SolverError
from metronome_opt.pools import Pool, ProcessExecutor
from metronome_opt.problem.instance import Instance, read_instance, write_instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers import distributed, elimination
from metronome_opt.solvers.cost_network import tables
from metronome_opt.solvers.cost_shifting import CostShifting
from metronome_opt.solvers.distributed import Task, search_subtrees
from metronome_opt.verify import verify_schedule
from tests.builders import HARD, fault_of, hard_instance, two_jobs
from tests.landscape import optimum
from tests.running import let_work, wait_until
from tests.solvers.searches import searching
from tests.strategies import assigned, crowded
from tests.tiers import examples

SUITES = Path(__file__).parents[2] / "benchmarks" / "suites"
SMALL = hard_instance(6, 3)
Compute = Callable[..., Any]


class Serial(Executor):
    """An executor that computes a task when it is asked for; tasks may be lost before or after."""

    def __init__(self, draw: random.Random | None = None, losses: float = 0.0) -> None:
        self.draw = draw or random.Random(0)
        self.losses = losses
        self.tasks = 0
        self.before: Callable[[int], object] = lambda _: None

    def submit(self, fn: Compute, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks += 1
        self.before(self.tasks)
        future: Future[Any] = Future()
        sent = pickle.loads(pickle.dumps((args, kwargs)))  # as by a process
        if self.draw.random() < self.losses / 2:
            future.set_exception(BrokenExecutor("killed before"))
            return future
        try:
            result = pickle.loads(pickle.dumps(fn(*sent[0], **sent[1])))
        except Exception as error:
            future.set_exception(pickle.loads(pickle.dumps(error)))
            return future
        if self.draw.random() < self.losses / 2:
            future.set_exception(BrokenExecutor("killed after"))
        else:
            future.set_result(result)
        return future


def in_small_steps(patch: pytest.MonkeyPatch, max_cells: int) -> None:
    """Have tasks end after a node, and tables and bounds that hardly help."""
    patch.setattr(distributed, "_TASK_S", 0.0)
    patch.setattr(distributed, "_SHORT_TASK_S", 0.0)
    patch.setattr(distributed, "_MAX_LOST", 10**6)
    patch.setattr(tables, "SMALL", 10)
    patch.setattr(tables, "link_bound", lambda *_: Fraction(0))
    patch.setattr(elimination, "MAX_CELLS", max_cells)


@given(
    assigned(crowded()),
    st.sampled_from((1, 5, 20, 2**20)),
    st.sampled_from((1, 3)),
    st.sampled_from((0.0, 0.3)),
    st.integers(0, 10),
    st.integers(0, 3),
)
@examples(80)
def test_tasks_prove_the_optimum(
    drawn: tuple[Instance, dict[str, int]],
    max_cells: int,
    width: int,
    losses: float,
    seed: int,
    sweeps: int,
) -> None:
    """A kept network may be of another incumbent, as that of another worker is.

    Costs are shifted meanwhile, and another tree of them begins.
    """
    best = optimum(drawn[0])
    executor = Serial(random.Random(seed), losses)
    with pytest.MonkeyPatch.context() as patch:
        in_small_steps(patch, max_cells)
        for offsets in (drawn[1], None):
            search = searching(drawn[0], offsets)
            roots: list[distributed.Root] = [(search, None)]
            shifted = CostShifting(search)

            def shift(task: int, *, roots: Any = roots, shifted: CostShifting = shifted) -> None:
                if task <= sweeps and shifted.stage < 2:
                    shifted.step()
                if task == sweeps and not shifted.search.proved:
                    roots.append((shifted.search, shifted.network()))

            executor.tasks, executor.before = 0, shift
            assert distributed.prove(roots, Pool(executor, width))
            assert search.incumbent == search.bound == best
            assert all(event.bound is None or event.bound <= best for event in search.trajectory)
            executor.losses = 0.0
    distributed._roots.clear()


def test_subtrees_are_divided_among_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two tasks have a subtree in common."""
    in_small_steps(monkeypatch, 200)
    search = searching(HARD)
    sent: list[Task] = []

    class Idle(Executor):
        """It computes the first task only."""

        def submit(self, fn: Compute, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if not sent:
                future.set_result(fn(*args, **kwargs))
            sent.append(args[0])
            if len(sent) > 4:
                search.end(StopReason.FINISHED)
            return future

    assert distributed.prove([(search, None)], Pool(Idle(), 4))
    first, _, _ = search_subtrees(sent[0])
    divided = [siblings for task in sent[1:] for siblings in task.subtrees]
    given = [
        (siblings.decisions, siblings.job, offset)
        for siblings in divided
        for offset in siblings.offsets
    ]
    assert len(given) == len({*given})
    assert len(sent) == 5
    assert len({siblings.offsets for siblings in divided if siblings.job == first[0].job}) == 4
    assert {*given} < {
        (part.decisions, part.job, offset) for part in first for offset in part.offsets
    }


@pytest.mark.parametrize("solver", ["auto", "elimination"])
def test_run_goes_on_without_executor_that_ends(solver: str) -> None:
    """It takes the task that loads kernels only."""

    class Leaving(Serial):
        _max_workers = 1

        def submit(self, fn: Compute, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if self.tasks:
                raise RuntimeError("cannot schedule new futures after shutdown")
            return super().submit(fn, *args, **kwargs)

    result = solve(SMALL, solver, executor=Leaving(), time_limit=None)
    assert result.status is Status.OPTIMAL
    assert result.value == solve(SMALL, solver, threads=1, time_limit=None).value
    noted = [note for note in result.notes if note.startswith("executor: it is gone (RuntimeError")]
    assert len(noted) == 1 or solver == "auto"  # perhaps proved before by groups of links


def test_task_that_is_always_lost_ends_the_executor() -> None:
    search = searching(HARD)
    assert not distributed.prove([(search, None)], Pool(Serial(losses=2.0), 2))
    (gone, lost) = search.notes
    assert gone == (
        "executor: it is gone (a task was lost 5 times: killed before); went on without it"
    )
    assert lost.startswith("tasks lost with their worker, given again: ")


def test_fault_in_task_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(distributed, "_begin", broken)
    with pytest.raises(SolverError, match=r"failed in a worker \(ZeroDivisionError: a mistake\)"):
        distributed.prove([(searching(HARD), None)], Pool(Serial(), 1))


def test_tree_of_shifted_costs_is_searched_by_itself() -> None:
    """Nothing but it proves the optimum."""
    search = searching(SMALL)
    shifted = CostShifting(search)
    shifted.step()
    assert not search.proved
    best = solve(SMALL, "elimination", threads=1, time_limit=None).value
    assert distributed.prove([(search, shifted.network())], Pool(Serial(), 2))
    assert search.incumbent == search.bound == best


@pytest.mark.slow
@pytest.mark.parametrize("is_shifted", [False, True])
def test_worker_of_another_version_is_an_error(*, is_shifted: bool) -> None:
    """Its offsets may be counted from another rotation."""
    search = searching(HARD)
    shifted = CostShifting(search)
    shifted.step()
    root = search, shifted.network() if is_shifted else None

    class Other(Serial):
        def submit(self, fn: Compute, /, *args: Any, **kwargs: Any) -> Future[Any]:
            (scale, sizes), *_ = args[0].terms, None
            other = replace(args[0], terms=(scale, (*sizes[::-1], 1)))
            return super().submit(fn, other, **kwargs)

    distributed._roots.clear()
    with pytest.raises(SolverError, match="another version"):
        distributed.prove([root], Pool(Other(), 1))


def test_tasks_that_lack_memory_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(distributed, "_begin", starved)
    search = searching(HARD)
    assert distributed.prove([(search, None)], Pool(Serial(), 1))
    assert search.notes == ["no elimination: out of memory"]
    assert not search.proved


# ------------------------------------------------------------------ arguments


def closed() -> ProcessExecutor:
    executor = ProcessExecutor(1)
    executor.shutdown()
    return executor


@pytest.mark.parametrize(
    ("executor", "options", "fault"),
    [
        (0, {}, "executor: must be from 1 to 256 processes, got 0"),
        (2.5, {}, "executor: must be a number of processes, the address of a Dask scheduler"),
        (True, {}, "executor: must be a number of processes"),
        (2, {"solver": "greedy"}, "executor: solver greedy runs in this process alone; omit it"),
        (2, {"objective": "latency"}, "executor: is for contention alone without a cushion"),
        (2, {"cushion_slots": 1}, "executor: is for contention alone without a cushion"),
    ],
)
def test_wrong_executor_is_one_line(executor: Any, options: dict[str, Any], fault: str) -> None:
    assert fault_of(lambda: solve(two_jobs(), executor=executor, **options)).startswith(fault)


def test_executor_that_has_ended_is_one_line() -> None:
    fault = fault_of(lambda: solve(two_jobs(), executor=closed()))
    assert fault.startswith("executor: it cannot compute a task (PoolGoneError: RuntimeError: ")
    assert fault.endswith("give one that runs, and whose workers have this package")


@pytest.mark.parametrize("options", ["--processes 0", "--processes 2 --dask tcp://127.0.0.1:9"])
def test_wrong_options_are_one_line(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "paper-24", *options.split()]) == 2
    assert "--processes" in capsys.readouterr().err


def test_executor_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Executor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            return Future()

    monkeypatch.setattr(pools, "_START_S", 0.1)
    fault = fault_of(lambda: solve(two_jobs(), executor=Silent()))
    assert fault.startswith("executor: it cannot compute a task (TimeoutError: 0.1 s)")


# ------------------------------------------------------------------ processes


def test_process_that_is_killed_is_replaced() -> None:
    with ProcessExecutor(2) as executor:
        first = executor.submit(os.getpid).result()
        assert first != os.getpid()
        sleeping = executor.submit(time.sleep, 100)
        wait_until(lambda: executor.pids and sleeping.running())
        for pid in executor.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(BrokenExecutor, match="ended with its task"):
            sleeping.result(timeout=60)
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(timeout=60)
        others = [executor.submit(os.getpid).result(timeout=60) for _ in range(3)]
        assert first not in others
        endless = executor.submit(time.sleep, 100)
        wait_until(endless.running)
        pids = executor.pids
    with pytest.raises(BrokenExecutor):
        endless.result()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_processes_end_with_the_one_that_started_them() -> None:
    program = """
import os, signal, time
from metronome_opt.pools import ProcessExecutor
executor = ProcessExecutor(1)
print(executor.submit(os.getpid).result(), flush=True)
executor.submit(time.sleep, 1000)
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    wait_until(lambda: not Path(f"/proc/{output.strip()}").exists())


class Dangerous(ProcessExecutor):
    """Processes one of which is killed before every seventh task."""

    _max_workers = 2

    def __init__(self) -> None:
        super().__init__(self._max_workers)
        self.tasks = 0

    def submit(self, fn: Compute, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks += 1
        if self.tasks % 7 == 0:
            os.kill(self.pids[0], signal.SIGKILL)
        return super().submit(fn, *args, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "elimination"])
def test_proof_ends_though_workers_are_killed(solver: str) -> None:
    instance = read_instance(SUITES / "dense" / "dense-8-tune-0.json")
    with Dangerous() as executor:
        result = solve(instance, solver, executor=executor, time_limit=None)
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == Fraction("80885/2")  # by this process alone
    assert verify_schedule(instance, result.schedule) == ()
    assert any("given again" in note for note in result.notes) or solver == "auto"


@pytest.mark.slow
def test_command_proves_in_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_instance(SMALL, tmp_path / "small.json")
    options = ["--processes", "2", "--solver", "elimination", "--json"]
    assert main(["solve", str(tmp_path / "small.json"), *options]) == 0
    schedule = json.loads(capsys.readouterr().out)
    assert Fraction(schedule["lower_bound"]) == solve(SMALL, threads=1, time_limit=None).value


@pytest.mark.slow
def test_ctrl_c_ends_processes() -> None:
    program = f"""
from metronome_opt import solve
from metronome_opt.__main__ import main
from metronome_opt.problem.instance import read_instance
instance = read_instance({str(SUITES / "dense" / "dense-12-tune-0.json")!r})
result = solve(instance, executor=2, time_limit=200)
print(result.stop_reason)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    let_work(process, cpu_s=20)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said.strip() == "interrupted"
