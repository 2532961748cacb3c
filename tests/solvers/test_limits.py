"""Time limits, Ctrl-C, missing back ends, numbers out of range, and starts."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks import textbook
from metronome_opt import solve
from metronome_opt.errors import InputError, MissingBackendError, SolverError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.verify import verify_schedule
from tests.builders import HARD, evaluation_of, hard_instance, job, network, two_jobs
from tests.solvers.test_every_solver import CROWDED

MODELS: list[Any] = ["cpsat", "milp"]
TEXTBOOK = [textbook.cpsat, textbook.milp]
SEARCHING: list[Any] = ["auto", "branch-bound", "elimination", *MODELS, *TEXTBOOK]


def a_while(name: Any) -> float:
    """Return in how many seconds a solver is in the middle of its search; a back end starts up."""
    return 1.5 if name in MODELS + TEXTBOOK else 0.5


@pytest.mark.slow
@pytest.mark.parametrize("stop", [StopReason.TIME_LIMIT, StopReason.INTERRUPTED])
@pytest.mark.parametrize("name", SEARCHING)
def test_time_limit_and_ctrl_c_return_incumbent(name: Any, stop: StopReason) -> None:
    solve(two_jobs(), name, time_limit=1, threads=1)  # what is loaded before is not interrupted
    timer = threading.Timer(a_while(name), os.kill, (os.getpid(), signal.SIGINT))
    is_timed = stop is StopReason.TIME_LIMIT
    if not is_timed:
        timer.start()
    # Else beyond the limit of a test.
    result = solve(HARD, name, time_limit=a_while(name) if is_timed else 10_000, threads=1)
    assert result.stop_reason is stop
    assert result.status is Status.FEASIBLE
    assert verify_schedule(HARD, result.schedule) == ()
    assert result.bound is None or result.bound < evaluation_of(result).contention


# The model of the second has millions of entries.
LONG = network(job("a", 3000, (0, 1500, 60)), job("b", 3600, (0, 1500, 60)))


@pytest.mark.parametrize("instance", [hard_instance(120, 80), LONG], ids=["wide", "long"])
@pytest.mark.parametrize("name", TEXTBOOK)
def test_time_limit_covers_model_building(name: Any, instance: Instance) -> None:
    began = time.process_time()
    result = solve(instance, name, time_limit=0.2, threads=1)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert time.process_time() - began < 5  # making the model alone would take longer
    assert any("found no better schedule" in note for note in result.notes)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_model_beyond_memory_is_refused(name: Any) -> None:
    huge = network(*(job(name, 20_000, (0, 9000, 60)) for name in "ab"))
    with pytest.raises(InputError, match="360040000 entries, more than 20000000"):
        solve(huge, name, time_limit=10)
    assert solve(huge, "greedy").value == 0


PACKAGES = {
    "cpsat": ("ortools.sat.python", "ortools"),
    "milp": ("pulp", "pulp"),
    "toulbar2": ("pytoulbar2", "'metronome-opt[toulbar2]'"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_missing_back_end_is_named_with_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package = PACKAGES[name]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingBackendError, match=f"pip install {re.escape(package)}"):
        solve(HARD, name, time_limit=5)


@pytest.mark.slow
def test_back_ends_load_in_any_order() -> None:
    # OR-Tools and highspy bring shared libraries of one name; the second to load fails.
    code = """
from tests.builders import hard_instance
from metronome_opt import solve
for name in ("milp", "cpsat"):
    print(solve(hard_instance(2, 2), name, time_limit=30, threads=1).status)
"""
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert run.stdout.split() == ["optimal"] * 2, run.stderr


@pytest.mark.parametrize(
    ("highspy", "error", "said"),
    [
        ("raise ImportError('not here')", MissingBackendError, "pip install highspy"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            SolverError,
            "HiGHS ends with signal SIGKILL",
        ),
    ],
    ids=["missing", "crashing"],
)
def test_missing_or_crashing_highs_is_error(
    highspy: str,
    error: type[Exception],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "highspy.py").write_text(highspy)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(error, match=said):
        solve(HARD, textbook.milp, time_limit=30)


@pytest.mark.slow
def test_costs_beyond_doubles_are_proved() -> None:
    draw = random.Random(5)
    jobs = (
        job(
            f"j{index}",
            (999, 1000)[index % 2],
            (0, 600, 50_000 + 7 * index),
            weight=3 * 10**6 - index,
            fixed_offset=draw.randrange(999),
            links={f"l{index % 2}": 1},
        )
        for index in range(4)
    )
    instance = network(*jobs, l0=60_001, l1=60_001)
    results = [solve(instance, name, threads=1) for name in ("cpsat", textbook.cpsat, "auto")]
    assert {result.status for result in results} == {Status.OPTIMAL}
    assert len({result.value for result in results}) == 1
    with pytest.raises(InputError, match="beyond what floating-point"):
        solve(instance, textbook.milp)


def test_ctrl_c_during_verification_keeps_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["metronome_opt.solvers.multiobjective.solve"]
    real = module.evaluate

    def interrupted(*arguments: object, **options: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return real(*arguments, **options)

    monkeypatch.setattr(module, "evaluate", interrupted)
    result = solve(HARD, "greedy")
    assert result.stop_reason is StopReason.INTERRUPTED
    assert verify_schedule(HARD, result.schedule) == ()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # as it was before


def test_second_ctrl_c_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["metronome_opt.solvers.multiobjective.solve"]

    def insisted(*_: object, **__: object) -> object:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    monkeypatch.setattr(module, "evaluate", insisted)
    with pytest.raises(KeyboardInterrupt):
        solve(HARD, "greedy")


def test_parts_with_common_multiple_beyond_64_bits_are_solved() -> None:
    # Pairs of jobs on links of their own; their periods have no common multiple below 10**30.
    primes = (499, 503, 509, 521, 523, 541, 547, 557, 563, 569, 571)
    jobs = (
        job(f"{name}-{prime}", prime, (0, 300, 60), links={f"l{prime}": 1})
        for prime in primes
        for name in "ab"
    )
    instance = network(*jobs, **{f"l{prime}": 100 for prime in primes})
    for name in ("auto", "local", "branch-bound"):
        result = solve(instance, name, time_limit=20, threads=1)
        # Bursts of 300 in p slots share 600 - p at least, 20 unserved.
        assert result.value == sum(Fraction(20 * (600 - p), p) for p in primes)
        assert verify_schedule(instance, result.schedule) == ()
    assert solve(instance, "auto", time_limit=20, threads=1).status is Status.OPTIMAL


def test_ctrl_c_during_import_of_highs_is_interrupt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "highspy.py").write_text("""
import pathlib, time
try:
    pathlib.Path(__file__).with_name("importing").touch()
    time.sleep(600)
except KeyboardInterrupt:
    raise ImportError("as a module written in C does") from None
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def interrupt() -> None:
        while not (tmp_path / "importing").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    result = solve(HARD, textbook.milp, time_limit=10_000)
    thread.join()
    assert result.stop_reason is StopReason.INTERRUPTED
    assert verify_schedule(HARD, result.schedule) == ()


@pytest.mark.parametrize(
    "name", ["greedy", "local", "auto", "branch-bound", "elimination", "cpsat"]
)
def test_shortest_limit_gives_greedy_schedule(name: str) -> None:
    instance = hard_instance(120, 80)
    greedy = evaluation_of(solve(instance, "greedy", time_limit=None)).contention
    assert greedy < evaluation_of(solve(instance, "unshifted")).contention
    assert evaluation_of(solve(instance, name, time_limit=1e-6, threads=1)).contention <= greedy


def test_joining_many_blocks_is_quick() -> None:
    """Of a fabric of 10,240 nodes, which has some 2,000 blocks, that took minutes."""
    count = 3000
    jobs = (job(f"j{n}", 4, (0, 3, 60), links={f"l{n}": 1, f"l{n + 1}": 1}) for n in range(count))
    chain = split(network(*jobs, **{f"l{n}": 100 for n in range(count + 1)}))
    began = time.process_time()
    joined = chain.join([dict.fromkeys((each.name for each in b.jobs), 1) for b in chain.blocks])
    assert time.process_time() - began < 5
    assert set(joined.values()) == {1}


@pytest.mark.parametrize("size", [2**62 + 1, 2**63, 2**64 + 3])
def test_numbers_beyond_64_bits_are_refused_in_one_line(size: int) -> None:
    free = network(*(job(name, 4, (0, 2, size)) for name in "ab"), capacity=3 * size + 1)
    heavy = two_jobs().replace(
        jobs=tuple(each.model_copy(update={"weight": size}) for each in two_jobs().jobs)
    )
    for instance in (free, heavy):
        for name in ("greedy", "auto", "elimination"):
            with pytest.raises(InputError, match="does not fit 64-bit integers"):
                solve(instance, name, time_limit=5)


def test_result_is_no_worse_than_start() -> None:
    best = solve(CROWDED, "branch-bound")
    again = solve(CROWDED, "unshifted", warm_start=best.schedule)
    assert (again.value, again.offsets) == (best.value, best.offsets)
    assert again.trajectory[0].source == "start"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"offsets": {}}, "is a job of only one of schedule and instance"),
        ({"offsets": dict.fromkeys(CROWDED.unshifted, 10**6)}, "begins at 1000000; must be below"),
        ({"stretch": dict.fromkeys(CROWDED.unshifted, 1)}, "start: stretches jobs"),
        (None, "start: must be a Schedule, got str"),
    ],
)
def test_invalid_start_is_refused(change: dict[str, Any] | None, said: str) -> None:
    schedule = solve(CROWDED, "greedy").schedule
    start: Any = "schedule.json" if change is None else schedule.model_copy(update=change)
    with pytest.raises(InputError, match=said):
        solve(CROWDED, "greedy", warm_start=start)
