"""Faults from outside: full and closed pipes, folders that take nothing, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt import cli
from metronome_opt.__main__ import main
from metronome_opt.instance import read_instance, write_instance
from metronome_opt.schedule import read_schedule
from metronome_opt.verify import check
from tests.builders import hard_instance, two_jobs
from tests.cli import placing
from tests.running import let_work

COMMAND = [sys.executable, "-m", "metronome_opt"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    write_instance(two_jobs(), path)
    return path


NO_SPACE = "metronome: error: standard output: cannot be written (No space left on device)"


def told_to_nobody(*arguments: str) -> list[str]:
    """Run a command whose output finds no space; return what is told on standard error."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [*COMMAND, *arguments], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert run.returncode == 2
    return run.stderr.splitlines()


@pytest.mark.slow
def test_a_full_pipe_is_one_line_after_what_is_kept_is_written(small: Path, tmp_path: Path) -> None:
    assert told_to_nobody(
        "solve", str(small), "--solver", "greedy", "--objectives", "contention"
    ) == [NO_SPACE]
    folder = tmp_path / "front"
    assert told_to_nobody("pareto", str(small), "--output", str(folder))[-1:] == [NO_SPACE]
    assert check(read_instance(small), read_schedule(folder / "point-001.json")) == ()
    state = placing.Folder(tmp_path)
    state.make()
    assert told_to_nobody("place", str(state.state), state.file(placing.job("a"))) == [NO_SPACE]
    assert list(state.offsets()) == ["a"]


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(small: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [*COMMAND, "export", str(small), "--format", "lp"],
        check=False,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_one_line(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    arguments = [
        "solve",
        str(small),
        "--solver",
        "greedy",
        "--objectives",
        "contention",
        "--output",
        str(closed / "s.json"),
    ]
    assert main(arguments) == 2
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "number"),
    [
        ("auto", signal.SIGINT),
        ("auto", signal.SIGTERM),  # which becomes the former, whatever runs
        ("milp", signal.SIGINT),
    ],
)
def test_a_signal_still_writes_what_was_found(
    solver: str, number: signal.Signals, tmp_path: Path
) -> None:
    instance, schedule = tmp_path / "hard.json", tmp_path / "schedule.json"
    write_instance(hard_instance(), instance)
    arguments = [
        "--solver",
        solver,
        "--objectives",
        "contention",
        "--output",
        str(schedule),
        "--time-limit",
        "100",
    ]
    arguments += ["--objectives", "contention", "--workers", "1"]
    with subprocess.Popen(
        [*COMMAND, "solve", str(instance), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        let_work(process, cpu_s=6.0)  # some of them are loading
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert check(read_instance(instance), read_schedule(schedule)) == ()


def test_a_missing_back_end_says_what_to_install(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    assert main(["solve", str(small), "--solver", "cpsat", "--objectives", "contention"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "metronome: error: solver cpsat needs OR-Tools, which is not installed: pip install ortools"
    ]


@pytest.mark.slow
def test_nothing_moves_on_standard_error_when_piped(small: Path) -> None:
    run = subprocess.run(
        [*COMMAND, "solve", str(small), "--objectives", "contention", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert json.loads(run.stdout)["status"] == "optimal"


@pytest.mark.slow
def test_output_that_the_terminal_cannot_encode_is_escaped(tmp_path: Path) -> None:
    instance = two_jobs()
    renamed = instance.jobs[0].model_copy(update={"name": "é日"})
    path = tmp_path / "names.json"
    write_instance(instance.replace(jobs=(renamed, instance.jobs[1])), path)
    for extra in ([], ["--json"]):
        run = subprocess.run(
            [
                *COMMAND,
                "solve",
                str(path),
                "--solver",
                "greedy",
                "--objectives",
                "contention",
                *extra,
            ],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert "\\xe9\\u65e5" in run.stdout or "\\u00e9\\u65e5" in run.stdout


def test_ctrl_c_while_it_starts_is_one_line(small: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "solve", str(small)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        let_work(process, cpu_s=0.25)  # Python itself has started by then
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    # From our first line on there is no traceback.
    assert process.returncode in (0, 130, -signal.SIGINT)
    if process.returncode == 130:
        assert told.splitlines() in ([], ["metronome: error: interrupted"])


@pytest.mark.parametrize("other", ["small.yaml", "small.yml"])
def test_a_file_of_another_suffix_is_pointed_to(
    other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / other).write_text("{}")
    assert main(["solve", str(tmp_path / "small.json")]) == 2
    assert capsys.readouterr().err == (
        f"metronome: error: {tmp_path / 'small.json'}: cannot be read (no such file); "
        f"there is {tmp_path / other}\n"
    )


def test_output_has_a_short_name_in_every_command() -> None:
    said = (Path(cli.__file__).parent).rglob("*.py")
    asked = [
        text for text in (path.read_text() for path in said) if "    output: Annotated[" in text
    ]
    assert asked
    assert all('"--output", "-o"' in " ".join(text.split()) for text in asked)
