"""``metronome profile``: the traffic profile of a job from measured throughput."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError

if TYPE_CHECKING:
    from metronome_opt.cluster.profile import Profile
    from metronome_opt.scenario.traffic import Traffic


def profile(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The record of a gate (.jsonl), or a CSV file: seconds, Mbit/s.",
        ),
    ],
    counter: Annotated[
        bool, typer.Option("--counter", help="Values count the bytes that were sent.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Estimate the period and the bursts of a job.

    The exit status is 1 if nothing repeats, or if samples are too far apart; the reason is printed.
    """
    from metronome_opt.cluster.profile import profile_record, profile_throughput
    from metronome_opt.cluster.recorded import read_record
    from metronome_opt.cluster.throughput import read_csv

    if file.suffix != ".jsonl":
        result = profile_throughput(read_csv(file, counter=counter))
    elif counter:
        raise InputError(f"{file}: is a gate's record, which has no --counter")
    else:
        bursts = read_record(file)
        try:
            result = profile_record(bursts)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    if as_json:
        options.print_json(_document(result))
    elif result.traffic is None:
        typer.echo(result.reason)
    else:
        _print_tables(result, result.traffic)
    return 1 if result.traffic is None else 0


def _document(result: Profile) -> dict[str, Any]:
    """Return a profile as JSON; ``traffic`` is what a job file takes."""
    traffic = None
    if result.traffic is not None:
        phases = [
            {
                "start_ms": float(phase.start_ms),
                "length_ms": float(phase.length_ms),
                "rate_mbps": phase.rate,
            }
            for phase in result.traffic.phases
        ]
        traffic = {"period_ms": float(result.traffic.period_ms), "phases": phases}
    errors = ("period_error_ms", "burst_error_ms", "rate_error")
    return {
        "traffic": traffic,
        **{name: getattr(result, name) for name in errors},
        "cycles": result.cycles,
        "mean_mbps": result.mean_mbps,
        "reason": result.reason,
    }


def _print_tables(result: Profile, traffic: Traffic) -> None:
    from metronome_opt.report.tables import plain_table, terminal

    error_ms, rate_error = result.burst_error_ms or 0.0, result.rate_error or 0.0
    measured = {
        "period": f"{float(traffic.period_ms):,.2f} ± {result.period_error_ms:.2g} ms",
        "mean rate": f"{result.mean_mbps:,.0f} Mbit/s",
        "cycles": f"{result.cycles:,}",
    }
    bursts = [
        (
            str(number),
            f"{float(phase.start_ms):,.2f} ± {error_ms:.2g}",
            f"{float(phase.length_ms):,.2f} ± {error_ms:.2g}",
            f"{phase.rate:,} ± {rate_error:.0%}",
        )
        for number, phase in enumerate(traffic.phases, start=1)
    ]
    console = terminal()
    console.print(plain_table(("", "measured"), measured.items()))
    console.print(plain_table(("burst", "start (ms)", "length (ms)", "rate (Mbit/s)"), bursts))
