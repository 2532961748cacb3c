"""Jobs that offer several patterns, and which of them are chosen."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest

from metronome_opt import solve
from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.errors import InputError
from metronome_opt.gate import Gate
from metronome_opt.kubernetes import build_manifests
from metronome_opt.output.tables import gated_text, jobs_table
from metronome_opt.problem.instance import Instance, Pattern, Phase
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import minimum
from tests.builders import job, network
from tests.kubernetes.claims.example import two_jobs
from tests.kubernetes.claims.schemas import check_manifests
from tests.output.printed import lines

CHANCE = 2e-3


def pattern(period: int, *burst: int, **fields: Any) -> Pattern:
    start, length, rate = burst
    return Pattern(period=period, phases=(Phase(start=start, length=length, rate=rate),), **fields)


def accumulating(work: Fraction, names: str = "ab") -> Instance:
    """Return jobs that compute for 8 slots and send for 12; with two batches for 16 and 12."""
    options = (pattern(28, 16, 12, 100, work=work, accumulation=2),)
    return network(*(job(name, 20, (8, 12, 100), options=options) for name in names))


GAINS = accumulating(Fraction(5, 4))


def relative(result: Result) -> dict[str, Fraction]:
    """Return iteration time over that of the own pattern for the same work, from the schedule."""
    schedule, slowdowns = result.schedule, {}
    for each in result.instance.jobs:
        index = schedule.patterns.get(each.name)
        work = 1 if index is None else each.options[index].work
        assert schedule.expected_ms is not None
        alone = work * each.period * result.instance.slot_ms
        slowdowns[each.name] = schedule.expected_ms[each.name] / alone
    return slowdowns


def test_two_jobs_accumulate_where_that_gains() -> None:
    # Own bursts of 12 and 12 slots make iterations of at least 24 of 20 slots. Of 28 slots two take
    # 24 as well; for the work of 5/4 that is 28 / 25 alone, and with a slot of idle time 29 / 25.
    result = minimum(GAINS)
    assert result.schedule.patterns == {"a": 0, "b": 0}
    assert Fraction(28, 25) <= (result.objective or 0) <= Fraction(30, 25)
    assert sum(relative(result).values()) / 2 == result.objective
    assert result.schedule.gated == {"a": True, "b": True}
    assert abs(result.offsets["a"] - result.offsets["b"]) in range(12, 17)
    assert verify_schedule(GAINS, result.schedule) == ()
    without = minimum(network(*(job(name, 20, (8, 12, 100)) for name in "ab")))
    assert (without.objective or 0) >= Fraction(24, 20)
    assert result.simulated == without.simulated  # unshifted with own patterns
    assert list(result.to_frame()["pattern"]) == [0, 0]
    assert list(result.to_frame()["period"]) == [28, 28]


def test_patterns_are_not_chosen_that_cost_more() -> None:
    result = minimum(accumulating(Fraction(28, 27)))  # 27 / 20 alone
    assert result.schedule.patterns == {}
    assert "patterns" not in result.schedule.to_dict()
    without = minimum(network(*(job(name, 20, (8, 12, 100)) for name in "ab")))
    assert result.objective == without.objective


def test_job_alone_takes_the_fastest_pattern() -> None:
    result = minimum(accumulating(Fraction(2), "a"))
    assert result.objective == Fraction(28, 40)  # below 1: it gets on faster than with its own
    assert result.schedule.lower_bound == Fraction(28, 40)
    assert result.status == "optimal"
    assert verify_schedule(result.instance, result.schedule) == ()


def test_other_objectives_keep_own_patterns() -> None:
    result = solve(GAINS, "greedy", "contention")
    assert result.schedule.patterns == {}
    assert verify_schedule(GAINS, result.schedule) == ()


def test_later_search_begins_with_patterns_of_the_start() -> None:
    start = minimum(GAINS).schedule
    again = minimum(GAINS, start=start)
    assert again.schedule.patterns == start.patterns
    assert again.objective == start.objectives["slowdown"]
    with pytest.raises(InputError, match="start: jobs have other patterns than their own"):
        solve(GAINS, "greedy", "contention", start=start)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 2, 4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))]
)
def test_choice_is_the_best_of_all(seed: int) -> None:
    draw = Random(seed)
    jobs = []
    for name in "abc"[: 2 + seed % 2]:
        period = draw.choice((12, 16, 20))
        options = tuple(
            pattern(each, 0, draw.randint(3, 8), 100, work=Fraction(each + draw.randint(-3, 3), 16))
            for each in (24, 32)
        )
        jobs.append(job(name, period, (0, draw.randint(3, 8), 100), options=options))
    instance = network(*jobs)
    result = minimum(instance)
    assert verify_schedule(instance, result.schedule) == ()
    assert result.simulated is not None
    limits = {name: 1.01 * ms for name, ms in result.simulated.unshifted_ms.items()}
    values: list[Fraction] = []
    for choice in product((-1, 0, 1), repeat=len(jobs)):
        plain, works = [], {}
        for each, index in zip(jobs, choice, strict=True):
            chosen: Any = each.options[index] if index >= 0 else each
            changes = {"options": (), "period": chosen.period, "phases": chosen.phases}
            plain.append(each.model_copy(update=changes))
            works[each.name] = chosen.work if index >= 0 else Fraction(1)
        stated = minimum(network(*plain)).schedule.expected_ms or {}
        times = {name: time / works[name] for name, time in stated.items()}
        if all(float(time) <= limits[name] for name, time in times.items()):
            shares = [times[each.name] / (each.period * 5) for each in jobs]
            values.append(sum(shares, Fraction(0)) / len(jobs))
    assert result.objective is not None
    assert result.objective <= values[0]  # of own patterns
    assert result.objective - min(values) <= Fraction(CHANCE)


def test_files_round_trip() -> None:
    result = minimum(GAINS)
    assert Instance.from_dict(GAINS.to_dict()) == GAINS
    assert GAINS.to_dict()["jobs"][0]["options"][0]["work"] == "5/4"
    assert Schedule.from_dict(result.schedule.to_dict()) == result.schedule


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"patterns": {}}, "offsets"),
        ({"patterns": {"a": 0}}, "gated"),
        ({"patterns": {"a": 0, "b": 1}}, "patterns"),
        ({"patterns": {"a": 0, "c": 0}}, "patterns"),
        ({"objectives": {"slowdown": "113/100"}}, "objectives.slowdown"),
        ({"expected_ms": {"a": "139", "b": "145"}}, "expected_ms.a"),
        ({"lower_bound": "28/25"}, "lower_bound"),
    ],
)
def test_false_statements_about_patterns(changes: dict[str, Any], place: str) -> None:
    # The first gap is from 0 to 20 of 28 slots, so that offsets have no place in a period of 20.
    stated = {**minimum(GAINS).schedule.to_dict(), "offsets": {"a": 0, "b": 20}}
    stated = {**stated, "gated": {"a": False, "b": False}, "stretch": {}, "stretch_limit": None}
    if "gated" in place:
        stated |= {"offsets": {"a": 0, "b": 0}, "gated": {"a": True, "b": True}}
    faults = verify_schedule(GAINS, Schedule.from_dict({**stated, **changes}))
    assert any(fault.place.startswith(place) for fault in faults), faults


def test_table_shows_patterns() -> None:
    result = minimum(GAINS)
    times = IterationTimes.of(result)
    assert result.schedule.expected_ms is not None
    # For the work of an own iteration, of which one of the pattern does 5/4.
    assert times.after["a"] == result.schedule.expected_ms["a"] * Fraction(4, 5)
    text = [" ".join(line) for line in lines(jobs_table(GAINS, result.schedule, times))]
    assert sum("options[0], accumulation 2" in line for line in text) == 2
    assert f"slowdown {float(result.objective or 0):.4f}" in gated_text(
        GAINS, result.schedule, times
    )


def test_claims_say_what_to_accumulate(tmp_path: Any) -> None:
    instance, schedule, deployment = two_jobs()
    vgg, resnet = instance.jobs
    options = (pattern(80, 50, 12, 40_000, work=Fraction(2), accumulation=2),)
    offering = instance.replace(jobs=(vgg.model_copy(update={"options": options}), resnet))
    plain = build_manifests(instance, schedule, deployment)["claims.yaml"]
    assert build_manifests(offering, schedule, deployment)["claims.yaml"] == plain
    chosen = schedule.model_copy(update={"patterns": {"VGG19_0": 0}})
    manifests = build_manifests(offering, chosen, deployment)
    check_manifests(manifests)
    claim = manifests["claims.yaml"][-1]
    assert claim["spec"]["job"] == "VGG19_0"
    assert claim["spec"]["traffic"]["periodMicroseconds"] == 400_000
    assert claim["spec"]["traffic"]["phases"][0]["startMicroseconds"] == 250_000
    assert claim["spec"]["allocation"]["accumulation"] == 2
    assert all("accumulation" not in c["spec"]["allocation"] for c in manifests["claims.yaml"][:-2])
    file = tmp_path / "claim.json"
    file.write_text(json.dumps(claim))
    gate = Gate(file=file)
    assert gate.accumulation == 2
    file.unlink()
    with gate.burst():
        pass
    assert gate.claim is None
    assert gate.accumulation == 2
