"""A budget of time: shares of it, its ends, and work that is cut into slices."""

from __future__ import annotations

import threading
import time

import pytest

from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.budget import Budget, run_interruptibly


def test_parts_end_with_the_whole_and_interrupt_it() -> None:
    whole = Budget(1000)
    part = whole.fraction(0.5).child(2000)
    assert part.remaining == pytest.approx(500, abs=1)
    assert not part.stopped
    part.end(StopReason.RULE)
    assert part.stopped
    assert not whole.stopped
    part.interrupt()
    assert whole.child().stop is part.stop is whole.stop is StopReason.INTERRUPTED


def test_no_limit_is_no_limit_of_any_share() -> None:
    budget = Budget().fraction(0.0)
    assert budget.remaining is budget.affordable is None
    assert (budget.stopped, budget.stop) == (False, StopReason.FINISHED)
    assert sum(budget.slices(1000)) == 1000


def test_nothing_is_done_when_the_time_is_over() -> None:
    for budget in (Budget(0), Budget(1000).fraction(0.0)):
        assert budget.stopped
        assert list(budget.slices(10)) == []
    assert Budget(0).stop is StopReason.TIME_LIMIT


def test_a_new_limit_keeps_the_speed() -> None:
    budget = Budget(1000)
    assert budget.affordable == 0  # nothing is known
    assert sum(budget.slices(100)) == 100
    budget.limit_to(100)
    assert (budget.affordable or 0) > 0


def test_waiting_does_not_make_slices_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for others after every slice computes as much in one as ever, or more."""
    clock = {"all": 0.0, "mine": 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock["all"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["mine"])
    longest = 0
    for part in Budget().slices(10**6):
        longest = max(longest, part)
        clock["mine"] += part * 1e-4
        clock["all"] += part * 1e-4 + 0.02
    assert longest >= 100  # a step takes 0.1 ms, so these are 10 ms, half of the wait


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_call_ends_with_its_budget(cancelled: bool) -> None:
    budget, done = Budget(), threading.Event()
    threading.Timer(0.2, budget.interrupt).start()
    cancel = done.set if cancelled else None
    found = run_interruptibly(budget, lambda: done.wait(30) and "done", cancel)
    assert budget.stop is StopReason.INTERRUPTED
    assert found == ("done" if cancelled else None)
    done.set()


def test_what_a_call_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(Budget(), lambda: 1 // 0)


def test_reason_of_the_whole_counts_before_that_of_a_part() -> None:
    whole = Budget()
    part = whole.child()
    whole.end(StopReason.RULE)
    part.end(StopReason.TIME_LIMIT)  # as a back end that was cut short says
    reasons = [part.stop]
    whole.interrupt()
    assert [*reasons, part.stop] == [StopReason.RULE, StopReason.INTERRUPTED]
