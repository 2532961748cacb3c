"""What single runs are worth, who is compared with whom, and what must hold of all."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.bench.cases import median_time, median_value
from metronome_opt.bench.checks import check_all
from metronome_opt.bench.facts import facts_of
from metronome_opt.bench.growth import growth
from metronome_opt.bench.pairwise import Tally, never_worse, tally
from metronome_opt.bench.records import Record
from metronome_opt.bench.references import gather, read_best_known
from metronome_opt.bench.results import speed_up
from metronome_opt.bench.sections import sections_of
from metronome_opt.bench.targets import hardest, target_runs, too_few_seeds
from metronome_opt.errors import InputError
from tests.bench.report_examples import cases_of, moments, record, section_of

HUGE = 10**20

# ------------------------------------------------------------------ one run


def test_solved_is_proved_within_the_limit() -> None:
    proved, late, unproved, nothing = cases_of(
        record("p", "proved", 5, lower_bound=5, runtime_s=2.0),
        record("p", "late", 5, lower_bound=5, runtime_s=10.5),
        record("p", "unproved", 6, lower_bound=4),
        record("p", "nothing", runtime_s=None),
    )
    assert [case.solved_s for case in (proved, late, unproved, nothing)] == [2, None, None, None]
    assert [case.penalised_s for case in (proved, late, unproved, nothing)] == [2, 20, 20, 20]
    assert [case.optimal for case in (proved, late, unproved, nothing)] == [
        True,
        True,
        False,
        False,
    ]


def test_what_the_judge_refused_is_no_value_and_no_bound() -> None:
    refused, honest = cases_of(
        record("p", "refused", 3, lower_bound=3, kind="invalid", faults=("contention",)),
        record("p", "honest", 4, lower_bound=2),
    )
    assert (refused.value, refused.bound, refused.solved_s) == (None, None, None)
    assert (refused.primal_gap, refused.primal_integral) == (1, 1)
    assert honest.best == 4


def test_incumbents_better_than_what_was_delivered_are_not_believed() -> None:
    (case,) = cases_of(
        record("p", "a", 8, trajectory=moments((1, 16), (2, 8), (3, 4))),
    )
    assert case.steps == ((1.0, Fraction(16)), (2.0, Fraction(8)))
    assert case.primal_integral == pytest.approx((1 + 0.5) / 10)


def test_a_schedule_without_trajectory_counts_from_the_end_of_the_run() -> None:
    ended, killed = cases_of(
        record("p", "ended", 8, runtime_s=4.0), record("p", "killed", 8, runtime_s=None, wall_s=9.0)
    )
    assert ended.primal_integral == pytest.approx(0.4)
    assert killed.primal_integral == pytest.approx(0.9)


def test_medians_take_the_worse_of_two_middle_ones() -> None:
    runs = cases_of(
        record("p", "a", 5, lower_bound=5, runtime_s=1.0, seed=0),
        record("p", "a", 7, lower_bound=1, seed=1),
    )
    assert median_time(runs) == math.inf
    assert median_value(runs) == 7
    assert median_time(runs[:1]) == 1
    assert median_value(cases_of(record("p", "a"))) is None


# ------------------------------------------------------------------ sections


def test_instances_count_the_same_however_many_seeds() -> None:
    section = section_of(
        *(record("p", "a", 5, lower_bound=5, runtime_s=float(s), seed=s) for s in (1, 2, 3)),
        record("q", "a", 5, lower_bound=5, runtime_s=6.0),
    )
    assert section.mean("a", lambda case: case.penalised_s) == (2 + 6) / 2
    geometric = ((2 * 3 * 4) ** (1 / 3) * 7) ** (1 / 2) - 1
    assert section.geometric_time("a", 1.0) == pytest.approx(geometric)


def test_speed_up_is_over_common_instances() -> None:
    section = section_of(
        record("p", "slow", 5, lower_bound=5, runtime_s=7.0),
        record("p", "fast", 5, lower_bound=5, runtime_s=1.0),
        record("q", "fast", 5),
        record("r", "other", 5),
    )
    assert speed_up(section, "fast", "slow") == pytest.approx(7)
    assert speed_up(section, "slow", "slow") == pytest.approx(1)
    assert speed_up(section, "other", "slow") is None
    assert not section.complete("slow")


def test_sections_by_setting_and_one_for_all_of_a_split() -> None:
    sections = sections_of(
        cases_of(
            record("p", "a", 5),
            record("p", "a", 5, time_limit_s=0.5),
            record("q", "b", 5, suite="my suite"),
            record("r", "a", 5, split="tune"),
        )
    )
    assert [(section.title, section.slug, section.solvers) for section in sections] == [
        ("paper, 10 s", "paper-10s", ("a",)),
        ("paper, 0.5 s", "paper-0-5s", ("a",)),
        ("my suite, 10 s", "my-suite-10s", ("b",)),
        ("paper, 10 s, split tune", "paper-10s-split-tune", ("a",)),
        ("all suites", "all-suites", ("a", "b")),
    ]
    assert [len(section.problems) for section in sections] == [1, 1, 1, 1, 3]
    assert list(sections[-1].classes()) == [
        "paper, 0.5 s",
        "paper, 10 s",
        "my suite, 10 s",
    ]


def test_names_of_files_are_never_shared() -> None:
    sections = sections_of(cases_of(record("p", "a", suite="x y"), record("q", "a", suite="x-y")))
    assert [section.slug for section in sections] == ["x-y-10s", "x-y-10s-2", "all-suites"]


def test_classes_are_what_comes_before_the_last_hyphen_in_natural_order() -> None:
    names = ("dense-100-a", "dense-12-b", "dense-12-a", "dense-8-a", "alone")
    (section,) = sections_of(cases_of(*(record(name, "a", 5) for name in names)))
    assert [problem.instance for problem in section.problems] == [
        "alone",
        "dense-8-a",
        "dense-12-a",
        "dense-12-b",
        "dense-100-a",
    ]
    assert {name: len(part.problems) for name, part in section.classes().items()} == {
        "": 1,
        "dense-8": 1,
        "dense-12": 2,
        "dense-100": 1,
    }


def test_a_case_that_is_there_twice_is_refused() -> None:
    once = record("p", "a", 5)
    with pytest.raises(InputError, match="p: a, seed 0, 10 s is there twice"):
        cases_of(once, once)


# ------------------------------------------------------------------ pairs


def test_values_are_compared_exactly() -> None:
    section = section_of(
        record("p", "a", f"{HUGE}/3"),
        record("p", "b", f"{HUGE + 1}/3"),
        record("q", "a", "1/3"),
        record("q", "b", "2/6"),
        record("r", "a", 5),
        record("r", "b"),
        record("s", "a"),
        record("s", "b"),
        record("t", "a", 5),
    )
    assert tally(section, "a", "b") == Tally(better=2, equal=1, worse=0)
    assert tally(section, "b", "a") == Tally(better=0, equal=1, worse=2)


def test_solvers_without_a_common_instance_are_not_compared() -> None:
    section = section_of(record("p", "a", 5), record("q", "b", 5))
    assert tally(section, "a", "b") is None


def test_never_worse_names_each_run_that_is() -> None:
    section = section_of(
        record("p", "auto", 5, seed=0),
        record("p", "auto", 7, seed=1),
        record("p", "local", 6, seed=0),
        record("p", "local", 6, seed=1),
        record("p", "greedy", 6),
        record("q", "auto"),
        record("q", "greedy", 9),
        record("q", "greedy", 1, time_limit_s=60.0),
    )
    found = never_worse(section, "auto", ("greedy", "cassini", "local"))
    assert found.compared == {"greedy": 3, "cassini": 0, "local": 2}
    assert [
        (case.record.instance, case.record.seed, other.record.solver, other.record.seed)
        for case, other in found.violations
    ] == [("p", 1, "greedy", 0), ("q", 0, "greedy", 0), ("p", 1, "local", 1)]


# ------------------------------------------------------------------ checks


def violations(*records: Record) -> dict[str, tuple[str, ...]]:
    references = gather(records)
    checks = check_all(cases_of(*records), references)
    return {check.claim: check.violations for check in checks if check.violations}


def test_a_sound_campaign_violates_nothing() -> None:
    assert violations(record("p", "a", 5, lower_bound=5), record("p", "b"), record("q", "a")) == {}


def test_bounds_are_checked_within_and_across_runs() -> None:
    found = violations(
        record("p", "wrong", 5, lower_bound=6, status="feasible"),
        record("p", "high", 9, lower_bound="16/3"),
        record("p", "right", 5, lower_bound="14/3"),
    )
    assert list(found.values()) == [
        ("p, wrong, seed 0, 10 s: bound 6, value 5",),
        (
            "p, wrong, seed 0, 10 s: bound 6, best value 5",
            "p, high, seed 0, 10 s: bound 5.333333333, best value 5",
        ),
    ]


def test_numbers_that_look_the_same_are_shown_as_fractions() -> None:
    found = violations(record("p", "a", f"{HUGE}/3", lower_bound=f"{HUGE + 1}/3"))
    assert f"p, a, seed 0, 10 s: bound {HUGE + 1}/3, value {HUGE}/3" in next(iter(found.values()))


def test_refusals_false_and_late_proofs_are_listed() -> None:
    found = violations(
        record("p", "a", 5, lower_bound=5, kind="invalid", faults=("objectives.contention",)),
        record("p", "b", 5, lower_bound=4, status="optimal", runtime_s=1.0),
        record("p", "c", 5, lower_bound=5, runtime_s=10.25),
    )
    assert [lines[0] for lines in found.values()] == [
        "p, a, seed 0, 10 s: objectives.contention",
        "p, b, seed 0, 10 s: value 5, bound 4",
        "p, c, seed 0, 10 s: proved after 10.250 s",
    ]


# ------------------------------------------------------------------ best known values


def test_best_known_values_count_where_the_checksum_is_the_same(tmp_path: Path) -> None:
    mine, other = record("p", "a", 5, lower_bound=2), record("q", "a", 5)
    path = tmp_path / "best_known.json"
    path.write_text(
        f"""{{"format": "metronome-best-known/1", "instances": {{
        "p": {{"sha256": "{mine.instance_sha256}", "value": "9/2", "lower_bound": "3", "seed": 1}},
        "q": {{"sha256": "0", "value": "1", "lower_bound": null}}}}}}"""
    )
    references = gather([mine, other], read_best_known(path))
    assert references.values == {mine.instance_sha256: Fraction(9, 2), other.instance_sha256: 5}
    assert references.bounds == {mine.instance_sha256: 3}
    assert references.outdated == ("q",)
    assert check_all(cases_of(mine), references)[3].violations == ()


def test_a_value_below_a_known_bound_is_listed(tmp_path: Path) -> None:
    mine = record("p", "a", 5)
    path = tmp_path / "best_known.json"
    path.write_text(
        f"""{{"format": "metronome-best-known/1", "instances": {{
        "p": {{"sha256": "{mine.instance_sha256}", "value": "6", "lower_bound": "6"}}}}}}"""
    )
    checks = check_all(cases_of(mine), gather([mine], read_best_known(path)))
    assert checks[3].violations == ("p, a, seed 0, 10 s: known bound 6, value 5",)


def test_a_wrong_file_of_best_known_values_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "best_known.json"
    path.write_text('{"format": "metronome-best-known/1", "instances": {"p": {"value": "x"}}}')
    with pytest.raises(InputError, match=r"best_known\.json: instances\.p\.sha256: missing"):
        read_best_known(path)


# ------------------------------------------------------------------ seeds and sizes


def test_time_to_target_needs_ten_seeds() -> None:
    runs = [
        record("p", "ten", 100, seed=s, trajectory=moments((s + 0.5, 101), (9.75, 100)))
        for s in range(10)
    ]
    few = [record("p", "nine", 100, seed=s) for s in range(9)]
    section = section_of(*runs, *few, record("p", "once", 100))
    (found,) = target_runs(section)
    assert (found.solver, found.target) == ("ten", Fraction(101))
    assert found.times == tuple(s + 0.5 for s in range(10))
    assert (found.median, found.quantile(Fraction(9, 10))) == (4.5, 8.5)
    assert too_few_seeds(section) == {"nine": 9}


def test_a_target_of_0_is_reached_by_0_only() -> None:
    runs = [record("p", "a", 0 if s else 1, seed=s, runtime_s=1.0) for s in range(10)]
    (found,) = target_runs(section_of(*runs))
    assert found.times.count(math.inf) == 1


def test_without_a_schedule_there_is_no_target() -> None:
    assert target_runs(section_of(*(record("p", "a", seed=s) for s in range(10)))) == ()


def test_the_hardest_instances_keep_their_order() -> None:
    runs = target_runs(
        section_of(
            *(
                record(name, "a", 100, seed=s, runtime_s=time)
                for name, time in (("p-1", 1.0), ("p-2", 5.0), ("p-10", 3.0))
                for s in range(10)
            )
        )
    )
    assert [problem.instance for problem in hardest(runs, 2)] == ["p-2", "p-10"]


def test_growth_keeps_unsolved_instances_apart() -> None:
    def run(name: str, jobs: int, runtime: float, bound: int) -> Record:
        offsets = {str(job): 0 for job in range(jobs)}
        return record(name, "a", 5, lower_bound=bound, runtime_s=runtime, offsets=offsets)

    records = [run("p", 10, 1.0, 5), run("q", 20, 2.0, 5), run("r", 40, 4.0, 5), run("s", 80, 9, 1)]
    (found,) = growth(section_of(*records), gather(records).jobs)
    assert found.solved == ((10, 1.0), (20, 2.0), (40, 4.0))
    assert found.unsolved == ((80, 10.0),)
    assert found.fit is not None
    assert found.fit.exponent == pytest.approx(1)


# ------------------------------------------------------------------ circumstances


def test_facts() -> None:
    records = [
        record("p", "a", 5, lower_bound=5, wall_s=30.0, commit="x+"),
        record("p", "b", 6, wall_s=30.0, started="2026-11-20T21:00:20Z", seed=3, commit=None),
        record("q", "a", 0, wall_s=5.0, started="2026-11-20T21:00:31Z"),
        record("r", "a", wall_s=30.0, started="2026-11-21T00:00:00Z", memory_limit_mb=None),
    ]
    facts = facts_of(records, gather(records))
    assert (facts.records, facts.instances, facts.open_instances, facts.zero_instances) == (
        4,
        3,
        1,
        1,
    )
    assert facts.seeds == {"a": (0,), "b": (3,)}
    assert facts.memory_limits == (4096, None)
    assert facts.commits == ("x+", "unknown", "abc1234")
    assert (facts.machines, facts.cores) == (("a chip, 2 cores, 8,000 MB, Linux",), (2,))
    assert (facts.first, facts.last) == ("2026-11-20T21:00:00Z", "2026-11-21T00:00:00Z")
    assert facts.at_once == 2


def test_cases_one_after_the_other_do_not_overlap() -> None:
    # The start is known to the second only.
    records = [
        record("p", "a", wall_s=10.9),
        record("q", "a", wall_s=10.9, started="2026-11-20T21:00:10Z"),
    ]
    assert facts_of(records, gather(records)).at_once == 1


def test_a_start_that_is_no_time_is_refused() -> None:
    records = [record("p", "a", started="yesterday")]
    with pytest.raises(InputError, match="p: started: must be a time such as"):
        facts_of(records, gather(records))
