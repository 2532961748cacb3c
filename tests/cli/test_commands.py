"""Commands print, write and end as documented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from metronome_opt.cli.app import COMMANDS
from metronome_opt.problem.instance import write_instance
from metronome_opt.problem.schedule import read_schedule
from tests.builders import job, network
from tests.cli.typed import Captured, metronome, printed, row

pytestmark = pytest.mark.usefixtures("two")
GREEDY = "--solver greedy"
STRETCHED = "--objectives contention,stretch"

# ------------------------------------------------------------------ solve


def test_allocation_is_verified_and_its_bound_explained(capsys: Captured) -> None:
    lines = printed(capsys, "allocate two.json --output s.json")
    assert row(lines, "a")[-2:] == ["every", "200"]  # ms
    assert lines[-2].endswith("2 of 2 jobs have windows")
    assert lines[-1].startswith("auto: feasible, slowdown 1.0")
    assert lines[-1].endswith(" (finished): auto has nothing left to try")
    schedule = read_schedule("s.json")
    assert schedule.lower_bound == 1
    assert 1 <= schedule.objectives["slowdown"] < 1.02  # type: ignore[operator]
    assert schedule.objectives["contention"] == 0
    assert schedule.gated == {"a": True, "b": True}
    # b repeats every 20 slots: 12 free slots, a needs 8. The other 4 go after both bursts.
    assert schedule.objectives["cushion"] in (1, 2)
    text = " ".join(printed(capsys, "verify two.json s.json"))
    assert "verified" in text
    assert "lower bound 1: proved by prices of links and of pairs of jobs" in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Unshifted both burst in 8 of 40 slots, 30,000 of weight 1 unserved: 6,000 on average.
        ("contention", "6,000.0"),
        # The lighter one waits 8 slots, until the burst of the other is over.
        ("contention,wait", "1. contention 0 (proved)\n2. wait 8 (proved)"),
        ("contention=1/2,latency=1/2", "1. weighted sum 0 (proved)"),
        ("contention --cushion-slots 2", "all values are those of longer bursts, by 2 slots"),
    ],
)
def test_solve_prints_objectives(options: str, expected: str, capsys: Captured) -> None:
    lines = printed(capsys, f"solve two.json --output s.json --objectives {options}")
    assert expected in "\n".join(lines)
    assert ("1. " in "\n".join(lines)) == (options != "contention" and "cushion" not in options)
    assert metronome("verify two.json s.json") == 0


def test_solve_writes_a_figure_and_claims_of_a_shipped_scenario(capsys: Captured) -> None:
    line = f"solve paper-24 {GREEDY} --plot out.svg --claims claims --output s.json"
    assert metronome(line) == 0
    written = capsys.readouterr().err.splitlines()
    assert written == ["wrote s.json", "wrote out.svg", "wrote claims"]
    assert Path("out.svg").stat().st_size > 1000
    assert Path("claims/claims.yaml").exists()


def test_unshifted_values_are_unknown_where_jobs_must_be_stretched(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METRONOME_HYPERPERIOD_LIMIT", "10")
    jobs = (job("a", 7, (0, 2, 60), max_stretch=1), job("b", 8, (0, 2, 60), weight=2))
    write_instance(network(*jobs), "i.json")
    lines = printed(capsys, f"solve i.json {STRETCHED} --plot p.svg")
    assert row(lines, "contention")[1:3] == ["-", "0.0"]
    assert (row(lines, "a")[2], row(lines, "a")[-1]) == ("35.0", "40")  # stretched by a slot
    assert float(row(lines, "a")[4]) == pytest.approx(40, rel=0.05)
    assert Path("p.svg").exists()


def test_names_that_look_like_markup_are_printed_as_they_are(capsys: Captured) -> None:
    names = ("j[/b]", "[red]x", ":smile:", "é日")
    # Unshifted, 4 times 51 in one slot of 999 on a link of 100, all of weight 1: 104 / 999.
    jobs = (job(name, 999, (0, 1, 51), fixed_offset=0) for name in names)
    instance = network(*jobs).replace(name="odd [bold]")
    write_instance(instance, "odd[1].json")
    assert metronome(f"solve odd[1].json {GREEDY} --output 'odd [x].json'") == 0
    out, error = capsys.readouterr()
    for text in (*names, "contention 0.104104"):
        assert text in out
    assert error == "wrote odd [x].json\n"


# ------------------------------------------------------------------ allocate


@pytest.mark.parametrize("solver", ["greedy", "cpsat"])
def test_allocate_writes_a_schedule_that_verify_accepts(solver: str, capsys: Captured) -> None:
    options = f"--solver {solver} --time-limit 20 --threads 1 --max-loss 2% --output s.json"
    assert metronome(f"allocate eight-nodes {options}") == 0
    out, error = capsys.readouterr()
    assert f"{solver}: feasible, slowdown 1.0" in out
    assert ("joint model: the placements cost" in error) == (solver == "cpsat")
    schedule = read_schedule("s.json")
    assert schedule.places is not None
    assert len(schedule.places) == 6
    assert metronome("verify eight-nodes s.json") == 0
    document = json.loads("".join(printed(capsys, f"allocate eight-nodes {options} --json")))
    assert document["places"] == {job: list(nodes) for job, nodes in schedule.places.items()}


def test_allocate_of_an_instance_chooses_slots_alone(capsys: Captured) -> None:
    lines = printed(capsys, "allocate two.json --solver greedy")
    assert lines[-2].endswith("2 of 2 jobs have windows")


# ------------------------------------------------------------------ verify, claims, export, fit


def test_verify_names_each_false_number(capsys: Captured) -> None:
    assert metronome("allocate two.json --output s.json") == 0
    document = json.loads(Path("s.json").read_text())
    document["objectives"] |= {"contention": "1/3", "wait": "7"}
    Path("s.json").write_text(json.dumps(document))
    report = json.loads("".join(printed(capsys, "verify two.json s.json --json", 1)))
    assert report["valid"] is False
    assert {"objectives.contention", "objectives.wait"} <= {row["place"] for row in report["false"]}
    assert metronome("verify two.json s.json") == 1
    lines = capsys.readouterr().err.splitlines()
    assert any("objectives.contention: stated 1/3, but it is 0" in line for line in lines)


def test_claims_writes_what_was_decided(capsys: Captured) -> None:
    assert metronome(f"solve two.json {GREEDY} --output s.json") == 0
    line = "claims two.json s.json --output claims --namespace training"
    assert metronome(line) == 0
    assert "every link counts as a node" in capsys.readouterr().err
    specs = [each["spec"] for each in yaml.safe_load_all(Path("claims/claims.yaml").read_text())]
    decided = {each["job"]: each["allocation"]["offsetMicroseconds"] for each in specs}
    assert decided == {
        job: offset * 5000 for job, offset in read_schedule("s.json").offsets.items()
    }


@pytest.mark.parametrize("format_", ["lp", "mps", "cpsat", "cfn"])
def test_export_writes_a_file_or_prints(format_: str, capsys: Captured) -> None:
    assert metronome(f"export two.json --format {format_} --output model") == 0
    assert capsys.readouterr() == ("", "wrote model\n")
    assert metronome(f"export two.json --format {format_}") == 0
    assert capsys.readouterr().out == Path("model").read_text()


def test_jobs_that_fit_drops_may_have_no_hyperperiod_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside a and b at 997 slots, c would repeat after 997 * 1009; only stretched it would fit."""
    jobs = [
        job("a", 997, (0, 400, 60), weight=5),
        job("b", 997, (0, 400, 60), weight=5),
        job("c", 1009, (0, 300, 60), max_stretch=2000),
    ]
    write_instance(network(*jobs), "jobs.json")
    monkeypatch.setenv("METRONOME_HYPERPERIOD_LIMIT", "10000")
    for line in (
        "fit jobs.json --drop --output kept.json",
        "verify jobs.json kept.json",
        "claims jobs.json kept.json --output claims",
        "report kept.json jobs.json --output page.html",
    ):
        assert metronome(line) == 0, line
    assert read_schedule("kept.json").gated == {"a": True, "b": True, "c": False}


def test_fit_decides_and_names_jobs_in_conflict(capsys: Captured) -> None:
    jobs = [job("a", 10, (0, 4, 60), weight=3), job("b", 10, (0, 4, 60)), job("c", 15, (0, 4, 60))]
    write_instance(network(*jobs[:2]), "fits.json")
    said = "\n".join(printed(capsys, "fit fits.json --output s.json"))
    assert "2 of 2 jobs gated" in said
    assert metronome("verify fits.json s.json") == 0
    # Bursts of 4 and 4 do not fit into 5, the divisor of 10 and 15; stretched to 20, c fits.
    write_instance(network(*jobs), "jobs.json")
    said = "\n".join(printed(capsys, "fit jobs.json", 1))
    assert "conflict, periods in slots: a at 10, c at 15" in said
    said = "\n".join(printed(capsys, "fit jobs.json --drop --output s.json"))
    assert "2 of 3 jobs gated; weight dropped: 1 (proved)" in said
    said = "\n".join(printed(capsys, "verify jobs.json s.json"))
    assert "conflict: a, c: proved\n" in said
    assert "weight dropped, at least 1: proved by refutations" in said
    assert metronome("fit jobs.json --output none.json") == 1
    assert "conflict: a, c: proved" in "\n".join(printed(capsys, "verify jobs.json none.json"))
    assert metronome("fit jobs.json --cushion-slots 9") == 1


# ------------------------------------------------------------------ help


def test_help_and_version(capsys: Captured) -> None:
    assert printed(capsys, "--version") == ["metronome-opt 0.1.0"]
    text = " ".join(" ".join(printed(capsys, "--help")).split())
    for name, sentence in COMMANDS.items():
        assert f"{name} {sentence}" in text
