"""``python -m paper`` writes ``generated/``, the values, tables and figures that the text uses."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.evaluation.figures import Figures
from metronome_opt.errors import InputError
from metronome_opt.files.documents import make_folder, write_text
from paper.pictures import PICTURES, draw
from paper.recorded import recorded_figures
from paper.tables import TABLES
from paper.text import HOME, named, read_text, uses
from paper.values import values_file

FOLDER = HOME / "generated"


def generated(figures: Figures, text: dict[str, str]) -> dict[str, str]:
    """Return the texts of ``generated/`` by their names.

    Raises
    ------
    InputError
        If the text uses a figure of unknown form, or a table or picture that there is not.
    """
    inputs = {Path(each) for each in named("input", text)}
    tables = sorted(each.stem for each in inputs if each.parent.name == "generated")
    tables.remove("values")
    unknown = {*tables} - {*TABLES} | pictures(text) - {*PICTURES}
    if unknown:
        raise InputError(f"paper: {', '.join(sorted(unknown))}: no such table or picture")
    return {
        "values.tex": values_file(uses(text), figures),
        **{f"{name}.tex": TABLES[name](figures) for name in tables},
    }


def pictures(text: dict[str, str]) -> set[str]:
    """Return the names of the pictures that the text shows."""
    return {Path(each).stem for each in named("includegraphics", text)}


def main() -> None:
    """Write ``generated/``, and name the figures that are not recorded yet."""
    figures, text = recorded_figures(), read_text()
    made = generated(figures, text)
    make_folder(FOLDER)
    for name, body in made.items():
        write_text(FOLDER / name, body)
    draw(pictures(text), figures, FOLDER / "figures")
    missing = sum(body.count("\\missing{") for body in made.values())
    print(f"{FOLDER}: {len(made)} files, {missing} figures that are not recorded")  # noqa: T201


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
