"""Names that the package exports and options of the command line, against what is stored.

They are contracts. A wanted change is stored by ``python -m tests.cli.test_interface``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import metronome_opt
from metronome_opt.cli.app import app

STORED = Path(__file__).with_name("interface.txt")


def interface() -> Iterator[str]:
    """Yield a line for each command, for each exported function and for all exported names."""
    yield from commands(typer.main.get_command(app), "metronome")
    yield f"names: {' '.join(sorted(metronome_opt.__all__))}"
    for name in sorted(metronome_opt.__all__):
        thing = getattr(metronome_opt, name)
        if inspect.isfunction(thing):
            yield f"{name}({', '.join(inspect.signature(thing).parameters)})"


def commands(command: Any, path: str) -> Iterator[str]:
    """Yield the options and the arguments of a command and of those below it."""
    taken = [
        "/".join((*each.opts, *each.secondary_opts))
        if each.param_type_name == "option"
        # Required arguments stand bare.
        else str(each.name)
        if each.required
        else f"[{each.name}]"
        for each in command.params
    ]
    yield f"{path}: {' '.join(sorted(taken))}"
    for name in sorted(getattr(command, "commands", {})):
        yield from commands(command.get_command(None, name), f"{path} {name}")


def test_names_and_options_are_those_stored() -> None:
    assert list(interface()) == STORED.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    STORED.write_text("".join(f"{line}\n" for line in interface()), encoding="utf-8")
