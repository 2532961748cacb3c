"""Links serve higher traffic classes first, and share within a class as stated."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import pytest

from metronome_opt.engine.conditions import TcpShares
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import EngineJob
from metronome_opt.problem.instance import Sharing
from tests.builders import iteration_of
from tests.simulation.runs import finish

# 10 ms of computing, then 30 ms at all that the link carries.
STEP = iteration_of((Fraction(10), Fraction(0)), (Fraction(3000),), (Fraction(100),))
EVEN = TcpShares(spread=0.0, newcomer=1.0)


def times(
    sharing: str, classes: tuple[int, ...], starts: tuple[float, ...], weights: tuple[int, ...]
) -> list[list[float]]:
    runners = [
        EngineJob(name, STEP, weight, 1, traffic_class=each)
        for name, weight, each in zip("abc", weights, classes, strict=False)
    ]
    engine = Engine({"link": 100}, runners, sharing=cast("Sharing", sharing), tcp=EVEN)
    for index, start in enumerate(starts):
        engine.start_job(index, {"link": 1}, at=start)
    return finish(engine)


@pytest.mark.parametrize("sharing", ["fair", "tcp", "weighted"])
def test_a_higher_class_goes_before_a_lower_one(sharing: str) -> None:
    # a sends from 10 on, b from 20. With half of the link each a has sent 30 by 60, b by 70.
    assert times(sharing, (0, 0), (0, 10), (1, 1)) == [[60.0], [60.0]]
    # b alone is on the link until 50; a has sent 10 of 30 before, and sends the rest until 70.
    assert times(sharing, (0, 1), (0, 10), (1, 1)) == [[70.0], [40.0]]
    assert times(sharing, (1, 0), (0, 10), (1, 1)) == [[40.0], [60.0]]


@pytest.mark.parametrize("sharing", ["fair", "tcp"])
def test_jobs_of_one_class_share_as_they_do_without(sharing: str) -> None:
    # b and c have half of the link each from 20 to 80; a, with 10 of 30 sent, goes on until 100.
    assert times(sharing, (0, 7, 7), (0, 10, 10), (1, 1, 1)) == [[100.0], [70.0], [70.0]]


def test_weights_order_jobs_of_one_class_alone() -> None:
    # c, of the highest class, from 20 to 50; then a before b, since it is heavier: 70 and 100.
    assert times("strict", (0, 0, 1), (0, 10, 10), (9, 2, 1)) == [[70.0], [90.0], [40.0]]
