"""Commands as a user types them."""

from __future__ import annotations

import shlex
import sys

import pytest

from metronome_opt.__main__ import main

COMMAND = [sys.executable, "-m", "metronome_opt"]
Captured = pytest.CaptureFixture[str]


def metronome(line: str) -> int:
    """Run a command, and return its exit status."""
    return main(shlex.split(line))


def printed(capsys: Captured, line: str, status: int = 0) -> list[str]:
    """Run a command that ends with a status, and return the lines of standard output."""
    capsys.readouterr()
    assert metronome(line) == status
    return capsys.readouterr().out.splitlines()


def error_of(capsys: Captured, line: str, status: int = 2) -> str:
    """Run a command that fails, and return its one line on standard error."""
    capsys.readouterr()
    assert metronome(line) == status
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def row(lines: list[str], name: str) -> list[str]:
    """Return the words of the row of a table."""
    return next(line.split() for line in lines if line.startswith(f"{name} "))
