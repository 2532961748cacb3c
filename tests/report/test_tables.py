"""What the tables show where something is not known, stretched or nearly alike."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.instance import Instance
from metronome_opt.multiobjective import Front
from metronome_opt.report.tables import front_table, jobs_table, objectives_table, stated
from metronome_opt.result import Result, Stop
from metronome_opt.schedule import Schedule, Status
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.report.printed import lines


def schedule(instance: Instance, offsets: dict[str, int], stretch: dict[str, int]) -> Schedule:
    return Schedule(
        instance=instance.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.FEASIBLE,
        objectives=evaluate(instance, offsets, stretch).objectives,
        lower_bound=None,
        solver="auto",
        seed=0,
        runtime_s=0.0,
    )


def result(instance: Instance, offsets: dict[str, int], stretch: dict[str, int]) -> Result:
    return Result(
        instance=instance,
        schedule=schedule(instance, offsets, stretch),
        stop=Stop.FINISHED,
        evaluation=evaluate(instance, offsets, stretch),
        build_s=0.0,
        solve_s=0.0,
        trajectory=(),
    )


STRETCHY = network(job("a", 6, (0, 3, 60), max_stretch=3), job("b", 9, (0, 4, 60)))


def test_a_stretch_has_a_column_where_there_is_one() -> None:
    before = evaluate(STRETCHY, STRETCHY.unshifted)
    table = lines(jobs_table(result(STRETCHY, {"a": 4, "b": 0}, {"a": 3, "b": 0}), before))
    assert table[0] == ["period", "stretch", "offset", "unshifted", "scheduled"]
    assert table[3][:5] == ["a", "1", "30.0", "15.0", "20.0"]
    assert table[4][:5] == ["b", "1", "45.0", "0.0", "0.0"]
    table = lines(jobs_table(result(STRETCHY, {"a": 4, "b": 0}, {}), before))
    assert table[0] == ["period", "offset", "unshifted", "scheduled"]
    assert table[3][:4] == ["a", "1", "30.0", "20.0"]


def test_what_is_not_known_before_is_a_dash() -> None:
    found = result(STRETCHY, {"a": 4, "b": 0}, {"a": 3, "b": 0})
    assert lines(jobs_table(found, None))[3][-2:] == ["-", "15.0"]  # its stretch alone
    table = {line[0]: line[1:] for line in lines(objectives_table(None, found.evaluation)) if line}
    assert table["contention"][:2] == ["-", "0.0"]
    assert table["stretch"][:2] == ["-", "0.5"]
    assert lines(objectives_table(None, found.evaluation))[-1] == ["score", "min", "-", "1.000"]


def test_values_are_stated_as_people_read_them() -> None:
    assert stated("latency", Fraction(1, 8)) == "12.5%"
    assert stated("contention", Fraction(1, 8)) == "0.1"
    assert stated("contention", Fraction(12345)) == "12,345.0"
    assert stated("cushion", None) == "no limit"


def front(*latencies: Fraction) -> Front:
    instance = network(job("a", 4, (0, 1, 60)))
    some = schedule(instance, {"a": 0}, {})
    points = tuple(
        some.model_copy(
            update={
                "objectives": {"contention": Fraction(10 * n), "latency": late, "cushion": None}
            }
        )
        for n, late in enumerate(latencies)
    )
    names = ("contention", "latency", "cushion")
    return Front(instance, names, points, complete=True, stop=Stop.PROVED, runtime_s=0.0)


def test_different_values_look_different() -> None:
    table = lines(front_table(front(Fraction(80001, 10**6), Fraction(8, 100)), ["x", "y"]))
    assert table[3:] == [
        ["1", "0.0", "8.0001%", "no", "limit", "x"],
        ["2", "10.0", "8.0000%", "no", "limit", "y"],
    ]
    table = lines(front_table(front(Fraction(9, 100), Fraction(8, 100)), ["x", "y"]))
    assert [line[2] for line in table[3:]] == ["9.0%", "8.0%"]


def test_digits_end_somewhere() -> None:
    near = front(Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**20))
    assert [line[2] for line in lines(front_table(near, ["x", "y"]))[3:]] == ["33.333333%"] * 2


def test_a_front_without_points_is_an_empty_table() -> None:
    assert len(lines(front_table(front(), []))) == 3
