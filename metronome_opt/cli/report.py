"""``metronome report``: a schedule as an interactive page, one file that a browser opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.progress import live_line
from metronome_opt.errors import InputError
from metronome_opt.files.documents import check_targets, write_text

_SUFFIXES = (".html", ".htm")


def report(
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT", help="A schedule, or a folder of them as metronome pareto writes it."
        ),
    ],
    instance: Annotated[
        Path | None,
        typer.Argument(
            metavar="[INSTANCE]",
            help="The instance or scenario that it solves. Without it, it is searched by name: "
            "beside RESULT, in the working directory, among the shipped scenarios.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write the page here.")
    ] = Path("report.html"),
) -> int:
    """Write RESULT as an interactive page.

    Jobs can be rotated by hand on the page, one file that needs no network. Schedules are verified
    first; a false one is refused.
    """
    from metronome_opt.output.page.assemble import build_page
    from metronome_opt.output.page.sources import find_problem, read_points

    if output.suffix not in _SUFFIXES:
        raise InputError(f"{output}: a page is HTML; name a file that ends in .html")
    points = read_points(result)
    check_targets([point.path for point in points], [output])
    problem = find_problem(points, instance)
    with live_line(f"writing {output}", str):
        text = build_page(problem, points)
        write_text(output, text)
    options.wrote(output)
    return 0
