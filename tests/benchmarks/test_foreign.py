"""Data sets of others are read from files in their format."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from benchmarks.foreign.decide import decide, pair_fits, table
from benchmarks.foreign.pscp import ARCHIVE, make_cases, read_cases
from metronome_opt.errors import InputError
from tests.builders import job

REAL = Path(__file__).parents[2] / ARCHIVE
# Two resources. On the first, six bursts of 1,000 meet gaps that hold five.
TEXT = """nApps = 9
nRes = 2
nActs = 9
nNetworks = 0

assignmentToResources = [1,1,1,1,2,1,1,1,2];

processingTimes = [3,1000,1000,1000,500,1000,1000,1000,2];

periods = [2000,10000,10000,10000,1000,10000,10000,10000,5000];

assignmentToClusters = [1,2,3,4,5,6,7,8,9];

precedenceAdjList = [[2],[],[],[],[],[],[],[],[]];"""


def archive(folder: Path, **files: str | bytes) -> Path:
    path = folder / "archive.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, text in files.items():
            content = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"Set 1/{name}.dat")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_each_resource_is_a_link() -> None:
    first, second = make_cases("Set 1/one.dat", TEXT)
    assert (first.group, first.instance.name) == ("Set 1", "one-1")
    assert [link.capacity for link in first.instance.links] == [1]
    assert [(each.period, each.volume) for each in second.instance.jobs] == [(1000, 500), (5000, 2)]
    assert [each.name for each in second.instance.jobs] == ["5", "9"]


def test_resources_are_decided_and_judged(tmp_path: Path) -> None:
    outcomes = list(decide(read_cases(archive(tmp_path, one=TEXT, two=TEXT))))
    assert [(each.outcome, each.checked) for each in outcomes] == [
        ("load", True),
        ("fit", True),
    ] * 2
    figures = table(outcomes)["Set 1"]
    assert (figures["resources"], figures["fit"], figures["refuted"]) == (4, 2, 2)
    assert (figures["open"], figures["wrong"]) == (0, 0)


@pytest.mark.parametrize(("mine", "theirs", "fits"), [(3, 7, True), (4, 7, False), (10, 1, False)])
def test_a_pair_by_trying_all_offsets(mine: int, theirs: int, fits: bool) -> None:
    # Periods of 20 and 30 share 10 slots.
    assert pair_fits(job("a", 20, (0, mine, 1)), job("b", 30, (0, theirs, 1))) is fits


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TEXT[:120], "processingTimes: must be one list"),
        (TEXT.replace("[3,", "[3.5,"), "processingTimes[0]: must be an integer from 1"),
        (TEXT.replace("[3,", "["), "9, 8, 9 numbers"),
        (TEXT.replace("[3,", "[2001,"), "processingTimes[0]: 2001 is above the period 2000"),
        (b"\xff\xfe", "is no text"),
        (b"[1,2]" * 2**21, "too many bytes"),
    ],
)
def test_damaged_files_are_one_line(tmp_path: Path, wrong: str | bytes, message: str) -> None:
    with pytest.raises(InputError) as error:
        list(read_cases(archive(tmp_path, good=TEXT, wrong=wrong)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.exists(), reason="the data set is not here")
def test_the_first_resources_of_the_real_archive() -> None:
    cases = read_cases(REAL)
    outcomes = list(decide(next(cases) for _ in range(20)))
    assert all(each.outcome == "open" or each.checked is not False for each in outcomes)
    assert sum(each.outcome == "open" for each in outcomes) == 0
