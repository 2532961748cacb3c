"""``python -m benchmarks.story --output DIR``: the loop of a cluster, with us and without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.story.outcome import draw, lateness, table
from benchmarks.story.servers import lacking
from benchmarks.story.steps import STORY, tell
from benchmarks.testbed.network import missing
from metronome_opt.documents import write_text
from metronome_opt.errors import MetronomeError
from metronome_opt.plot.picture import save_figure


def story(
    output: Annotated[Path, typer.Option(metavar="DIR", help="Records, table and picture.")],
    steered: Annotated[
        bool, typer.Option(help="The controller reads what gates count, and acts on it.")
    ] = True,
) -> int:
    """Tell the story without us and with us, nine minutes in all."""
    try:
        if (reason := missing() or lacking()) is not None:
            typer.echo(reason, err=True)
            return 2
        options = ["--prometheus", "{prometheus}"] if steered else []
        folders = {"without": output / "without", "with": output / "with"}
        for heading, folder in folders.items():
            for_us = heading == "with"
            typer.echo(f"{heading}, {sum(step.seconds for step in STORY)} s", err=True)
            tell(
                folder,
                gated=for_us,
                options=options if for_us else [],
                say=lambda name: typer.echo(f"  {name}", err=True),
            )
        found = table(folders)
        typer.echo(found.round(0).astype("Int64").to_string())
        for heading, folder in folders.items():
            p95, longest = lateness(folder)
            typer.echo(f"{heading}: ranks woke up {p95:.2f} ms late (95 of 100), at most {longest:.1f}")
        write_text(output / "story.csv", found.to_csv(float_format="%.1f"))
        save_figure(draw(folders), output / "story.svg")
        typer.echo(f"wrote {output}")
    except MetronomeError as error:
        typer.echo(str(error), err=True)
        return error.exit_status
    return 0


if __name__ == "__main__":
    raise SystemExit(typer.run(story))
