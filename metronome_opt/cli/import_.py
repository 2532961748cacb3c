"""``metronome import``: a scenario of what a cluster has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.reading import Objects


def import_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE_OR_FOLDER]...", help="Manifests, YAML or JSON."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the scenario here (YAML); the name becomes its own."
        ),
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Read from the API server as well.")
    ] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            help="Namespace of workloads and claims; again for several.",
            show_default="that of the context",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Workloads of all namespaces.")
    ] = False,
    slot_ms: Annotated[int, typer.Option(min=1, help="Length of a slot.")] = 5,
    nic_gbps: Annotated[
        str | None,
        typer.Option(help="The interface of nodes that have no STBandwidthCapacity."),
    ] = None,
    uplink_gbps: Annotated[
        str | None,
        typer.Option(
            help="The uplink of zones that do not state it.", show_default="no limit for a zone"
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Read nodes, links, workloads and claims of a cluster into a scenario.

    From manifests, from the API server, or from both; docs/kubernetes.md lists what is read.
    """
    from metronome_opt.documents import check_targets, write_text
    from metronome_opt.kubernetes.reading import Choices, Objects, make_scenario, read_manifests

    given = files or []
    if not given and not from_cluster:
        raise InputError("name files or folders of manifests, or read a cluster: --from-cluster")
    if not from_cluster and (kubeconfig or context or all_namespaces):
        raise InputError("--kubeconfig, --context and --all-namespaces are for --from-cluster")
    if all_namespaces and namespace:
        raise InputError("--namespace: all of them are asked for; leave one of the two out")
    if output is None and not as_json:
        raise InputError("--output: missing; name the file to write, or ask for --json")
    check_targets([path for path in given if path.is_file()], [output])
    choices = Choices(
        name="cluster" if output is None else output.stem,
        slot_ms=slot_ms,
        nic_mbps=_megabits("--nic-gbps", nic_gbps),
        uplink_mbps=_megabits("--uplink-gbps", uplink_gbps),
    )
    objects = Objects()
    # Manifests that name no namespace are in the one that is asked for.
    alone = namespace[0] if namespace and len(namespace) == 1 else None
    objects.add(read_manifests(given), namespace=alone)
    notes = []
    if from_cluster:
        notes = _read_live(objects, kubeconfig, context, namespace, all_namespaces)
    for each in notes:  # before anything else: what could not be read may be why it fails
        options.note(each)
    imported = make_scenario(objects, choices)
    for each in imported.notes:
        options.note(each)
    if output is not None:
        write_text(output, imported.text())
    if as_json:
        written = None if output is None else str(output)
        notes += imported.notes
        options.print_json({"scenario": imported.document, "notes": notes, "output": written})
    else:
        typer.echo(imported.summary)
    options.wrote(output)
    return 0


def _read_live(
    objects: Objects,
    kubeconfig: Path | None,
    context: str | None,
    namespaces: list[str] | None,
    everywhere: bool,
) -> list[str]:
    """Read the cluster; return a note for each kind that could not be read."""
    from metronome_opt.kubernetes.client import ALL_NAMESPACES, connect
    from metronome_opt.kubernetes.names import check_namespace
    from metronome_opt.kubernetes.reading.live import read_live

    for each in namespaces or ():
        check_namespace(each)
    places: Sequence[str | None] = [ALL_NAMESPACES] if everywhere else namespaces or [None]
    with connect(kubeconfig, context) as client:
        return read_live(objects, client, places)


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
