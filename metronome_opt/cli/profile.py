"""``metronome profile``: the traffic profile of a job from measurements."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import naming


def profile(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The record of a gate (.jsonl), or a CSV file: seconds, Mbit/s.",
        ),
    ],
    as_json: options.Json = False,
) -> int:
    """Estimate the period and the bursts of a job.

    The exit status is 1 if nothing repeats, or if samples are too far apart; the reason is printed.
    """
    from metronome_opt.cluster.profile import profile_record, profile_samples
    from metronome_opt.cluster.recorded import read_record, read_samples

    if file.suffix != ".jsonl":
        result = profile_samples(*read_samples(file))
    else:
        bursts = read_record(file)
        with naming(file):
            result = profile_record(bursts)
    if as_json:
        options.print_json(asdict(result))
    elif result.traffic is None:
        typer.echo(result.reason)
    else:
        error_ms = f"± {result.burst_error_ms:.2g} ms"
        typer.echo(
            f"period {result.traffic['period_ms']:,.2f} ± {result.period_error_ms:.2g} ms, "
            f"{result.cycles:,} cycles"
        )
        if result.jitter is not None:
            typer.echo(f"jitter {100 * result.jitter:.2g} % of computing times")
        for phase in result.traffic["phases"]:
            typer.echo(
                f"burst from {phase['start_ms']:,.2f} {error_ms} for {phase['length_ms']:,.2f} "
                f"{error_ms} at {phase['rate_mbps']:,} ± {result.rate_error:.0%} Mbit/s"
            )
    return 1 if result.traffic is None else 0
