"""Suites are found by name or folder, read strictly, and refused when they were changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import load, solve
from metronome_opt.bench.suites import INDEX, find_suites, read_suite
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance, write_instance
from metronome_opt.problem.schedule import write_schedule
from tests.bench.examples import write_suite
from tests.builders import two_jobs
from tests.cli.simulating import SCENARIO


def called(name: str) -> Instance:
    return two_jobs().replace(name=name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the suites `one` and `two`."""
    monkeypatch.chdir(tmp_path)
    mixed = [(called("t0"), "test"), (called("u0"), "tune"), (called("t1"), "test")]
    write_suite(tmp_path / "two", mixed)
    write_suite(tmp_path / "one", [(called("o0"), "tune")])
    return tmp_path


def families(wanted: str) -> list[str]:
    return [suite.index.family for suite in find_suites(wanted)]


def test_suites_are_found_by_name_or_folder(folder: Path) -> None:
    del folder
    assert families("two") == ["two"]
    assert families("two, single,two") == ["two", "single"]
    assert {"single", "paper", "fabric"} <= set(families("all"))


def test_a_stored_instance_or_a_scenario_is_a_suite_of_one_unless_a_folder_is_called_so(
    folder: Path,
) -> None:
    assert families("single-5-test-0,fleet,paper") == ["single-5-test-0", "fleet", "paper"]
    (one, *_) = find_suites("single-5-test-0,fleet")
    (stored,) = find_suites("single")[0].members(names={"single-5-test-0"})
    assert [member.instance for member in one.members("test")] == [stored.instance]
    write_suite(folder / "fleet", [(called("f0"), "test")])
    assert [entry.name for entry in find_suites("fleet")[0].entries()] == ["f0"]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder without an index: an instance, a scenario, and other files."""
    folder = tmp_path / "mine"
    folder.mkdir()
    write_instance(two_jobs(), folder / "b.json")
    (folder / "a.yaml").write_text(json.dumps(SCENARIO))
    write_schedule(solve(two_jobs(), "greedy").schedule, folder / "schedule.json")
    (folder / "values.yaml").write_text("colour: red")
    (folder / "notes.txt").write_text("format: metronome-instance/1")
    return folder


def test_a_folder_needs_no_index(mine: Path) -> None:
    (suite,) = find_suites(str(mine))
    scenario, instance = suite.members()
    assert (suite.index.family, scenario.entry.name, instance.entry.name) == ("mine", "a", "b")
    assert instance.instance == two_jobs()
    assert scenario.instance == load(mine / "a.yaml").instance
    assert [member.path for member in (scenario, instance)] == [mine / "a.yaml", mine / "b.json"]
    # Their origin is not known, and none is reserved for tuning.
    assert [member.entry.maker for member in (scenario, instance)] == [None, None]
    assert list(suite.members("tune")) == []


@pytest.mark.parametrize("name", ["a.yaml", "b.json"])
def test_a_file_is_a_suite_of_one(name: str, mine: Path) -> None:
    (suite,) = find_suites(str(mine / name))
    (member,) = suite.members()
    stem = name.partition(".")[0]
    assert (suite.index.family, member.entry.name, member.path) == (stem, stem, mine / name)
    assert member.instance == load(mine / name).instance


def test_a_file_of_another_format_is_refused(mine: Path) -> None:
    with pytest.raises(InputError, match=r"schedule\.json: format: "):
        find_suites(str(mine / "schedule.json"))


def test_a_scenario_and_the_instance_that_it_makes_are_one_problem(mine: Path) -> None:
    write_instance(load(mine / "a.yaml").instance, mine / "a.json")
    members = {member.entry.name: member.entry.sha256 for member in read_suite(mine).members()}
    assert set(members) == {"a.json", "a.yaml", "b"}  # names tell them apart
    assert members["a.json"] == members["a.yaml"] != members["b"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (None, None, r"mine: has neither index\.json nor a JSON .* name a folder of instances"),
        ("b.json", '{"format": "metronome-instance/1"', r"mine/b\.json: line 1, .*: not JSON"),
        ("b.json", '{"format": "metronome-instance/1"}', r"mine/b\.json: name: missing"),
    ],
)
def test_a_folder_that_makes_no_suite_is_one_line(
    name: str | None, text: str | None, message: str, mine: Path
) -> None:
    for each in ("a.yaml", "b.json"):
        (mine / each).unlink()
    if name is not None and text is not None:
        (mine / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_suite(mine)


def test_members_by_split_and_name(folder: Path) -> None:
    del folder
    (suite,) = find_suites("two")
    assert [member.entry.name for member in suite.members()] == ["t0", "u0", "t1"]
    assert [member.entry.name for member in suite.members("test")] == ["t0", "t1"]
    assert [member.entry.name for member in suite.members("test", {"t1", "u0"})] == ["t1"]
    (member,) = suite.members("tune")
    assert (member.suite, member.time_limit_s, member.instance) == ("two", 2, called("u0"))


@pytest.mark.parametrize("wanted", ["three", "one,three", "", ",", "../nowhere"])
def test_an_unknown_suite_is_one_line_that_lists_the_names(wanted: str, folder: Path) -> None:
    del folder
    with pytest.raises(
        InputError, match=r"is no file, folder, .* or scenario; choose from allocation, coprime, "
    ):
        find_suites(wanted)


def test_a_file_that_was_changed_is_refused(folder: Path) -> None:
    path = folder / "one" / "o0.json"
    path.write_text(path.read_text() + "\n")
    (suite,) = find_suites("one")
    with pytest.raises(InputError, match=r"o0\.json: its checksum is .* the index says"):
        list(suite.members())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "metronome-suite/2"}, "format: must be 'metronome-suite/1'"),
        ({"time_limit_s": 0}, "time_limit_s: "),
        ({"colour": "red"}, "colour: unknown field"),
        ({"instances": [{}]}, r"instances\[0\]\.name: missing"),
        ({"instances": "none"}, "instances: "),
    ],
)
def test_a_wrong_index_is_one_line(change: dict[str, Any], message: str, suite: Path) -> None:
    path = suite / INDEX
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=rf"index\.json: {message}"):
        read_suite(suite)
