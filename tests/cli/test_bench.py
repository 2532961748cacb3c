"""``metronome bench`` as a user types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.bench.suites import SUITES
from metronome_opt.bench.trials import read_records
from metronome_opt.instance import write_instance
from tests.bench.examples import write_suite
from tests.builders import hard_instance, two_jobs
from tests.running import wait_until

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "bench", "run"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with suites `easy` and `hard`, which the commands run in."""
    write_suite(tmp_path / SUITES / "hard", [(hard_instance(), "test")])
    tune = two_jobs().replace(name="tune-me")
    write_suite(tmp_path / SUITES / "easy", [(two_jobs(), "test"), (tune, "tune")])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_counts_instances_by_split(checkout: Path, capsys: Captured) -> None:
    assert checkout.exists()
    assert main(["bench", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r" *suite +test +tune +limit +about *", lines[0])
    assert re.fullmatch(r" *easy +1 +1 +2 s +for tests *", lines[2])
    assert re.fullmatch(r" *hard +1 +0 +2 s +for tests *", lines[3])


@pytest.mark.slow
def test_run_records_each_case_once_and_resumes(checkout: Path, capsys: Captured) -> None:
    arguments = ["bench", "run", "--suite", "easy", "--seeds", "2", "--workers", "1"]
    assert main([*arguments, "--solvers", "greedy,random"]) == 0
    printed = capsys.readouterr()
    assert "3 records of contention added (3 schedule)" in printed.out
    assert "[3/3] two-jobs random seed 1: " in printed.err
    output = checkout / "campaign.jsonl"
    records = read_records([output])
    # greedy takes no seed and runs once; the solvers take turns
    assert [(record.solver, record.seed) for record in records] == [
        ("greedy", 0),
        ("random", 0),
        ("random", 1),
    ]
    assert {record.time_limit_s for record in records} == {2.0}
    assert {record.split for record in records} == {"test"}

    assert main([*arguments, "--solvers", "unshifted"]) == 2
    assert "go on with --resume" in capsys.readouterr().err
    assert main([*arguments, "--solvers", "greedy,unshifted", "--resume"]) == 0
    assert "1 of 2 cases recorded already" in capsys.readouterr().out
    assert [record.solver for record in read_records([output])][3:] == ["unshifted"]


@pytest.mark.slow
def test_splits_choose_the_instances(checkout: Path) -> None:
    for split, names in (("tune", ["tune-me"]), ("all", ["two-jobs", "tune-me"])):
        output = checkout / f"{split}.jsonl"
        arguments = ["--suite", "easy", "--split", split, "--solvers", "unshifted"]
        assert main(["bench", "run", *arguments, "--output", str(output)]) == 0
        assert [record.instance for record in read_records([output])] == names


@pytest.mark.slow
def test_a_signal_keeps_records_and_names_resume(checkout: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    arguments = ["--suite", "easy,hard", "--solvers", "local", "--time-limit", "300"]
    with subprocess.Popen(
        [*COMMAND, *arguments, "--output", str(output)],
        cwd=checkout,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") == 1)
        wait_until(lambda: any(tmp_path.glob("metronome-*")))
        process.send_signal(signal.SIGTERM)  # which becomes a Ctrl-C, as everywhere
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "--resume goes on" in told
    assert "Traceback" not in told
    assert [record.instance for record in read_records([output])] == ["two-jobs"]
    assert list(tmp_path.glob("metronome-*")) == []


@pytest.mark.slow
def test_report_is_written_from_files_of_records(checkout: Path, capsys: Captured) -> None:
    assert main(["bench", "run", "--suite", "easy", "--solvers", "greedy,unshifted"]) == 0
    folder = checkout / "report"
    arguments = ["bench", "report", "campaign.jsonl", "--output", str(folder)]
    assert main(arguments) == 0
    assert "greedy" in (folder / "report.html").read_text(encoding="utf-8")
    told = capsys.readouterr().err
    assert "wrote campaign.jsonl\n" in told
    assert f"wrote {folder / 'report.html'}\n" in told
    assert main(["bench", "report", "none.jsonl", "--output", str(folder)]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "tune"], "mine has no instances to tune"),
        (["--suite", "empty"], "empty: has neither index.json nor a file"),
        (["--suite", "mine,coprime"], "coprime/b.json: jobs have to be stretched"),
    ],
)
def test_missing_members_of_a_folder_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    long = two_jobs()
    periods = ({"period": 1009, "max_stretch": 50}, {"period": 1013, "max_stretch": 50})
    jobs = tuple(job.model_copy(update=new) for job, new in zip(long.jobs, periods, strict=True))
    for folder, name, instance in (
        ("mine", "a", two_jobs()),
        ("coprime", "b", long.replace(jobs=jobs)),
    ):
        (tmp_path / folder).mkdir()
        write_instance(instance, tmp_path / folder / f"{name}.json")
    (tmp_path / "empty" / "folder.json").mkdir(parents=True)
    assert main(["bench", "run", "--suite", "mine", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_solver_in_a_file(checkout: Path, capsys: Captured) -> None:
    (checkout / "mine.py").write_text("def run(search):\n    search.offer([0, 8])\n")
    arguments = ["bench", "run", "--suite", "easy", "--output", "c.jsonl", "--solvers"]
    assert main([*arguments, "mine.py:run,greedy"]) == 0
    assert "2 records of contention added (2 schedule)" in capsys.readouterr().out
    mine, _ = read_records([checkout / "c.jsonl"])
    # Offsets 0 and 8 keep the two jobs apart.
    assert (mine.solver, mine.kind) == ("mine.py:run", "schedule")
    assert mine.value == 0


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("nowhere.py:run", "there is no file 'nowhere.py'"),
        ("mine.py:walk", "mine.py has no function 'walk'"),
        ("broken.py:run", "the file fails ('ValueError: no')"),
    ],
)
def test_a_wrong_solver_in_a_file_is_one_line(
    solver: str, message: str, checkout: Path, capsys: Captured
) -> None:
    (checkout / "mine.py").write_text("def run(search): ...\n")
    (checkout / "broken.py").write_text("raise ValueError('no')\n")
    assert main(["bench", "run", "--suite", "easy", "--solvers", solver]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


@pytest.mark.slow
def test_a_folder_and_a_solver_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    write_instance(two_jobs(), folder / "pair.json")
    (tmp_path / "toy.py").write_text("def run(search):\n    search.offer([0, 8])\n")
    told = tmp_path / "toy-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[metronome_opt.solvers]\ntoy = toy:run\n")
    arguments = ["--suite", "mine", "--solvers", "toy,greedy", "--output", "c.jsonl"]
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    toy, greedy = read_records([tmp_path / "c.jsonl"])
    # Offsets 0 and 8 keep the two jobs apart.
    assert toy.value == 0
    assert (toy.kind, toy.versions["toy"]) == ("schedule", "1")
    assert "toy" not in greedy.versions
    assert (toy.suite, toy.split, toy.source) == ("mine", "none", "mine/pair.json")
