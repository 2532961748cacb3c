"""HiGHS in a process returns what it does in a thread and CP-SAT does, and ends on time."""

from __future__ import annotations

import random
import time

import pytest

from metronome_opt.allocation.slots.integer_program import (
    Row,
    minimise_by_cpsat,
    minimise_by_highs,
    minimise_in_process,
)
from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget


def test_answers_are_those_of_this_process() -> None:
    """At least one variable is 1, and not both of the first two: the cheapest one alone."""
    rows = [Row(((-1, 0), (-1, 1), (-1, 2)), -1), Row(((1, 0), (1, 1)), 1)]
    for minimise in (minimise_in_process, minimise_by_highs, minimise_by_cpsat):
        assert minimise(Budget(30), [3, 2, 4], rows) == ([0, 1, 0], 2)


def test_rows_that_cannot_be_kept_are_an_error_of_one_line() -> None:
    with pytest.raises(SolverError, match="HiGHS ends with status 2") as error:
        minimise_in_process(Budget(30), [1], [Row(((1, 0),), 0), Row(((-1, 0),), -1)])
    assert "\n" not in str(error.value)


def test_it_ends_on_time() -> None:
    draw = random.Random(0)
    weights = [[draw.randrange(1, 1000) for _ in range(200)] for _ in range(100)]
    rows = [Row(tuple((-w, n) for n, w in enumerate(each)), -sum(each) // 2) for each in weights]
    began = time.monotonic()
    values, bound = minimise_in_process(Budget(1.5), [1] * 200, rows)
    assert values is None or bound < sum(values)
    assert time.monotonic() - began < 3
    assert minimise_in_process(Budget(0), [1], []) == (None, 0)
