"""Every file under tests/data/bad ends in one line and exit status 2; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.problem.instance import write_instance
from tests.builders import job, two_jobs

BAD = Path(__file__).parents[1] / "data" / "bad"
EXPECTED: dict[str, str] = yaml.safe_load((BAD / "expected.yaml").read_text(encoding="utf-8"))
PROBLEMS = [name for name in EXPECTED if not name.startswith("schedules/")]
SCHEDULES = [name for name in EXPECTED if name.startswith("schedules/")]

JOBS = [job(name, 40, (0, 12, 40_000), links={"node-0": 1}) for name in ("vgg19-0", "bert-0")]
GOOD_INSTANCE = two_jobs().replace(jobs=JOBS)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a folder of its own for what must not be written."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def refused(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Run the command line and return what it writes to standard error, a line for each fault."""
    status = main(arguments)
    printed, said = capfd.readouterr()
    assert status == 2
    assert printed == ""
    assert said.endswith("\n")
    for line in said.splitlines():
        assert line.startswith("metronome: error: ")
        assert len(line) < 500
    return said


def test_every_bad_file_has_an_expected_message() -> None:
    files = {path.relative_to(BAD).as_posix() for path in BAD.rglob("*") if path.is_file()}
    assert files == {*EXPECTED, "expected.yaml"}
    assert all(EXPECTED.values())


@pytest.mark.parametrize("name", PROBLEMS)
def test_bad_problem_is_refused(name: str, out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = refused(["solve", str(BAD / name), "--output", str(out / "schedule.json")], capfd)
    assert f"{BAD / name}: " in said
    assert EXPECTED[name] in said
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_bad_schedule_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    instance = tmp_path / "instance.json"
    write_instance(GOOD_INSTANCE, instance)
    said = refused(["verify", str(instance), str(BAD / name)], capfd)
    assert f"{BAD / name}: " in said
    assert EXPECTED[name] in said
