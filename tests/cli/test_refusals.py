"""Wrong input is refused in one line with exit status 2, and changes nothing."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from metronome_opt.__main__ import main
from metronome_opt.problem.instance import write_instance
from tests.bench.examples import write_suite
from tests.builders import hard_instance, job, network, two_jobs
from tests.cli import placing, simulating

# A command, `|`, and what is said.
REFUSED = [
    tuple(part.strip() for part in line.split(" | "))
    for line in Path(__file__).with_name("refusals.txt").read_text().splitlines()[1:]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for every command; the tests leave it as it is."""
    path = tmp_path_factory.mktemp("refusals")
    write_instance(two_jobs(), path / "two-jobs.json")
    crowd = (
        job("a", 12, (0, 4, 50), weight=8),
        job("b", 12, (0, 6, 60), weight=4),
        job("c", 12, (0, 5, 70)),
    )
    write_instance(network(*crowd), path / "crowd.json")
    greedy = f"--solver greedy --output {path}/s.json"
    assert main(["solve", f"{path}/two-jobs.json", *greedy.split()]) == 0
    shutil.copy(path / "s.json", path / "s.html")
    write_suite(path / "hard", [(hard_instance(), "test")])
    tune = two_jobs().replace(name="tune-me")
    write_suite(path / "easy", [(two_jobs(), "test"), (tune, "tune")])
    state = placing.Folder(path)
    state.make()
    state.file(placing.job("a"), "job.yaml")
    simulating.write_files(path)
    times = np.arange(0, 30, 0.02)
    rates = np.where(times % 1 < 0.3, 10_000, 0)
    rows = (f"{time:.2f},{rate}\n" for time, rate in zip(times, rates, strict=True))
    (path / "link.csv").write_text("".join(["time,rate\n", *rows]))
    shutil.copytree(Path(__file__).parents[2] / "docs" / "example-cluster", path / "manifests")
    return path


def content(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line for line, _ in REFUSED])
def test_what_is_wrong_is_one_line_and_changes_nothing(
    line: str,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = dict(content(folder))
    assert main(shlex.split(line)) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("metronome: error: ")
    assert said in line
    assert printed.out == ""
    assert dict(content(folder)) == before
