"""Feasibility tests end at their time limit and at Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from metronome_opt.__main__ import main
from metronome_opt.allocation.slots.job_selection import check_feasibility
from metronome_opt.problem.instance import Instance, Job, Link, Phase, write_instance
from metronome_opt.problem.result import StopReason

PERIODS = (1000, 2000, 4000, 5000, 10_000, 20_000)


def many_jobs(count: int, busy: float = 0.5) -> Instance:
    """Make jobs that take turns on a link."""
    draw = Random(1)
    jobs = []
    for index in range(count):
        period = draw.choice(PERIODS)
        length = max(1, round(draw.expovariate(1) * busy * period / count))
        phase = Phase(start=0, length=length, rate=1)
        jobs.append(Job(name=f"j{index}", period=period, phases=(phase,), links={"l": 1}))
    return on_one_link(jobs)


def full_link() -> Instance:
    """Make jobs that leave no slot of a link free, so that first fit ends nowhere."""
    jobs = list(many_jobs(300, 0.8).jobs)
    free = PERIODS[-1] - sum(PERIODS[-1] // job.period * job.volume for job in jobs)
    for begin in range(0, free, 40):
        phase = Phase(start=0, length=min(40, free - begin), rate=1)
        name = f"f{begin}"
        jobs.append(Job(name=name, period=PERIODS[-1], phases=(phase,), links={"l": 1}))
    return on_one_link(jobs)


def on_one_link(jobs: list[Job]) -> Instance:
    return Instance(name="many", slot_ms=1, links=(Link(name="l", capacity=1),), jobs=tuple(jobs))


MANY = many_jobs(2082)
FULL = full_link()


@contextmanager
def computing_at_most(seconds: float) -> Iterator[None]:
    """Fail if the block computes for longer; other processes do not count."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    yield
    timer.join()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cpsat", "milp"])
@pytest.mark.parametrize("limit", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("instance", [MANY, FULL], ids=["many", "full"])
def test_limits_hold_on_many_jobs_of_a_link(instance: Instance, solver: str, limit: float) -> None:
    check_feasibility(
        instance, solver=solver, time_limit=1e-6, threads=1
    )  # loads what no limit counts
    with computing_at_most(1.05 * limit + 2.0):
        check_feasibility(instance, solver=solver, time_limit=limit, threads=1)
    with computing_at_most(1.05 * limit + 2.0):
        check_feasibility(instance, drop=True, solver=solver, time_limit=limit, threads=1)


def test_what_is_not_decided_in_time_is_not_known() -> None:
    found = check_feasibility(FULL, time_limit=1.0, threads=1)
    assert (found.offsets, found.bound, found.refutations) == (None, 0, ())
    assert found.stop is StopReason.TIME_LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cpsat", "milp"])
def test_ctrl_c_is_answered_on_many_jobs_of_a_link(solver: str) -> None:
    check_feasibility(FULL, solver=solver, time_limit=1e-6, threads=1)
    with computing_at_most(6.0), ctrl_c_after(1.5):
        chosen = check_feasibility(FULL, drop=True, solver=solver, time_limit=None, threads=1)
    assert chosen.stop is StopReason.INTERRUPTED


def test_interrupted_fit_exits_with_130(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "many.json", tmp_path / "kept.json"
    write_instance(FULL, path)
    check_feasibility(FULL, solver="milp", time_limit=1e-6)
    with ctrl_c_after(4.0):
        arguments = ["--time-limit", "60", "--solver", "milp", "--threads", "1"]
        assert main(["fit", str(path), "--drop", *arguments, "--output", str(output)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert output.exists()
