"""Options that collect values may be repeated, others are refused; old names are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import benchmarks.__main__
import benchmarks.evaluation.__main__
import benchmarks.testbed.__main__
from benchmarks.program import run_program
from metronome_opt.bench.simulations import FILE, SimulationRecord
from metronome_opt.cli.app import OLD_OPTIONS, Command, app
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


def test_program_of_one_command_refuses_it_too(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(seed: int = 1) -> None: ...

    monkeypatch.setattr(sys, "argv", ["main", "--seed", "1", "--seed", "2"])
    with pytest.raises(SystemExit) as ended:
        run_program(main)
    assert ended.value.code == 2
    assert "given more than once, last as '2'" in capsys.readouterr().err


def test_lists_given_twice_are_joined() -> None:
    assert read_names(["b,a", " c ,", "a"]) == ["b", "a", "c", "a"]
    assert read_pairs("--conditions", ["a=1,b=2", "c=3", "a=1"]) == {"a": "1", "b": "2", "c": "3"}
    assert read_pairs("--conditions", None) == {}
    with pytest.raises(InputError, match="--conditions: 'a' is given as '1' and as '2'; give"):
        read_pairs("--conditions", ["a=1", "b=2,a=2"])


@pytest.mark.usefixtures("two")
def test_objectives_accumulate(capsys: Captured) -> None:
    once = "solve two.json --json --threads 1 --objectives"
    for names in ("wait --objectives contention", "wait=1 --objectives contention=2"):
        joined = names.replace(" --objectives ", ",")
        documents = [
            json.loads("".join(printed(capsys, f"{once} {each}"))) for each in (names, joined)
        ]
        for document in documents:
            del document["runtime_s"]
        assert documents[0] == documents[1]


def test_conditions_and_policies_accumulate(two: Path) -> None:
    write_files(two)
    line = "simulate pair.yaml --replications 1"
    typed = "--conditions sharing=tcp --conditions jitter=0.01 --policies default --policies ideal"
    assert metronome(f"{line} {typed} --output out") == 0
    found = read_journal([two / "out" / FILE], SimulationRecord)
    assert sorted(record.policy for record in found) == ["default", "ideal"]
    for record in found:
        assert record.conditions.sharing == "tcp"
        assert record.conditions.jitter == 0.01


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("simulate pair.yaml --seeds 0", "--replications"),
        ("simulate pair.yaml --jobs=0", "--processes"),
        ("simulate pair.yaml --set noise=1", "--conditions: 'noise' is not a condition"),
        ("simulate pair.yaml --policy best", "--policies: 'best' is not known"),
        ("bench run --suite two --workers 0", "--threads"),
        ("controller state --node-patience 0", "--node-timeout"),
        ("pareto two.json --sharing tcp --network tcp", "'--network': given more than once"),
        ("pareto two.json --tolerance x", "max_loss"),
        ("place state --capacity a --down b", "--link-capacity: 'a' is not name=value"),
    ],
)
def test_old_names_of_options_are_known(old: str, new: str, two: Path, capsys: Captured) -> None:
    write_files(two)
    assert new in error_of(capsys, old)
    assert metronome(f"{old.split()[0]} --help") == 0
    typed = {word.partition("=")[0] for word in old.split() if word.startswith("--")}
    shown = set(capsys.readouterr().out.split())
    assert not shown & set(OLD_OPTIONS) & typed
