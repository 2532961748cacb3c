"""``metronome import``: a scenario of what a cluster has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, error_context, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.reading.machines import ImportOptions
    from metronome_opt.kubernetes.reading.scenario import ImportedCluster

_BUNDLE = 10_000  # links that an uplink may be


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE_OR_FOLDER...",
            help="Manifests, YAML or JSON; or a fabric: Slurm's topology.conf, or a table.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File of the scenario, or of a cluster without jobs."),
    ] = None,
    slot_ms: Annotated[int, typer.Option(min=1, help="Length of a slot.")] = 5,
    nic_gbps: Annotated[
        str | None, typer.Option(help="The interface of nodes that have no STBandwidthCapacity.")
    ] = None,
    tier_gbps: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GBPS,...",
            help="The uplinks of switches of each tier, from the lowest up, that state none.",
            show_default="they limit nothing",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="GPUs of nodes, if none states any; 8 in a fabric."),
    ] = None,
    gpu_resource: options.GpuResources = None,
    link_gbps: Annotated[
        str | None, typer.Option(help="What a GPU sends to others of its node, if not as known.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Read nodes, links, workloads and claims of a cluster into a scenario.

    FILE is what kubectl get -o json prints, or manifests; docs/kubernetes.md lists what is read.
    """
    from metronome_opt.files.documents import check_targets, write_text
    from metronome_opt.kubernetes.reading.machines import ImportOptions

    if output is None and not as_json:
        raise InputError("--output: missing; name the file to write, or ask for --json")
    check_targets([path for path in files if path.is_file()], [output])
    tiers = ",".join(tier_gbps).split(",") if tier_gbps else []
    choices = ImportOptions(
        name="cluster" if output is None else output.stem,
        slot_ms=slot_ms,
        nic_mbps=None if nic_gbps is None else _megabits("--nic-gbps", nic_gbps),
        tier_mbps=tuple(_megabits("--tier-gbps", tier, _BUNDLE) for tier in tiers),
        gpus=gpus,
        link_mbps=None if link_gbps is None else _megabits("--link-gbps", link_gbps),
    )
    imported = _read(files, choices, gpu_resource or ())
    for note in imported.notes:
        options.note(note)
    if output is not None:
        write_text(output, imported.text(output.suffix))
    if as_json:
        written = None if output is None else str(output)
        what = "scenario" if "jobs" in imported.document else "cluster"
        options.print_json({what: imported.document, "notes": imported.notes, "output": written})
    else:
        typer.echo(imported.summary)
    options.wrote(output)
    return 0


def _read(
    files: Sequence[Path], choices: ImportOptions, gpu_resources: Sequence[str]
) -> ImportedCluster:
    from metronome_opt.kubernetes.claims.files import read_manifests
    from metronome_opt.kubernetes.reading.fabrics import read_fabric
    from metronome_opt.kubernetes.reading.objects import Objects
    from metronome_opt.kubernetes.reading.scenario import make_cluster, make_fabric, make_scenario

    for path in files:
        fabric = read_fabric(path)
        if fabric is not None:
            if len(files) > 1:
                raise InputError(f"{path}: a fabric beside other files; read only the fabric")
            with error_context(path):
                return make_fabric(fabric, choices)
    objects = Objects(gpu_resources)
    objects.add(read_manifests(files))
    return (make_scenario if objects.are_of_jobs else make_cluster)(objects, choices)


def _megabits(option: str, text: str, links: int = 1) -> int:
    """Return a bandwidth that is typed in Gbit/s in whole Mbit/s, rounded down."""
    from metronome_opt.kubernetes.claims.quantities import parse_positive
    from metronome_opt.scenario.workload import FASTEST

    megabits = 1000 * parse_positive(option, text)
    fastest = links * FASTEST
    if not 1 <= megabits <= fastest:
        must = f"must be from 0.001 to {fastest // 1000}, in Gbit/s"
        raise InputError(f"{option}: {must}, got {quote(text)}")
    return int(megabits)
