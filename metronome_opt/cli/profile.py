"""``metronome profile``: the traffic profile of a job from measured throughput."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.progress import live_line
from metronome_opt.documents import check_targets
from metronome_opt.errors import InputError

if TYPE_CHECKING:
    from metronome_opt.instance import Phase
    from metronome_opt.profiles import Profile


def profile(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV: times in the first column, then throughput. Or .jsonl: a gate's record.",
        ),
    ],
    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Heading of the throughput.", show_default="the only one"
        ),
    ] = None,
    counter: Annotated[
        bool, typer.Option("--counter", help="Values count what was sent; they may begin anew.")
    ] = False,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            help="bit, byte, kbit, Mbit or Gbit; per second if it is no counter.",
            show_default="Mbit, or byte for a counter",
        ),
    ] = None,
    slot_ms: Annotated[
        int | None,
        typer.Option(min=1, metavar="MS", help="State the bursts in slots of this length, too."),
    ] = None,
    as_json: options.Json = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw samples and bursts: SVG, PNG or PDF.")
    ] = None,
) -> int:
    """Find the period of a job and its bursts in the throughput of FILE.

    The exit status is 1 if nothing repeats, or if samples are too far apart to tell; the reason is
    printed.
    """
    from metronome_opt.profiles import profile as measure
    from metronome_opt.profiles import read_csv, read_gate

    if plot is not None:
        from metronome_opt.plot import check_suffix

        check_suffix(plot)
    check_targets([file], [plot])
    if file.suffix != ".jsonl":
        samples = read_csv(file, column=column, counter=counter, unit=unit)
    elif counter or column is not None or unit is not None:
        raise InputError(
            f"{file}: is a gate's record, which --column, --counter, --unit do not suit"
        )
    else:
        samples = read_gate(file)
    found = measure(samples)
    phases = found.phases(slot_ms) if slot_ms and found.period_ms is not None else None
    if plot is not None:
        from metronome_opt.plot import plot_profile, save_figure

        with live_line(f"drawing {plot}", str):
            save_figure(plot_profile(samples, found), plot)
    if as_json:
        _print_json(found, slot_ms, phases)
    else:
        _print_tables(found, slot_ms, phases)
    options.wrote(plot)
    return 1 if found.period_ms is None else 0


def _print_json(found: Profile, slot_ms: int | None, phases: tuple[Phase, ...] | None) -> None:
    document = asdict(found)
    if phases is not None:
        document["slot_ms"] = slot_ms
        document["phases"] = [phase.model_dump() for phase in phases]
    options.print_json(document)


def _print_tables(found: Profile, slot_ms: int | None, phases: tuple[Phase, ...] | None) -> None:
    from metronome_opt.report.tables import plain_table, terminal

    if found.reason is not None:
        typer.echo(found.reason)
        return
    measured = {
        "period": f"{found.period_ms:,.2f} ± {found.period_error_ms:.2g} ms",
        "duty": f"{found.duty:.1%}",
        "jitter": f"{found.jitter:.1%} of the period",
        "mean rate": f"{found.mean_mbps:,.0f} Mbit/s",
        "confidence": f"{found.confidence:.2f}",
        "missing samples": f"{found.missing:.1%}",
    }
    bursts = [
        (
            str(number),
            f"{burst.start_ms:,.2f} ± {burst.start_error_ms:.2g}",
            f"{burst.length_ms:,.2f} ± {burst.length_error_ms:.2g}",
            f"{burst.rate_mbps:,.0f} ± {burst.rate_error_mbps:,.0f}",
        )
        for number, burst in enumerate(found.bursts, start=1)
    ]
    console = terminal()
    console.print(plain_table(("", "measured"), measured.items()))
    console.print(plain_table(("burst", "start (ms)", "length (ms)", "rate (Mbit/s)"), bursts))
    if phases is not None:
        rows = [
            (str(number), str(phase.start), str(phase.length), f"{phase.rate:,}")
            for number, phase in enumerate(phases, start=1)
        ]
        headings = (f"slots of {slot_ms} ms", "start", "length", "rate (Mbit/s)")
        console.print(plain_table(headings, rows))
