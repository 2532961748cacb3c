"""``python -m benchmarks.story --output DIR``: the loop of a cluster, with us and without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.program import run_program
from benchmarks.story.bed import bed
from benchmarks.story.outcome import draw, lateness, table
from benchmarks.story.servers import lacking
from benchmarks.story.story import story as tell
from benchmarks.testbed.network import missing
from metronome_opt.errors import InputError
from metronome_opt.files.documents import write_text
from metronome_opt.output.figures.picture import save_figure


def story(
    output: Annotated[Path, typer.Option(metavar="DIR", help="Records, table and picture.")],
    steered: Annotated[
        bool, typer.Option(help="The controller reads what gates count, and acts on it.")
    ] = True,
) -> None:
    """Tell the story without us and with us, eleven minutes in all."""
    if (reason := missing() or lacking()) is not None:
        raise InputError(reason)
    folders = {"without": output / "without", "with": output / "with"}
    steering = ["--prometheus", "{prometheus}"] if steered else []
    for heading, folder in folders.items():
        gated = heading == "with"
        with bed(folder, gated=gated, options=steering if gated else []) as cluster:
            tell(cluster)
    found = table(folders)
    typer.echo(found.round(0).astype("Int64").to_string())
    rise = found.div(found["alone"], axis=0).groupby("step", sort=False).mean() - 1
    typer.echo(rise.map("{:+.1%}".format).to_string())
    for heading, folder in folders.items():
        p95, most = lateness(folder)
        typer.echo(f"{heading}: ranks woke up {p95:.2f} ms late (95 of 100), at most {most:.1f}")
    write_text(output / "story.csv", found.to_csv(float_format="%.1f"))
    save_figure(draw(folders), output / "story.png")
    typer.echo(f"wrote {output}")


if __name__ == "__main__":
    run_program(story)
