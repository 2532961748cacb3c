"""Time limits, Ctrl-C and missing back ends, on an instance that nobody solves in a second."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from metronome_opt.errors import MissingBackendError, SolverError
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.result import Stop
from metronome_opt.schedule import Status
from metronome_opt.solvers import SOLVERS, solve
from metronome_opt.verify import check

SEARCHING = ["auto", "cpsat", "milp", "milp-cbc", "exhaustive"]


def hard_instance(jobs: int = 12, links: int = 4) -> Instance:
    """Make jobs that cannot avoid one another, on links with several of them each."""
    draw = random.Random(3)
    names = [f"link-{index}" for index in range(links)]
    return Instance(
        name="hard",
        slot_ms=5,
        links=tuple(Link(name=name, capacity=100) for name in names),
        jobs=tuple(
            Job(
                name=f"job-{index}",
                period=draw.choice((40, 50, 100)),
                weight=draw.choice((1, 2, 4)),
                phases=(Phase(start=0, length=draw.randint(9, 17), rate=draw.randint(55, 95)),),
                links=dict.fromkeys(draw.sample(names, 2), 1),
            )
            for index in range(jobs)
        ),
    )


HARD = hard_instance()


@pytest.mark.parametrize("name", SEARCHING)
def test_the_time_limit_gives_what_was_found(name: str) -> None:
    result = solve(HARD, name, time_limit=1.5, workers=1)
    assert result.stop is Stop.TIME_LIMIT
    assert result.status is Status.FEASIBLE
    assert check(HARD, result.schedule) == ()
    assert result.lower_bound is None or result.lower_bound < result.objective


@pytest.mark.parametrize("name", SEARCHING)
def test_ctrl_c_gives_what_was_found(name: str) -> None:
    began = time.monotonic()
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = solve(HARD, name, time_limit=100, workers=1)
    timer.join()
    assert result.stop is Stop.INTERRUPTED
    assert result.status is Status.FEASIBLE
    assert check(HARD, result.schedule) == ()
    assert time.monotonic() - began < 60  # it did not wait for the limit


@pytest.mark.parametrize("name", ["cpsat", "milp", "milp-cbc"])
def test_the_time_limit_covers_building(name: str) -> None:
    result = solve(hard_instance(120, 80), name, time_limit=0.2, workers=1)
    assert result.stop is Stop.TIME_LIMIT
    assert any("found no schedule of its own" in note for note in result.notes)


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("cpsat", "ortools.sat.python", "pip install ortools"),
        ("auto", "ortools.sat.python", "pip install ortools"),
        ("milp", "pulp", "pip install pulp"),
        ("milp-cbc", "pulp", "pip install pulp"),
    ],
)
def test_a_missing_back_end_is_named_with_its_remedy(
    name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingBackendError, match=package):
        solve(HARD, name, time_limit=5)


def test_back_ends_work_in_one_process_in_any_order() -> None:
    # OR-Tools and highspy bring shared libraries of one name; the second to load fails.
    code = """
from tests.solvers.test_limits import hard_instance
from metronome_opt.solvers import solve
for name in ("milp-cbc", "milp", "cpsat", "milp", "cpsat"):
    print(solve(hard_instance(2, 2), name, time_limit=30, workers=1).status)
"""
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert told.stdout.split() == ["optimal"] * 5, told.stderr


def test_missing_highs_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shadow")
    (folder / "highspy.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with pytest.raises(MissingBackendError, match="pip install highspy"):
        solve(HARD, "milp", time_limit=30)


def test_a_back_end_that_crashes_is_an_error_not_a_schedule(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shadow")
    (folder / "highspy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with pytest.raises(SolverError, match="HiGHS ends with exit status -9"):
        solve(HARD, "milp", time_limit=30)


def test_every_solver_says_what_it_is() -> None:
    for name, solver in SOLVERS.items():
        assert solver.name == name
        assert solver.summary
        assert callable(solver.load())
