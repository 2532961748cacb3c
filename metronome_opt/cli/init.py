"""``metronome init``: write a first scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli.options import wrote
from metronome_opt.errors import InputError
from metronome_opt.files.documents import write_text
from metronome_opt.scenario.workload import data_folder

_SUFFIXES = (".yaml", ".yml")
_NAME, _SCHEMA = "two-racks", "$schema=../schemas"  # of the example that is shipped


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path(
        "scenario.yaml"
    ),
) -> int:
    """Write a small, complete scenario to FILE, to be changed.

    Its first line names the schema by which editors check it.
    """
    if file.suffix not in _SUFFIXES:
        raise InputError(f"{file}: the example is YAML; name a file that ends in .yaml")
    if file.exists():
        raise InputError(f"{file}: is there already; name another file")
    example = data_folder() / "scenarios" / f"{_NAME}.yaml"
    text = example.read_text(encoding="utf-8")
    text = text.replace(_SCHEMA, f"$schema={(data_folder() / 'schemas').as_uri()}", 1)
    write_text(file, text.replace(f"name: {_NAME}", f"name: {file.stem}", 1))
    wrote(file)
    typer.echo(f"go on with: metronome validate {file}")
    return 0
