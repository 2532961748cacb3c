"""``metronome inject``: prepare workloads for the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError
from metronome_opt.files.documents import check_targets


def inject(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Manifests, or folders of them.")
    ],
    output: options.TextOutput = None,
    gpu_resource: options.GpuResources = None,
) -> int:
    """Prepare the workloads of FILE for the controller.

    Pods with GPUs get the scheduling gate of the controller, and their containers get variables and
    a file of windows, which a gate of a training loop reads. A workload must state the traffic of a
    task: annotation traffic, or model and batch.
    """
    from metronome_opt.kubernetes.claims.files import dump_objects, read_manifests
    from metronome_opt.kubernetes.controller.inject import inject as inject_into

    check_targets(files, [output])
    manifests, changed = inject_into(read_manifests(files), gpu_resource or ())
    if not changed:
        raise InputError(f"{files[0]}: holds no workload with GPUs; name one")
    options.print_or_write(dump_objects(manifests), output)
    typer.echo("\n".join(f"injected {title}" for title in changed), err=True)
    return 0
