"""The command `import`: what a cluster has becomes a scenario."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import note, read_pairs
from metronome_opt.errors import InputError, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.reading import Objects

_LARGEST_WEIGHT = 10**9
_LEAST_GBPS = Fraction(1, 1000)


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
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Instead of KUBECONFIG and ~/.kube/config.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Of the kubeconfig.")] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(help="Where workloads and claims are; again for several."),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Workloads of all namespaces.")
    ] = False,
    selector: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE,...", help="Only workloads with these labels."),
    ] = None,
    slot_ms: Annotated[int, typer.Option(min=1, help="Length of a slot.")] = 5,
    hyperperiod_ms: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Lengthen periods to divisors of this.",
            show_default="what the periods come to",
        ),
    ] = None,
    nic_gbps: Annotated[
        str | None,
        typer.Option(help="The interface of nodes that have no STBandwidthCapacity."),
    ] = None,
    uplink_gbps: Annotated[
        str | None,
        typer.Option(
            help="The uplink of zones that nobody states.", show_default="nothing limits a zone"
        ),
    ] = None,
    oversubscription: Annotated[
        str | None,
        typer.Option(
            metavar="RATIO",
            help="Instead: what nodes of a zone send over what it carries, 2:1.",
        ),
    ] = None,
    gpu_tflops: Annotated[
        str | None, typer.Option(help="What a GPU sustains in training; for jobs by model.")
    ] = None,
    gpu_resource: Annotated[
        list[str] | None,
        typer.Option(help="What GPUs are called; again for several.", show_default="the usual"),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS=WEIGHT,...",
            help="Weights of priority classes: high=4,low=1.",
            show_default="by rank: 1, 2, 4, ...",
        ),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Of jobs that do not say; for simulations.")
    ] = None,
    group: options.Group = options.GROUP,
    as_json: options.Json = False,
) -> int:
    """Read nodes, links, workloads and claims of a cluster into one scenario.

    From manifests, from the API server, or from both; docs/kubernetes.md says what is read.
    """
    from metronome_opt.documents import check_targets, write_text
    from metronome_opt.kubernetes.reading import Choices, Objects, make_scenario, read_manifests

    given = files or []
    if not given and not from_cluster:
        raise InputError("name files or folders of manifests, or read a cluster: --from-cluster")
    live = {"--kubeconfig": kubeconfig, "--context": context, "--selector": selector}
    for option, value in {**live, "--all-namespaces": all_namespaces}.items():
        if value and not from_cluster:
            raise InputError(f"{option}: is for --from-cluster")
    if all_namespaces and namespace:
        raise InputError("--namespace: all of them are asked for; leave one of the two out")
    if output is None and not as_json:
        raise InputError("--output: missing; name the file to write, or ask for --json")
    check_targets([path for path in given if path.is_file()], [output])
    choices = Choices(
        name="cluster" if output is None else output.stem,
        slot_ms=slot_ms,
        hyperperiod_ms=hyperperiod_ms,
        nic_mbps=_megabits("--nic-gbps", nic_gbps),
        uplink_mbps=_megabits("--uplink-gbps", uplink_gbps),
        oversubscription=_ratio(oversubscription, uplink_gbps),
        gpu_tflops=_positive("--gpu-tflops", gpu_tflops),
        gpu_resources=gpu_resource or Choices.gpu_resources,
        weights=_weights(weights),
        iterations=iterations,
    )
    labels = read_pairs("--selector", selector)
    objects = Objects(group)
    # Manifests that name no namespace are in the one that is asked for.
    alone = namespace[0] if namespace and len(namespace) == 1 else None
    objects.add(read_manifests(given), namespace=alone)
    notes = []
    if from_cluster:
        where = None if all_namespaces else namespace or []
        notes = _read_live(objects, kubeconfig, context, where, labels)
    try:
        imported = make_scenario(objects, choices)
    except InputError:
        _tell(notes)  # what could not be read may be why
        raise
    notes += imported.notes
    _tell(notes)
    if output is not None:
        write_text(output, imported.text())
    if as_json:
        written = None if output is None else str(output)
        options.print_json({"scenario": imported.document, "notes": notes, "output": written})
    else:
        instance, nodes = imported.problem.instance, imported.problem.deployment.nodes
        running = sum("nodes" in job for job in imported.document["jobs"])
        typer.echo(
            f"{len(nodes)} nodes, {len(instance.links)} links, {len(instance.jobs)} jobs, "
            f"{running} of them running"
        )
    options.wrote(output)
    return 0


def _read_live(
    objects: Objects,
    kubeconfig: Path | None,
    context: str | None,
    namespaces: list[str] | None,
    labels: dict[str, str],
) -> list[str]:
    """Read the cluster: the given namespaces, that of the context if none is, all if None."""
    from metronome_opt.kubernetes.client import connect
    from metronome_opt.kubernetes.names import check_namespace
    from metronome_opt.kubernetes.reading.live import read_live

    for namespace in namespaces or ():
        check_namespace(namespace)
    with connect(kubeconfig, context) as client:
        if namespaces is not None and not namespaces:
            namespaces = [client.namespace]
        return read_live(objects, client, namespaces, labels)


def _weights(text: str | None) -> dict[str, int]:
    weights = {}
    for name, weight in read_pairs("--weights", text).items():
        if not (weight.isascii() and weight.isdigit() and int(weight[:20]) <= _LARGEST_WEIGHT):
            raise InputError(
                f"--weights: {name}: must be a whole number up to {_LARGEST_WEIGHT}, got "
                f"{quote(weight)}"
            )
        weights[name] = int(weight)
    return weights


def _positive(option: str, text: str | None) -> Fraction | None:
    """Return a number as it is typed, exactly; None if it is not given."""
    from metronome_opt.kubernetes.quantities import parse_positive

    return None if text is None else parse_positive(option, text)


def _megabits(option: str, text: str | None) -> int | None:
    """Return a bandwidth typed in Gbit/s in whole Mbit/s, rounded down; None if it is not given."""
    from metronome_opt.scenario.workload import FASTEST

    number = _positive(option, text)
    if number is None:
        return None
    if number < _LEAST_GBPS:
        raise InputError(f"{option}: must be at least {float(_LEAST_GBPS):g}, got {quote(text)}")
    if 1000 * number > FASTEST:
        raise InputError(
            f"{option}: must be at most {FASTEST // 1000}, in Gbit/s, got {quote(text)}"
        )
    return int(1000 * number)


def _ratio(text: str | None, uplink_gbps: str | None) -> Fraction | None:
    """Return an oversubscription such as ``2:1`` or ``2``; None if it is not given."""
    option = "--oversubscription"
    if text is None:
        return None
    if uplink_gbps is not None:
        raise InputError(f"{option}: --uplink-gbps says it already; leave one of the two out")
    whole, _, part = text.partition(":")
    ratio = Fraction(_positive(option, whole) or 1) / (_positive(option, part or "1") or 1)
    if ratio < 1:
        raise InputError(f"{option}: must be at least 1, write 2:1 for half the rate")
    return ratio


def _tell(notes: list[str]) -> None:
    for each in notes:
        note(each)
