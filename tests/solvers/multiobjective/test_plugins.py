"""Objectives of other packages, by entry points."""

from __future__ import annotations

import itertools
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given

from metronome_opt import solve
from metronome_opt.errors import InputError, PluginError
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.objectives import JobObjective
from metronome_opt.solvers.multiobjective.pareto import pareto
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import HARMLESS, job, network
from tests.solvers.multiobjective.enumeration import contested
from tests.tiers import examples

PACKAGE = """
from metronome_opt.objectives import JobObjective

class Toy(JobObjective):
    name, unit = "toy", "weight x slots"

    def cost(self, job, offset):
        return job.weight * abs(offset - 2)

class Odd(JobObjective):
    name, unit = "odd", "slots"

    def cost(self, job, offset):
        return offset - 3

class Text(JobObjective):
    name, unit = "text", "slots"

    def cost(self, job, offset):
        return "much"

class Exits(JobObjective):
    name, unit = "exits", "slots"

    def cost(self, job, offset):
        raise SystemExit(4)

class Size(JobObjective):
    name, unit = "size", "slots"

    def cost(self, job, offset):
        return 1

    def natural_size(self, instance):
        return float("nan")

number = 3
"""
POINTS = """[metronome_opt.objectives]
toy = toyshop:Toy
odd = toyshop:Odd
renamed = toyshop:Toy
number = toyshop:number
missing = toyshop:missing
text = toyshop:Text
exits = toyshop:Exits
size = toyshop:Size
"""


@pytest.fixture(autouse=True)
def toyshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package with objectives where installed packages are."""
    (tmp_path / "toyshop.py").write_text(PACKAGE)
    about = tmp_path / "toyshop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toyshop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("toyshop", None)


def toy(job: Job, offset: int) -> int:
    return job.weight * abs(offset - 2)


class Given(JobObjective):
    name, unit = "given", "weight x slots"

    def cost(self, job: Job, offset: int) -> int:
        return toy(job, offset)


def value(instance: Instance, offsets: dict[str, int]) -> Fraction:
    return Fraction(sum(toy(each, offsets[each.name]) for each in instance.jobs))


@given(contested(most_schedules=60))
@examples(20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plugin_objective_is_optimised_and_held(instance: Instance) -> None:
    ranges = [
        range(each.period) if each.fixed_offset is None else [each.fixed_offset]
        for each in instance.jobs
    ]
    every = [
        {each.name: offset for each, offset in zip(instance.jobs, offsets, strict=True)}
        for offsets in itertools.product(*ranges)
    ]
    schedules = [(value(instance, each), evaluate(instance, each).contention) for each in every]
    first = solve(instance, objective=["toy", "contention"], threads=1)
    assert [level.name for level in first.levels] == ["toy", "contention"]
    assert tuple(level.value for level in first.levels) == min(schedules)
    assert all(level.proved for level in first.levels)
    assert value(instance, dict(first.offsets)) == first.levels[0].value
    assert verify_schedule(instance, first.schedule) == ()
    assert "toy" not in first.schedule.objectives
    second = solve(instance, objective=["contention", "toy"], threads=1)
    assert tuple(level.value for level in second.levels) == min((b, a) for a, b in schedules)


def test_objective_is_a_name_or_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = network(job("a", 8, (0, 2, 60)), job("b", 8, (0, 2, 60), weight=3))
    ours, known = (
        solve(instance, objective=["contention", each], threads=1) for each in (Given(), "toy")
    )
    assert [level.value for level in ours.levels] == [level.value for level in known.levels]
    assert str(solve(instance, objective=Given(), threads=1).levels[0]) == "given 0 (proved)"
    monkeypatch.setattr(Given, "name", "wait")
    with pytest.raises(InputError, match="wait: is known already; take another name"):
        solve(instance, objective=Given())


def test_plugin_objective_in_sum_is_divided_by_1() -> None:
    # Where b stays beside a it costs 20 in 2 of 4 slots, as much as 3 slots of weight 3 and 1.
    instance = network(job("a", 4, (0, 2, 60), fixed_offset=2), job("b", 4, (0, 2, 60), weight=3))
    found = solve(instance, objective={"toy": 1, "contention": "1/1000"}, threads=1)
    assert found.offsets == {"a": 2, "b": 2}
    assert solve(instance, objective=["contention", "toy"], threads=1).offsets == {"a": 2, "b": 0}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "tow",
            "objectives: 'tow' is not known; choose from slowdown, .*moves, cushion, .*toy",
        ),
        ("renamed", "objectives: renamed is no JobObjective of this name; mend or remove"),
        ("number", r"objectives: number is no JobObjective of this name; .*toyshop:number"),
        (
            "missing",
            "objectives: 'missing': toyshop:missing cannot be loaded .*; mend or remove",
        ),
        ("text", "text: what job 'a' costs at offset 0 must be an integer from 0 on, got 'much'"),
        ("exits", r"exits: the cost of job 'a' failed \(SystemExit: 4\); mend or remove"),
        ("odd", "odd: what job 'a' costs at offset 0 must be an integer from 0 on, got -3; mend"),
    ],
)
def test_broken_plugin_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises((InputError, PluginError), match=message) as refusal:
        solve(HARMLESS, objective=[name, "contention"], threads=1)
    assert "\n" not in str(refusal.value)


def test_other_solvers_and_fronts_refuse_plugin_objective() -> None:
    with pytest.raises(InputError, match=r"solver greedy cannot; .* those that can: auto$"):
        solve(HARMLESS, "greedy", objective="toy")
    with pytest.raises(InputError, match=r"objectives: toy is another package's.*use solve"):
        pareto(HARMLESS, ["toy", "contention"])
