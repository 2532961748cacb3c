"""Full and closed pipes, unwritable folders and signals end a command without a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.problem.instance import read_instance, write_instance
from metronome_opt.problem.schedule import read_schedule
from metronome_opt.verify import verify_schedule
from tests.builders import hard_instance, two_jobs
from tests.cli import placing
from tests.cli.typed import COMMAND, Captured, error_of
from tests.running import let_work

GREEDY = "--solver greedy"
NO_SPACE = "metronome: error: standard output: cannot be written (No space left on device)"


def started(line: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def errors_without_space(line: str) -> list[str]:
    """Run a command whose output finds no space; return the lines of standard error."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [*COMMAND, *line.split()], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert run.returncode == 2
    return run.stderr.splitlines()


@pytest.mark.slow
def test_a_full_pipe_is_one_line_after_files_are_written(two: Path) -> None:
    assert errors_without_space(f"solve two.json {GREEDY}") == [NO_SPACE]
    assert errors_without_space("pareto two.json --output front")[-1:] == [NO_SPACE]
    assert verify_schedule(read_instance("two.json"), read_schedule("front/point-001.json")) == ()
    state = placing.Folder(two)
    state.make()
    assert errors_without_space(f"place state {state.file(placing.job('a'))}") == [NO_SPACE]
    assert list(state.offsets()) == ["a"]


@pytest.mark.slow
@pytest.mark.usefixtures("two")
def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "export", "two.json", "--format", "lp"]
    run = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "number", "in_background"),
    [
        ("auto", signal.SIGINT, False),
        ("auto", signal.SIGTERM, False),  # which becomes the former, whatever runs
        ("auto", signal.SIGTERM, True),  # what shells start so ignores the former
        ("milp", signal.SIGINT, False),
    ],
)
@pytest.mark.usefixtures("two")
def test_a_signal_still_writes_the_best_schedule(
    solver: str, number: signal.Signals, in_background: bool
) -> None:
    write_instance(hard_instance(), "hard.json")
    line = f"solve hard.json --solver {solver} --threads 1"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_background else None
    process = started(f"{line} --time-limit 100 --output s.json")
    if before is not None:
        signal.signal(signal.SIGINT, before)
    with process:
        let_work(process, cpu_s=6.0)  # some of them are loading
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert verify_schedule(hard_instance(), read_schedule("s.json")) == ()


@pytest.mark.parametrize(
    ("package", "module", "options", "expected"),
    [
        (
            "ortools.sat.python",
            None,
            "--solver cpsat",
            "solver cpsat needs OR-Tools, which is not installed: pip install ortools",
        ),
        (
            "matplotlib",
            "metronome_opt.output.figures.picture",
            "--plot a.svg",
            "figures need matplotlib, which is not installed: pip install metronome-opt[plot]",
        ),
    ],
)
@pytest.mark.usefixtures("two")
def test_a_missing_package_is_named_with_the_remedy(
    package: str,
    module: str | None,
    options: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    if module:
        monkeypatch.delitem(sys.modules, module, raising=False)
    line = f"solve two.json {options}"
    assert error_of(capsys, line) == f"metronome: error: {expected}\n"


@pytest.mark.slow
@pytest.mark.usefixtures("two")
def test_output_without_a_terminal_is_plain_and_escaped() -> None:
    renamed = two_jobs().jobs[0].model_copy(update={"name": "é日"})
    write_instance(two_jobs().replace(jobs=(renamed, two_jobs().jobs[1])), "names.json")
    for extra in ("", " --json"):
        run = subprocess.run(
            [*COMMAND, *f"solve names.json {GREEDY}{extra}".split()],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert "\\xe9\\u65e5" in run.stdout or "\\u00e9\\u65e5" in run.stdout
        assert run.stderr == ""
    assert json.loads(run.stdout)["solver"] == "greedy"


@pytest.mark.usefixtures("two")
def test_ctrl_c_at_the_start_is_one_line() -> None:
    with started("solve two.json") as process:
        let_work(process, cpu_s=0.25)  # Python itself has started by then
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    # From our first line on there is no traceback.
    assert process.returncode in (0, 130, -signal.SIGINT)
    if process.returncode == 130:
        assert error.splitlines() in ([], ["metronome: error: interrupted"])
