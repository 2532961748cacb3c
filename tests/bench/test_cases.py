"""Solver cases are measured exactly, and instances have equal weight in means."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from metronome_opt.bench.cases import (
    certified_gap,
    measure,
    primal_gap,
    primal_integral,
    read_best_known,
    split_sections,
)
from metronome_opt.bench.report import distribution, performance_profile
from metronome_opt.errors import InputError
from tests.bench.report_examples import moments, record, section_of

INFINITY = math.inf

# ------------------------------------------------------------------ measures of a run


def exact(*steps: tuple[float, int]) -> list[tuple[float, Fraction]]:
    return [(elapsed, Fraction(value)) for elapsed, value in steps]


def fraction(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


@pytest.mark.parametrize(
    ("value", "best", "gap"),
    [
        (5, 4, Fraction(1, 5)),
        (4, 4, 0),
        (0, 0, 0),
        (3, 0, 1),
        (-1, 1, 1),
        (-2, -4, Fraction(1, 2)),
        (None, 4, 1),
        (None, None, 1),
    ],
)
def test_primal_gap(value: int | None, best: int | None, gap: Fraction) -> None:
    assert primal_gap(fraction(value), fraction(best)) == gap


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [
        (10, 9, Fraction(1, 10)),
        (10, 0, 1),
        (10, None, 1),
        (0, 0, 0),
        (0, None, 0),
        (None, 3, 1),
    ],
)
def test_certified_gap(value: int | None, bound: int | None, gap: Fraction) -> None:
    assert certified_gap(fraction(value), fraction(bound)) == gap


@pytest.mark.parametrize(
    ("steps", "best", "integral"),
    [
        ([(2, 8), (5, 4)], 4, 0.35),  # 2 s of gap 1, 3 s of 1/2, 5 s of 0
        ([(2, 8)], 4, 0.6),  # the last gap stays
        ([], 4, 1.0),
        ([(0, 4)], 4, 0.0),
        ([(4, 0)], 0, 0.4),
        ([(4, 3)], 0, 1.0),
        ([(3, 8), (12, 4)], 4, 0.65),  # after the limit
    ],
)
def test_primal_integral(steps: list[tuple[float, int]], best: int, integral: float) -> None:
    assert primal_integral(exact(*steps), Fraction(best), 10) == pytest.approx(integral)


# ------------------------------------------------------------------ one run


def test_solved_is_proved_within_the_limit() -> None:
    cases = measure(
        [
            record("p", "proved", 5, lower_bound=5, runtime_s=2.0),
            record("p", "late", 5, lower_bound=5, runtime_s=10.5),
            record("p", "unproved", 6, lower_bound=4),
            record("p", "nothing", runtime_s=None),
        ]
    )
    assert list(cases["solved"]) == [True, False, False, False]
    assert list(cases["proof_s"]) == [2, INFINITY, INFINITY, INFINITY]
    assert list(cases["penalised_s"]) == [2, 20, 20, 20]
    assert list(cases["ended"]) == ["optimal", "optimal", "feasible", "no schedule"]


def test_refused_statements_are_no_value_and_no_bound() -> None:
    cases = measure(
        [
            record("p", "refused", 3, lower_bound=3, kind="invalid", faults=("contention",)),
            record("p", "honest", 4, lower_bound=2),
        ]
    )
    refused = cases.iloc[0]
    assert (refused["value"], refused["lower_bound"], refused["solved"]) == (None, None, False)
    assert (refused["primal_gap"], refused["primal_integral"]) == (1, 1)
    assert list(cases["best_value"]) == [4, 4]


def test_a_bound_above_a_value_of_another_is_invalid() -> None:
    huge = 10**20
    cases = measure(
        [
            record("p", "wrong", 6, lower_bound=6),
            record("p", "right", 5, lower_bound="14/3"),
            record("q", "close", f"{huge}/3", lower_bound=f"{huge + 1}/3"),
        ]
    )
    assert list(cases["ended"]) == ["invalid", "feasible", "invalid"]
    assert list(cases["solved"]) == [False] * 3
    assert list(cases["best_bound"]) == [Fraction(14, 3), Fraction(14, 3), None]


def test_incumbents_better_than_the_verified_value_are_left_out() -> None:
    cases = measure([record("p", "a", 8, trajectory=moments((1, 16), (2, 8), (3, 4)))])
    assert cases["steps"][0] == ((1.0, Fraction(16)), (2.0, Fraction(8)))
    assert cases["primal_integral"][0] == pytest.approx((1 + 0.5) / 10)


def test_medians_take_the_worse_of_two_middle_ones() -> None:
    section = section_of(
        record("p", "a", 5, lower_bound=5, runtime_s=1.0, seed=0),
        record("p", "a", 7, lower_bound=1, seed=1),
        record("p", "b", 5, lower_bound=5, runtime_s=1.0),
        record("p", "c"),
    )
    assert section.proof_times.iloc[0].tolist() == [INFINITY, 1, INFINITY]


def test_a_repeated_case_is_refused() -> None:
    once = record("p", "a", 5)
    with pytest.raises(InputError, match="p: a, seed 0, 10 s is there twice"):
        measure([once, once])


# ------------------------------------------------------------------ sections


def test_sections_by_setting_and_one_for_all_of_a_split() -> None:
    sections = split_sections(
        measure(
            [
                record("p", "a", 5),
                record("p", "a", 5, time_limit_s=0.5),
                record("q", "b", 5, suite="my suite"),
                record("r", "a", 5, split="tune"),
            ]
        )
    )
    assert [(section.title, section.solvers) for section in sections] == [
        ("paper, 10 s", ("a",)),
        ("paper, 0.5 s", ("a",)),
        ("my suite, 10 s", ("b",)),
        ("paper, 10 s, split tune", ("a",)),
        ("all suites", ("a", "b")),
    ]
    assert [len(section.frame) for section in sections] == [1, 1, 1, 1, 3]


# ------------------------------------------------------------------ best known values


def known(path: Path, entries: str) -> Path:
    path.write_text(f'{{"format": "metronome-best-known/1", "instances": {{{entries}}}}}')
    return path


def test_best_known_values_of_the_same_instances_count(tmp_path: Path) -> None:
    mine, other = record("p", "a", 5), record("q", "a", 5)
    path = known(
        tmp_path / "best_known.json",
        f"""
        "p": {{"sha256": "{mine.instance_sha256}", "value": "9/2", "lower_bound": "3", "seed": 1}},
        "q": {{"sha256": "0", "value": "1", "lower_bound": null}}""",
    )
    cases = measure([mine, other], read_best_known(path))
    assert cases["best_value"].tolist() == [Fraction(9, 2), 5]
    assert cases["best_bound"].tolist() == [3, None]


def test_a_wrong_file_of_best_known_values_is_one_line(tmp_path: Path) -> None:
    path = known(tmp_path / "best_known.json", '"p": {"value": "x"}')
    with pytest.raises(InputError, match=r"best_known\.json: instances\.p\.sha256: missing"):
        read_best_known(path)


# ------------------------------------------------------------------ distributions


def curve(points: tuple[Any, Any]) -> list[tuple[float, float]]:
    return list(zip(*points, strict=True))


def test_performance_profile_counts_failures_as_infinitely_slow() -> None:
    times = pd.DataFrame(
        {"a": [1.0, 4.0, INFINITY, INFINITY], "b": [2.0, 2.0, INFINITY, 9.0], "c": [INFINITY] * 4}
    )
    profile = performance_profile(times)
    assert curve(profile["a"]) == [(1.0, 1 / 4), (2.0, 2 / 4)]
    assert curve(profile["b"]) == [(1.0, 1 / 4), (1.0, 2 / 4), (2.0, 3 / 4)]
    assert curve(profile["c"]) == []


def test_failed_runs_count_in_the_denominator() -> None:
    times = [2.0, INFINITY, 1.0, 1.0]
    assert curve(distribution(times)) == [(1.0, 0.25), (1.0, 0.5), (2.0, 0.75)]
    assert curve(distribution([INFINITY])) == []
