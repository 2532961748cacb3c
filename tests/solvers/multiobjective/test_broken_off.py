"""Searches for several objectives that end before they are done: by time, Ctrl-C or a callback."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from metronome_opt import pareto, solve
from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers.arguments import Arguments
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.contention import Solution, solve_contention
from metronome_opt.solvers.multiobjective.nondominated import Nondominated
from metronome_opt.verify import verify_schedule
from tests.builders import HARD, HARMLESS, job, network
from tests.solvers.multiobjective.enumeration import costs, final, two_blocks

ALL_LEVELS = ["contention", "latency", "wait", "moves", "cushion"]


@pytest.mark.parametrize("names", [ALL_LEVELS, ALL_LEVELS[::-1]])
def test_short_limit_gives_schedule_without_proof(names: list[str]) -> None:
    began = time.process_time()
    result = solve(HARD, objective=names, time_limit=0.05, threads=1)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert verify_schedule(HARD, result.schedule) == ()
    assert costs(result.levels) == final(result, names)
    contention = names.index("contention")
    assert not any(level.proved for level in result.levels[contention:])
    if not contention:
        assert result.status is Status.FEASIBLE
    assert time.process_time() - began < 15


@pytest.mark.parametrize(
    "goal", [{"objective": ALL_LEVELS}, {"objective": dict.fromkeys(ALL_LEVELS[:4], 1)}]
)
def test_ctrl_c_ends_all_levels(goal: dict[str, Any]) -> None:
    timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = solve(HARD, time_limit=10_000, threads=1, **goal)  # beyond the limit of a test
    timer.join()
    assert result.stop_reason is StopReason.INTERRUPTED
    assert not any(level.proved for level in result.levels)
    assert verify_schedule(HARD, result.schedule) == ()


def test_callback_is_notified_of_every_level() -> None:
    heard: list[str] = []

    def note(event: ProgressEvent) -> bool:
        heard.extend(filter(None, [event.source]))
        return bool(event.source == "moves")

    found = solve(HARMLESS, objective=["wait", "moves", "cushion"], stop=note, threads=1)
    assert heard[0] == "wait"
    assert heard[-1] == "moves"
    assert found.stop_reason is StopReason.RULE
    assert [level.proved for level in found.levels] == [True, False, False]


def test_later_proof_keeps_time_limit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Solution] = []

    def hurried(arguments: Arguments) -> Solution:
        budget = arguments.budget if reached else Budget(0)
        reached.append(solve_contention(replace(arguments, budget=budget)))
        return reached[-1]

    monkeypatch.setattr("metronome_opt.solvers.multiobjective.offsets.solve_contention", hurried)
    crowd = network(job("a", 4, (0, 3, 60)), job("b", 6, (0, 3, 60), weight=4))
    result = solve(crowd, objective=["contention", "latency"], threads=1)
    assert [found.stop for found in reached] == [StopReason.TIME_LIMIT, StopReason.PROVED]
    assert not any(level.proved for level in result.levels)
    assert result.stop_reason is StopReason.TIME_LIMIT


def test_front_keeps_points_wherever_search_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = two_blocks()
    left = 0

    def stopped(_: Nondominated) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    monkeypatch.setattr(Nondominated, "stopped", property(stopped))
    for looks in itertools.count():
        left = looks
        front = pareto(crowd, threads=1)
        assert front.points
        assert all(verify_schedule(crowd, point) == () for point in front.points)
        assert front.complete == (left >= 0)
        if front.complete:
            break
    assert looks > 1
