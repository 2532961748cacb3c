"""The stored instances are what their generators make, and what their families say they are."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

import benchmarks.__main__
from benchmarks.families import FAMILIES, Case, Family
from benchmarks.families.family import cases
from benchmarks.stored import SUITES, differences, write_suite
from metronome_opt.bench.suites import Member, read_suite
from metronome_opt.problem.instance import Instance
from tests.builders import job, network


@cache
def members(name: str) -> tuple[Member, ...]:
    """Read a stored suite; reading checks the checksums."""
    return tuple(read_suite(SUITES / name).members())


# ------------------------------------------------------------------ all families


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_stored_files_equal_those_of_the_generators(name: str) -> None:
    assert differences(FAMILIES[name]) == []


def test_tune_and_test_share_no_instance_and_no_seed() -> None:
    found = [member for name in FAMILIES for member in members(name)]
    problems = Counter(
        (member.instance.links, member.instance.jobs)  # whatever it is called
        for member in found
    )
    assert set(problems.values()) == {1}
    assert len({member.entry.name for member in found}) == len(found)
    for name in FAMILIES:
        seeds = Counter(
            member.entry.seed for member in members(name) if member.entry.seed is not None
        )
        assert set(seeds.values()) == {1}, name


# ------------------------------------------------------------------ writing and checking


def tiny(name: str, seed: int, *, period: int = 4) -> Instance:
    """Return one job on one link."""
    return network(job("job", period, (0, 1, 10), ready=seed), capacity=10).replace(name=name)


FAMILY = Family(
    name="tiny",
    about="for tests",
    version=3,
    time_limit_s=1,
    cases=cases(
        "tiny",
        tiny,
        test=[("", {}), ("6", {"period": 6}), ("6", {"period": 6})],
        tune=[("", {})],
    ),
)


def test_changed_files_are_reported_and_written_anew(tmp_path: Path) -> None:
    write_suite(FAMILY, tmp_path)
    assert differences(FAMILY, tmp_path) == []
    (tmp_path / "tiny" / "tiny-test-0.json").unlink()
    (tmp_path / "tiny" / "tiny-9-test-0.json").write_text("{}")
    with (tmp_path / "tiny" / "tiny-6-test-0.json").open("a") as stream:
        stream.write("\n")
    assert differences(FAMILY, tmp_path) == [
        "tiny/tiny-test-0.json: missing",
        "tiny/tiny-9-test-0.json: not of this family",
        "tiny/tiny-6-test-0.json: differs from what its generator makes",
    ]
    write_suite(FAMILY, tmp_path)
    assert differences(FAMILY, tmp_path) == []


def test_the_command_checks_without_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = FAMILIES["weights"].cases[0]
    other = Case(changed.name, changed.split, changed.generate, changed.parameters, 77)
    family = Family("weights", "", 1, 1, (other,))
    monkeypatch.setattr(benchmarks.__main__, "FAMILIES", {"weights": family})
    path = SUITES / "weights" / f"{changed.name}.json"
    before = path.read_bytes()
    told = CliRunner().invoke(benchmarks.__main__.app, ["generate", "--check"])
    assert told.exit_code == 1
    assert f"{changed.name}.json: differs" in told.output.replace("\n", " ")
    assert path.read_bytes() == before
