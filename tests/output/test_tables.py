"""Tables mark unknown values, stretched periods and values that nearly equal each other."""

from __future__ import annotations

from fractions import Fraction
from io import StringIO

from rich.console import Console

from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.output.descriptions import front_table
from metronome_opt.output.tables import gain_text, jobs_table, objectives_table, plain_table
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Schedule
from metronome_opt.solvers.multiobjective.front import Front
from metronome_opt.verify import evaluate
from tests import builders
from tests.builders import job, network
from tests.output.printed import lines


def schedule(instance: Instance, offsets: dict[str, int], stretch: dict[str, int]) -> Schedule:
    objectives = evaluate(instance, offsets, stretch).objectives
    return builders.schedule(instance.name, offsets, stretch=stretch, objectives=objectives)


STRETCHY = network(job("a", 6, (0, 3, 60), max_stretch=3), job("b", 9, (0, 4, 60)))


TIMES = IterationTimes(
    {"a": Fraction(30), "b": Fraction(50)}, {"a": Fraction(45), "b": Fraction(46)}
)

# (1.5 + 46 / 45) / 2 with windows, (1 + 50 / 45) / 2 without
SLOWED = (
    "mean slowdown 1.2611, before 1.0556: windows +19.5%; 2 of 2 jobs have windows\n"
    "these windows make iterations longer; allocate minimises the slowdown"
)


def test_gated_jobs_have_stretched_periods() -> None:
    kept = schedule(STRETCHY, {"a": 4, "b": 0}, {"a": 3})
    table = lines(jobs_table(STRETCHY, kept, TIMES))
    assert table[2] == ["a", "1", "30.0", "30.0", "45.0", "from", "20", "every", "45"]
    assert table[3] == ["b", "1", "45.0", "50.0", "46.0", "from", "0", "every", "45"]
    assert gain_text(STRETCHY, kept, TIMES) == SLOWED
    some = kept.model_copy(update={"gated": {"a": True, "b": False}})
    table = lines(jobs_table(STRETCHY, some, TIMES))
    assert [line[5:] for line in table[2:]] == [["from", "20", "every", "45"], ["-"]]
    assert gain_text(STRETCHY, some, TIMES) == SLOWED.replace("2 of 2", "1 of 2")


def test_slots_that_slow_jobs_down_are_noted() -> None:
    kept = schedule(STRETCHY, {"a": 4, "b": 0}, {"a": 3})
    assert gain_text(STRETCHY, kept, TIMES) == SLOWED
    # Before, on other nodes: (2 + 50 / 45) / 2.
    near = TIMES._replace(nearest={"a": Fraction(60), "b": Fraction(50)})
    said = gain_text(STRETCHY, kept, near)
    assert said.startswith("mean slowdown 1.2611, before 1.5556: nodes -32.1%, windows +19.5%; ")
    assert (
        len(gain_text(STRETCHY, kept, IterationTimes(TIMES.after, TIMES.before)).splitlines()) == 1
    )
    nobody = kept.model_copy(update={"gated": {"a": False, "b": False}})
    assert len(gain_text(STRETCHY, nobody, TIMES).splitlines()) == 1


def test_job_that_overloads_its_link_is_slower_than_alone() -> None:
    # 3 slots of 60 on a link of 100 with two flows: at 50 that takes 3.6 slots of 5 ms.
    crowded = network(job("a", 6, (0, 3, 60), links={"link": 2}))
    times = IterationTimes({"a": Fraction(33)}, {"a": Fraction(33)})
    table = lines(jobs_table(crowded, schedule(crowded, {"a": 0}, {}), times))
    assert table[2] == ["a", "1", "30.0", "33.0", "33.0", "from", "0", "every", "30"]


def test_unknown_value_is_dash() -> None:
    after = evaluate(STRETCHY, {"a": 4, "b": 0}, {"a": 3, "b": 0})
    table = {line[0]: line[1:] for line in lines(objectives_table(None, after)) if line}
    assert table["contention"][:2] == ["-", "0.0"]
    assert table["stretch"][:2] == ["-", "0.5"]
    # Nothing moves, nothing overlaps: no rows of zeros.
    assert not {"moves", "latency", "compatibility,"} & table.keys()


def front(*latencies: Fraction) -> Front:
    some = schedule(STRETCHY, {"a": 4, "b": 0}, {"a": 3})
    points = tuple(
        some.model_copy(update={"objectives": {"latency": late, "cushion": None}})
        for late in latencies
    )
    names = ("latency", "cushion")
    return Front(STRETCHY, names, points, complete=True, stop=StopReason.PROVED, runtime_s=0.0)


def test_digits_distinguish_values() -> None:
    table = lines(front_table(front(Fraction(80001, 10**6), Fraction(8, 100)), ["x", "y"]))
    assert table[3:] == [
        ["1", "8.00010%", "no", "limit", "x"],
        ["2", "8.00000%", "no", "limit", "y"],
    ]
    table = lines(front_table(front(Fraction(9, 100), Fraction(8, 100)), ["x", "y"]))
    assert [line[1] for line in table[3:]] == ["9.0%", "8.0%"]


def test_narrow_terminal_cuts_words_not_numbers() -> None:
    rows = [("job", "1,234,567.8", "a word and another one", "-12.5%")]
    console = Console(width=40, file=StringIO(), record=True)
    console.print(plain_table(("name", "number", "words", "change"), rows, left=("words",)))
    line = console.export_text().splitlines()[-1]
    assert len(line.rstrip()) <= 40
    for text in ("job", "1,234,567.8", "-12.5%", "…"):
        assert text in line
