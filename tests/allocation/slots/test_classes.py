"""Traffic classes that are chosen with windows shorten iterations within the limit of loss."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from metronome_opt.allocation.slots.classes import (
    class_orders,
    follows_weights,
    in_order,
    urgency,
)
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.cli.app import app
from metronome_opt.problem.instance import Instance, Job, read_instance, write_instance
from metronome_opt.problem.schedule import Schedule, read_schedule, write_schedule
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.scenario_file import Scenario
from tests.allocation.slots.cases import (
    assert_sound,
    expected_of,
    minimum,
    unshifted_of,
    value_of,
)
from tests.builders import job, network
from tests.scenario.examples import scenario

# In each 100 slots b bursts for 50, a for 3 of its 40. No two slots of theirs fit, since periods
# have 20 in common. Beside b a takes 6 instead of 3, and b is 3 late whoever goes first.
SHORT = network(
    job("a", 40, (0, 3, 100), weight=4, jitter=0.01), job("b", 100, (0, 50, 100), jitter=0.01)
)
LIGHT = network(
    job("a", 40, (0, 24, 100), weight=4),
    *(job(name, period, (0, 20, 100)) for name, period in (("b", 730), ("c", 790))),
)


def served(instance: Instance, classes: int) -> Instance:
    return instance.replace(traffic_classes=classes)


def test_a_class_helps_the_heavy_job_where_slots_do_not() -> None:
    without, result = (minimum(served(SHORT, count), network="fair") for count in (1, 2))
    assert_sound(result, within_loss=True)
    assert result.schedule.classes == {"a": 1, "b": 0}
    assert float(expected_of(result)["a"]) == pytest.approx(40 * 5, rel=1e-3)
    assert float(expected_of(without)["a"]) > 40 * 5 * 1.03
    assert without.schedule.classes is None
    assert list(result.to_frame()["class"]) == [1, 0]


@pytest.mark.slow
def test_lighter_jobs_lose_no_more_than_max_loss() -> None:
    assert set((minimum(served(LIGHT, 4)).schedule.classes or {}).values()) == {0}
    result = minimum(served(LIGHT, 4), max_loss="1/20")
    assert result.schedule.classes == {"a": 1, "b": 0, "c": 0}
    for name in "bc":
        lost = float(expected_of(result)[name]) / unshifted_of(result)[name]
        assert 1.01 < lost < 1.06


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_classes_are_never_worse(seed: int) -> None:
    draw = Random(seed)
    jobs = []
    for name in "abcd":
        period = draw.randint(20, 60)
        length = draw.randint(2, period // 3)
        jobs.append(job(name, period, (0, length, 100), weight=draw.randint(1, 4)))
    values = []
    for count in (1, 2, 3, 8):
        result = minimum(served(network(*jobs), count), network="fair")
        assert_sound(result)
        assert max((result.schedule.classes or {"": 0}).values()) < count
        values.append(value_of(result))
    assert values == sorted(values, reverse=True)


def test_classes_by_weight_leave_none_out() -> None:
    def by_weight(job: Job) -> Fraction:
        return Fraction(job.weight)

    weights = {"a": 5, "b": 9, "c": 2, "d": 5}
    crowd = network(*(job(name, 20, (0, 2, 9), weight=each) for name, each in weights.items()))
    chosen = [dict(in_order(crowd.jobs, count, by_weight)) for count in (2, 3, 8)]
    three = {"a": 1, "b": 2, "c": 0, "d": 1}
    assert chosen == [{"a": 0, "b": 1, "c": 0, "d": 0}, three, three]
    alike = network(*(job(name, 20, (0, 2, 9)) for name in "ab"))
    assert in_order(alike.jobs, 8, by_weight) == {"a": 0, "b": 0}


def test_all_orders_of_few_jobs_those_by_weight_first() -> None:
    """Three jobs have 13 weak orders, all but one of more than one class, six of them of two."""
    trio = network(
        *(job(name, 20, (0, 2, 9), weight=w) for name, w in (("a", 2), ("b", 1), ("c", 1)))
    )
    assert [len(list(class_orders(trio, count))) for count in (1, 2, 3, 8)] == [0, 6, 12, 12]
    orders = [follows_weights(trio.jobs, classes) for classes in class_orders(trio, 3)]
    assert orders == sorted(orders, reverse=True)
    assert sum(orders) == 5  # with both of "b" and "c" below "a" three, with one beside it two


def test_short_bursts_are_urgent() -> None:
    """By Smith's rule weights are divided by the longest bursts: 2, 3 and 4 / 3."""
    trio = network(
        job("a", 40, (0, 1, 9), (9, 2, 9), weight=4),
        job("b", 40, (0, 3, 9), weight=9),
        job("c", 40, (0, 3, 9), weight=4),
    )
    assert in_order(trio.jobs, 3, urgency) == {"a": 1, "b": 2, "c": 0}


def test_gated_jobs_go_first_within_their_class() -> None:
    """Alone in the higher class a is never late, whoever is gated."""
    simulator = PlanSimulator(SHORT, (0,), network="gated")
    gated = Plan(SHORT.unshifted, {"b": 100})
    late, alone = (simulator.slowdowns(each)[0] for each in (gated, gated.in_classes({"a": 1})))
    assert late > 1.1
    assert alone == pytest.approx(1.0, abs=1e-3)


def test_scenarios_say_how_many_classes_there_are() -> None:
    document = scenario()
    document["cluster"]["traffic_classes"] = 3
    problem = build_problem(Scenario.from_dict(document))
    assert problem.instance.traffic_classes == 3
    assert "traffic_classes" not in build_problem(Scenario.from_dict(scenario())).instance.to_dict()


def test_files_keep_classes(tmp_path: Path) -> None:
    instance, path, out = served(SHORT, 2), tmp_path / "instance.json", tmp_path / "schedule.json"
    write_instance(instance, path)
    assert read_instance(path) == instance
    command = ["allocate", str(path), "--network", "fair", "--output", str(out)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert "class" in told.stdout
    schedule: Schedule = read_schedule(out)
    assert schedule.classes == {"a": 1, "b": 0}
    again = tmp_path / "again.json"
    write_schedule(schedule, again)
    assert again.read_text() == out.read_text()
    assert CliRunner().invoke(app, ["verify", str(path), str(out)]).exit_code == 0
