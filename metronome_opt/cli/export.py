"""``metronome export``: the rotation problem as other solvers read it."""

from __future__ import annotations

from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.files.documents import check_targets
from metronome_opt.solvers.export import export_text


def export(
    file: options.Problem,
    format_: Annotated[str, typer.Option("--format", help="lp, mps, cpsat or cfn.")],
    output: options.TextOutput = None,
) -> int:
    """Write the problem of FILE for other solvers."""
    problem = options.read_problem(file)
    check_targets([file], [output])
    text = export_text(problem.instance, format_)
    options.print_or_write(text, output)
    return 0
