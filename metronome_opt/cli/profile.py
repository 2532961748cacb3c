"""``metronome profile``: the traffic profile of a job from measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options

if TYPE_CHECKING:
    from metronome_opt.kubernetes.profiles.profile import Profile


def profile(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The record of a gate (.jsonl); a CSV file: seconds, Mbit/s; or a trace of "
            "Kineto, XLA, Chakra, a flight recorder, NCCL's or RCCL's Inspector, of all ranks if "
            "it is a tar file. -: standard input.",
        ),
    ],
    rate_mbps: Annotated[
        float | None,
        typer.Option(
            help="Mbit/s at which a worker sends its bursts, for a trace that tells no bytes.",
            min=1,
            max=1e9,
        ),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Regular expression for names of kernels of collectives, of other libraries than "
            "NCCL, RCCL and MSCCL, such as 'oneccl_|hcom_'.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Estimate the period and the bursts of a job.

    The exit status is 1 if nothing repeats, or if samples are too far apart; a line says why.
    """
    from metronome_opt.kubernetes.profiles.measure import profile_file

    result = profile_file(file, rate_mbps, kernels)
    if as_json:
        options.print_json(asdict(result))
    else:
        typer.echo("\n".join(_described(result)))
    for note in result.notes:
        options.note(note)
    return 1 if result.traffic is None else 0


def _described(result: Profile) -> Iterator[str]:
    """Yield the lines of a profile."""
    if result.traffic is None:
        yield str(result.reason)
    else:
        error_ms = _error(result.burst_error_ms)
        shortest, longest = result.cycle_ms or (0.0, 0.0)
        few = ": too few cycles for errors" if result.period_error_ms is None else ""
        yield (
            f"period {result.traffic['period_ms']:,.2f}{_error(result.period_error_ms)} ms, "
            f"{result.cycles:,} cycles of {shortest:,.1f} to {longest:,.1f} ms{few}"
        )
        if result.jitter is not None:
            yield f"jitter {100 * result.jitter:.2g} % of computing times"
        for phase in result.traffic["phases"]:
            rate = "an unknown rate: the trace tells no bytes, so give --rate-mbps"
            if phase["rate_mbps"] is not None:
                error = "" if result.rate_error is None else f" ± {result.rate_error:.0%}"
                rate = f"{phase['rate_mbps']:,}{error} Mbit/s"
            what = ""
            if "collective" in phase:
                what = f", {phase['collective']} of {phase['bytes'] / 1e6:,.1f} MB"
            yield (
                f"burst from {phase['start_ms']:,.2f}{error_ms} ms for {phase['length_ms']:,.2f}"
                f"{error_ms} ms at {rate}{what}"
            )
    if result.message_bytes is not None:
        yield f"collectives of {result.message_bytes / 1e6:,.1f} MB a period"
    if result.skew_ms is not None:
        yield f"skew of ranks {result.skew_ms:,.2f} ms at most, as they enter a collective"


def _error(error_ms: float | None) -> str:
    return "" if error_ms is None else f" ± {error_ms:.2g}"
