"""Options that are given more than once: taken each time, or refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import benchmarks.__main__
import benchmarks.evaluation.__main__
import benchmarks.slowdowns
import benchmarks.testbed.__main__
from benchmarks.program import run_program
from metronome_opt.bench.simulations import FILE, SimulationRecord
from metronome_opt.cli.app import Command, app
from metronome_opt.cli.options import read_names, read_pairs
from metronome_opt.errors import InputError
from metronome_opt.files.journal import read_journal
from tests.cli.simulating import write_files
from tests.cli.typed import Captured, error_of, metronome, printed

PROGRAMS = (
    app,
    benchmarks.__main__.app,
    benchmarks.evaluation.__main__.app,
    benchmarks.testbed.__main__.app,
)


def commands(command: Any) -> Iterator[Any]:
    """Yield all commands that take options."""
    names = getattr(command, "commands", {})
    for name in names:
        yield from commands(command.get_command(None, name))
    if not names:
        yield command


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_commands_refuse_repeated_options(program: typer.Typer) -> None:
    for command in commands(typer.main.get_command(program)):
        assert isinstance(command, Command), command.name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("solve two.json --seed 1 --seed 2", "'--seed': given more than once, last as '2'; give"),
        ("solve two.json --seed 1 --seed 1", "'--seed': given more than once, last as '1'; give"),
        ("solve two.json -o a --output b", "'--output' / '-o': given more than once, last as 'b'"),
        ("solve two.json --json --json", "'--json': given more than once; give it once"),
        ("bench run --suite a --seeds 1 --seeds 2", "'--seeds': given more than once, last as '2'"),
        ("pareto two.json --network tcp --network fair", "more than once, last as 'fair'; give"),
    ],
)
@pytest.mark.usefixtures("two")
def test_single_value_given_twice_is_refused(line: str, message: str, capsys: Captured) -> None:
    assert message in error_of(capsys, line)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (benchmarks.__main__.app, "run --once --once"),
        (benchmarks.evaluation.__main__.app, "run --seeds 1 --seeds 2"),
    ],
)
def test_programs_of_benchmarks_refuse_it_too(program: typer.Typer, line: str) -> None:
    ended = CliRunner().invoke(program, line.split(), env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    assert "given more than once" in ended.output


def test_program_of_one_command_refuses_it_too(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["slowdowns", "--seed", "1", "--seed", "2"])
    with pytest.raises(SystemExit) as ended:
        run_program(benchmarks.slowdowns.main)
    assert ended.value.code == 2
    assert "given more than once, last as '2'" in capsys.readouterr().err


def test_lists_given_twice_are_joined() -> None:
    assert read_names(["b,a", " c ,", "a"]) == ["b", "a", "c", "a"]
    assert read_pairs("--set", ["a=1,b=2", "c=3", "a=1"]) == {"a": "1", "b": "2", "c": "3"}
    assert read_pairs("--set", None) == {}
    with pytest.raises(InputError, match="--set: 'a' is given as '1' and as '2'; give one of"):
        read_pairs("--set", ["a=1", "b=2,a=2"])


@pytest.mark.usefixtures("two")
def test_objectives_and_suites_accumulate(capsys: Captured) -> None:
    once = "solve two.json --json --threads 1 --objectives"
    for names in ("wait --objectives contention", "wait=1 --objectives contention=2"):
        joined = names.replace(" --objectives ", ",")
        documents = [
            json.loads("".join(printed(capsys, f"{once} {each}"))) for each in (names, joined)
        ]
        for document in documents:
            del document["runtime_s"]
        assert documents[0] == documents[1]
    assert "'unknown' is not" in error_of(
        capsys, "bench run --suite two --solvers unknown --solvers auto"
    )


def test_conditions_cells_and_policies_accumulate(two: Path, capsys: Captured) -> None:
    write_files(two)
    line = "simulate pair.yaml --seeds 1"
    error = error_of(capsys, f"{line} --set jitter=0.01 --set jitter=0.02")
    assert "--set: 'jitter' is given as '0.01' and as '0.02'; give one of the two" in error
    error = error_of(capsys, "simulate endless.yaml --cells horizon_s=1 --cells horizon_s=2")
    assert "--cells: 'horizon_s' is given as '1' and as '2'; give one of the two" in error
    typed = "--set sharing=tcp --set jitter=0.01 --policy default --policy ideal"
    assert metronome(f"{line} {typed} --output out") == 0
    found = read_journal([two / "out" / FILE], SimulationRecord)
    assert sorted(record.policy for record in found) == ["default", "ideal"]
    for record in found:
        assert record.conditions.sharing == "tcp"
        assert record.conditions.jitter == 0.01


def test_capacities_of_one_link_agree(two: Path, capsys: Captured) -> None:
    del two
    error = error_of(capsys, "place state job.yaml --capacity l=1 --capacity l=2")
    assert "--capacity: 'l' is given as 1 and as 2; give one of the two" in error
