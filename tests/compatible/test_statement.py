"""What a refutation forbids never fits, at whatever periods."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from metronome_opt.compatible.choices import Choices, FitTask, PeriodChoice, Reason, Refutation
from metronome_opt.compatible.choose import CpsatMaster, MilpMaster
from metronome_opt.compatible.decider import Decider, Pairs, core
from metronome_opt.instance import Instance
from metronome_opt.solvers.budget import Budget
from tests.builders import job, network
from tests.compatible.cases import fits, tiny_instance


def allowed(statement: CpsatMaster, taken: dict[str, int | None]) -> bool:
    """Return whether some choices keep all rows."""
    numbers = {statement.taken.index(choice) for choice in taken.items()}
    return all(
        sum(factor for factor, number in row.terms if number in numbers) <= row.most
        for row in statement.rows
    )


def several_periods(draw: Random, instance: Instance) -> Choices:
    return {
        job.name: tuple(
            PeriodChoice(period, Fraction(0))
            for period in (*sorted(draw.sample(range(job.period, job.period + 7), 3)), None)
        )
        for job in instance.jobs
    }


@pytest.mark.parametrize("seed", range(25))
def test_what_fits_is_allowed_and_what_was_refuted_is_not(seed: int) -> None:
    draw = Random(seed)
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1, 2))
    choices = several_periods(draw, instance)
    task = FitTask(instance, cushion)
    decider = Decider(task)
    statement = CpsatMaster(task, choices, decider.pairs)
    names = list(choices)
    fitting = []
    for periods in product(*([choice.period for choice in choices[name]] for name in names)):
        taken = dict(zip(names, periods, strict=True))
        kept = {name: period for name, period in taken.items() if period is not None}
        found = decider.decide(kept)
        if found.refutation is None:
            fitting.append(taken)
            continue
        statement.forbid(core(found.refutation, decider.decide))
        assert not allowed(statement, taken)
    for taken in fitting:
        assert allowed(statement, taken)
    for taken in draw.sample(fitting, min(5, len(fitting))):
        kept = {name: period for name, period in taken.items() if period is not None}
        assert fits(instance, kept, cushion)


def test_pairs_are_stated_as_long_as_there_is_time() -> None:
    """Bursts of 2 need 4 slots, more than two different periods from 5 to 9 have in common."""
    instance = network(job("a", 5, (0, 2, 60)), job("b", 5, (0, 2, 60)))
    choices = dict.fromkeys(
        "ab", tuple(PeriodChoice(period, Fraction(0)) for period in range(5, 10))
    )
    answers = iter((False, False, True))
    task = FitTask(instance, budget=Budget(None, lambda: next(answers)))
    rows = CpsatMaster(task, choices, Pairs(FitTask(instance))).rows
    assert len([row for row in rows if row.most == 1]) == 0
    assert next(answers, None) is None
    whole = CpsatMaster(FitTask(instance), choices, Pairs(FitTask(instance))).rows
    assert len([row for row in whole if row.most == 1]) == 5


@pytest.mark.parametrize("master", [CpsatMaster, MilpMaster])
def test_proposals_get_dearer_until_none_is_allowed(master: type[CpsatMaster | MilpMaster]) -> None:
    instance = network(job("a", 4, (0, 1, 60)))
    choices = {
        "a": (
            PeriodChoice(4, Fraction(1, 2)),
            PeriodChoice(None, Fraction(2)),
            PeriodChoice(5, Fraction(3)),
        )
    }
    proposer = master(FitTask(instance), choices, Pairs(FitTask(instance)))
    assert proposer.solve() == ({"a": 4}, Fraction(1, 2))
    # A lone job has no divisors with others: what is refuted at one period is at all.
    proposer.forbid(Refutation(Reason.HYPERPERIOD, {"a": 4}))
    assert proposer.solve() == ({"a": None}, Fraction(2))
    kept = {"a": tuple(choice for choice in choices["a"] if choice.period is not None)}
    proposer = master(FitTask(instance), kept, Pairs(FitTask(instance)))
    proposer.forbid(Refutation(Reason.SEARCH, {"a": 4}))
    assert proposer.solve() == (None, None)
    late = master(FitTask(instance, budget=Budget(0)), kept, Pairs(FitTask(instance)))
    assert late.solve()[0] is None
