"""Programs of one command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metronome_opt.cli.app import App


def run_program(function: Callable[..., Any]) -> None:
    """Run a function as the only command of a program; its parameters are the options."""
    program = App(add_completion=False)
    program.command()(function)
    program()
