"""``metronome import``: a scenario of what a cluster has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, quote


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE_OR_FOLDER...", help="Manifests, YAML or JSON."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the scenario here (YAML); the name becomes its own."
        ),
    ] = None,
    slot_ms: Annotated[int, typer.Option(min=1, help="Length of a slot.")] = 5,
    nic_gbps: Annotated[
        str | None,
        typer.Option(help="The interface of nodes that have no STBandwidthCapacity."),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Read nodes, links, workloads and claims of a cluster into a scenario.

    FILE is what kubectl get -o json prints, or manifests; docs/kubernetes.md lists what is read.
    """
    from metronome_opt.documents import check_targets, write_text
    from metronome_opt.kubernetes.files import read_manifests
    from metronome_opt.kubernetes.objects import Objects
    from metronome_opt.kubernetes.reading.machines import Choices
    from metronome_opt.kubernetes.reading.scenario import make_scenario

    if output is None and not as_json:
        raise InputError("--output: missing; name the file to write, or ask for --json")
    check_targets([path for path in files if path.is_file()], [output])
    choices = Choices(
        name="cluster" if output is None else output.stem,
        slot_ms=slot_ms,
        nic_mbps=_megabits("--nic-gbps", nic_gbps),
    )
    objects = Objects()
    objects.add(read_manifests(files))
    imported = make_scenario(objects, choices)
    for each in imported.notes:
        options.note(each)
    if output is not None:
        write_text(output, imported.text())
    if as_json:
        written = None if output is None else str(output)
        options.print_json(
            {"scenario": imported.document, "notes": imported.notes, "output": written}
        )
    else:
        typer.echo(imported.summary)
    options.wrote(output)
    return 0


def _megabits(option: str, text: str | None) -> int | None:
    """Return a bandwidth typed in Gbit/s in whole Mbit/s, rounded down; None if it is not given."""
    from metronome_opt.kubernetes.quantities import parse_positive
    from metronome_opt.scenario.workload import FASTEST

    if text is None:
        return None
    megabits = 1000 * parse_positive(option, text)
    if not 1 <= megabits <= FASTEST:
        raise InputError(
            f"{option}: must be from 0.001 to {FASTEST // 1000}, in Gbit/s, got {quote(text)}"
        )
    return int(megabits)
