"""`metronome bench` records every case once, resumes, and reports."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from metronome_opt.bench.solver_runs import read_records
from metronome_opt.problem.instance import write_instance
from tests.bench.examples import write_suite
from tests.builders import hard_instance, two_jobs
from tests.cli.typed import COMMAND, Captured, error_of, metronome
from tests.running import wait_until


@pytest.fixture
def checkout(two: Path) -> Path:
    """Return the working directory with suites `easy` and `hard`, and folders of instances."""
    write_suite(two / "hard", [(hard_instance(), "test")])
    tune = two_jobs().replace(name="tune-me")
    write_suite(two / "easy", [(two_jobs(), "test"), (tune, "tune")])
    periods = ({"period": 1009, "max_stretch": 50}, {"period": 1013, "max_stretch": 50})
    jobs = [job.model_copy(update=new) for job, new in zip(two_jobs().jobs, periods, strict=True)]
    for folder, instance in (("mine", two_jobs()), ("primes", two_jobs().replace(jobs=jobs))):
        (two / folder).mkdir()
        write_instance(instance, two / folder / f"{folder}.json")
    (two / "mine.py").write_text("def run(search):\n    search.offer([0, 8])\n")
    (two / "broken.py").write_text("raise ValueError('no')\n")
    return two


@pytest.mark.slow
@pytest.mark.usefixtures("checkout")
def test_run_records_each_case_once_and_resumes(capsys: Captured) -> None:
    line = "bench run --suite easy --replications 2 --workers 1 --solvers"
    assert metronome(f"{line} greedy,random") == 0
    out, error = capsys.readouterr()
    assert "3 cases (3 schedule): 0 s solving, " in out
    assert "[3/3] two-jobs random seed 1: " in error
    records = read_records([Path("campaign.jsonl")])
    # greedy takes no seed and runs once; the solvers take turns
    assert [(record.solver, record.seed) for record in records] == [
        ("greedy", 0),
        ("random", 0),
        ("random", 1),
    ]
    assert {(record.time_limit_s, record.split) for record in records} == {(2.0, "test")}
    assert "go on with --resume" in error_of(capsys, f"{line} unshifted")
    assert metronome(f"{line} greedy,unshifted --resume") == 0
    assert "1 of 2 cases recorded already" in capsys.readouterr().err
    solvers = [record.solver for record in read_records([Path("campaign.jsonl")])]
    assert solvers[3:] == ["unshifted"]
    capsys.readouterr()
    assert metronome("bench report campaign.jsonl --output report") == 0
    assert "greedy" in Path("report/report.html").read_text(encoding="utf-8")
    error = capsys.readouterr().err
    assert "wrote report/report.html\n" in error


@pytest.mark.slow
def test_a_signal_keeps_records_and_names_resume(checkout: Path) -> None:
    output = checkout / "out.jsonl"
    line = "bench run --suite easy,hard --solvers local --time-limit 300 --output out.jsonl"
    with subprocess.Popen(
        [*COMMAND, *line.split()],
        env={**os.environ, "TMPDIR": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") == 1)
        wait_until(lambda: any(checkout.glob("metronome-*")))
        process.send_signal(signal.SIGTERM)  # which becomes a Ctrl-C, as everywhere
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "--resume goes on" in error
    assert "Traceback" not in error
    assert [record.instance for record in read_records([output])] == ["two-jobs"]
    assert list(checkout.glob("metronome-*")) == []


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "run --suite mine,primes",
            "primes/primes.json: two-jobs: contention and latency need a hyperp",
        ),
        ("run --suite easy --solvers nowhere.py:run", "there is no file 'nowhere.py'"),
        ("run --suite easy --solvers mine.py:walk", "mine.py has no function 'walk'"),
        ("run --suite easy --solvers broken.py:run", "the file fails ('ValueError: no')"),
    ],
)
def test_wrong_folders_and_solvers_are_one_line(
    options: str, message: str, capsys: Captured
) -> None:
    assert message in error_of(capsys, f"bench {options}")


@pytest.mark.slow
def test_solvers_of_a_file_and_of_an_installed_package(checkout: Path) -> None:
    """Offsets 0 and 8 separate the two jobs."""
    package = checkout / "toy-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[metronome_opt.solvers]\ntoy = mine:run\n")
    line = "bench run --suite mine --solvers toy,mine.py:run,greedy --output c.jsonl"
    path = os.pathsep.join([str(checkout), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*COMMAND, *line.split()], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    toy, mine, greedy = read_records([checkout / "c.jsonl"])
    assert (toy.kind, toy.versions["toy"]) == ("schedule", "1")
    assert (mine.kind, mine.solver) == ("schedule", "mine.py:run")
    assert toy.value == mine.value == 0
    assert "toy" not in greedy.versions
    assert (toy.suite, toy.split, toy.source) == ("mine", "none", "mine/mine.json")
