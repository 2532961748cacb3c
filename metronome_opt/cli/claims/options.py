"""Options of the commands that talk to a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.errors import InputError

Folders = Annotated[
    list[Path],
    typer.Argument(metavar="DIR", help="Folders that an export wrote, or files of one."),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The kubeconfig.", show_default="KUBECONFIG, ~/.kube/config"),
]
Context = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Its context.", show_default="the current one"),
]
InNamespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Refuse manifests of other namespaces.",
        show_default="any",
    ),
]
LookIn = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="Where to look; with DIR, refuse manifests of other namespaces.",
        show_default="that of the manifests, else of the context",
    ),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")]
Timeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="For one question to the server, repetitions included."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Take fields that others manage away from them.")
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete our objects of jobs that are not in DIR, too.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Have the server try everything, and change nothing.")
]

TIMEOUT = 30.0


def check_places(directory: list[Path] | None, namespace: str | None, everywhere: bool) -> None:
    """Refuse to look everywhere and in certain namespaces at once.

    Raises
    ------
    InputError
        If a folder, whose manifests name their namespaces, or one namespace is given beside.
    """
    if everywhere and (directory or namespace is not None):
        beside = "DIR names its namespaces" if directory else "--namespace names one"
        raise InputError(f"--all-namespaces: {beside}; leave one of the two out")
