"""Writing ``generated/``: the macros, tables and figures that the text uses, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from metronome_opt.documents import make_folder, write_text
from metronome_opt.errors import InputError
from metronome_opt.plot.picture import save_figure
from paper.catalogue import FIGURES, TABLES, Recorded
from paper.figures import letters
from paper.prose import (
    HOME,
    Source,
    commands,
    figures_in,
    read_sources,
    tables_in,
    unknown_macros,
)
from paper.shown import Numbers

FOLDER = "generated"
MACROS = "macros.tex"
_HEAD = """\
% Made of paper/results by `python -m paper generate`; a test holds it to that. Do not edit.
\\newcommand{\\missing}[1]{\\textbf{??}\\PackageError{paper}{nothing is recorded of #1}%
  {Run what makes it, see `make paper-results`, or take it out of the text.}}
"""


@dataclass(frozen=True)
class Generated:
    """Generated files that the text uses.

    Attributes
    ----------
    texts
        Of the macros and the tables, by their files below ``generated/``.
    figures
        Names of the figures that are used and recorded.
    missing
        What the text uses and nothing is recorded of.
    """

    texts: Mapping[str, str]
    figures: tuple[str, ...]
    missing: tuple[str, ...]


def generate(sources: Sequence[Source], recorded: Recorded) -> Generated:
    """Return what is to stand in ``generated/`` for a text.

    Raises
    ------
    InputError
        If the text uses a macro, a table or a figure that there is not.
    """
    numbers = recorded.numbers
    macros = commands(sources) & set(numbers)
    wanted, drawn = tables_in(sources), figures_in(sources)
    unknown = [
        *(f"\\{name}" for name in unknown_macros(sources, numbers)),
        *(f"table {name}" for name in sorted(wanted - set(TABLES))),
        *(f"figure {name}" for name in sorted(drawn - set(FIGURES))),
    ]
    if unknown:
        raise InputError(
            f"the text uses {', '.join(unknown)}, which there is not; "
            "`python -m paper list` prints what there is"
        )
    tables = {name: TABLES[name](recorded) for name in sorted(wanted)}
    pictures = [name for name in sorted(drawn) if FIGURES[name](recorded) is not None]
    texts = {f"tables/{name}.tex": text or _no_table(name) for name, text in tables.items()}
    return Generated(
        {MACROS: macros_text({name: numbers[name] for name in sorted(macros)}), **texts},
        tuple(pictures),
        (
            *(f"\\{name}" for name in sorted(macros) if numbers[name] is None),
            *(f"table {name}" for name, text in tables.items() if text is None),
            *(f"figure {name}" for name in sorted(drawn - set(pictures))),
        ),
    )


def macros_text(numbers: Numbers) -> str:
    """Return the file of macros; one that nothing is recorded of is an error of TeX."""
    lines = (
        f"\\newcommand{{\\{name}}}{{{_missing(name) if text is None else text}}}\n"
        for name, text in numbers.items()
    )
    return _HEAD + "".join(lines)


def write_generated(found: Generated, recorded: Recorded, folder: Path) -> None:
    """Write texts and figures below a folder, and remove those that are no longer used."""
    expected = {*found.texts, *(f"figures/{name}.pdf" for name in found.figures)}
    for each in ("tables", "figures"):
        make_folder(folder / each)
        for path in (folder / each).iterdir():
            if f"{each}/{path.name}" not in expected:
                path.unlink()
    for name, text in found.texts.items():
        write_text(folder / name, text)
    draw(found.figures, recorded, folder / "figures")


def draw(names: Sequence[str], recorded: Recorded, folder: Path) -> None:
    """Draw figures into a folder, in the letters of the paper."""
    make_folder(folder)
    with letters():
        for name in names:
            figure = FIGURES[name](recorded)
            if figure is not None:
                save_figure(figure, folder / f"{name}.pdf")


def differences(found: Generated, folder: Path) -> Iterator[str]:
    """Yield the texts of a folder that are not what would be generated, a line each."""
    present = {
        str(path.relative_to(folder)) for path in (*folder.glob("*.tex"), *folder.glob("tables/*"))
    }
    for name in sorted(present - set(found.texts)):
        yield f"{name}: is not used"
    for name, text in found.texts.items():
        if name not in present:
            yield f"{name}: is missing"
        elif (folder / name).read_bytes() != text.encode():
            yield f"{name}: is not what the recorded results make"


def generate_home(home: Path = HOME) -> tuple[Generated, Recorded]:
    """Return what is to stand in ``generated/`` of the paper, and what it is made of."""
    recorded = Recorded(home / "results")
    return generate(read_sources(home), recorded), recorded


def _missing(name: str) -> str:
    return f"\\missing{{{name}}}"


def _no_table(name: str) -> str:
    return f"{_missing(f'table {name}')}\n"
