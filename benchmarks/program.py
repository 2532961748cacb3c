"""Programs of the benchmarks: an error is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from metronome_opt.cli.app import App
from metronome_opt.errors import MetronomeError


def make_app() -> App:
    """Return a program of several commands."""
    return App(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def run_app(app: App) -> None:
    """Run a program, and end with the status of its error."""
    try:
        app()
    except MetronomeError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(error.exit_status) from None


def run_program(function: Callable[..., Any]) -> None:
    """Run a function as the only command of a program; its parameters are the options."""
    app = App(add_completion=False, pretty_exceptions_enable=False)
    app.command()(function)
    run_app(app)
