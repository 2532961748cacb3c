"""Figures, and the blocks of documents that are made of them.

A block stands between ``<!-- evaluation: NAME -->`` and ``<!-- end -->``; a test compares it with
what the figures make.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.evaluation.blocks import BLOCKS
from benchmarks.evaluation.figures import Figure, Figures, part_figures
from benchmarks.evaluation.picture import MAP, draw_map
from benchmarks.evaluation.plan import HOME, Part, Race, read_plan
from benchmarks.evaluation.published import published_figures
from benchmarks.evaluation.recorded import RECORDS, read_index, read_part
from benchmarks.evaluation.solvers import race_figures
from benchmarks.testbed.recorded import testbed_figures
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.errors import InputError
from metronome_opt.files.documents import make_folder, read_document, write_text

FIGURES = "figures.json"
FIGURES_FORMAT = "metronome-figures/1"
DOCUMENTS = (
    *("README.md", "benchmarks/README.md"),
    *("docs/limits.md", "docs/comparison.md", "docs/solvers.md"),
)
_DIGITS = 6
_BLOCK = re.compile(r"(<!-- evaluation: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write_figures(folder: Path) -> list[Path]:
    """Write the figures of all recorded parts, and the documents if these are the records."""
    figures: Figures = {}
    for name, part in read_plan().items():
        if name in read_index(folder).parts:
            figures |= figures_of(name, part, folder)
    lines = (f"  {json.dumps(key)}: {json.dumps(_rounded(figures[key]))}" for key in figures)
    body = ",\n".join(lines)
    text = f'{{\n"format": "{FIGURES_FORMAT}",\n"figures": {{\n{body}\n}}\n}}\n'
    make_folder(folder)
    write_text(folder / FIGURES, text)
    written = [folder / FIGURES]
    picture = (folder.parent if folder == RECORDS else folder) / MAP
    if draw_map(figures, picture):
        written.append(picture)
    if folder != RECORDS:
        blocks = {name: block(figures | testbed_figures()) for name, block in BLOCKS.items()}
        text = "\n".join(f"## {name}\n\n{block}\n" for name, block in blocks.items())
        write_text(folder / "README.md", text)
        return [*written, folder / "README.md"]
    for path, _, made in documents(read_figures(folder)):
        write_text(path, made)
        written.append(path)
    return written


def figures_of(name: str, part: Part | Race, folder: Path = RECORDS) -> Figures:
    """Return the figures of a part, from its records."""
    if isinstance(part, Race):
        return race_figures(name, read_part(name, SolverRecord, folder))
    records = read_part(name, SimulationRecord, folder)
    return part_figures(name, part, records) | published_figures(name, records)


def read_figures(folder: Path = RECORDS) -> Figures:
    """Return the figures as they are kept."""
    found: Mapping[str, list[float | None]] = read_document(folder / FIGURES)["figures"]
    return {key: Figure(*values) for key, values in found.items()}  # type: ignore[arg-type]


def documents(figures: Figures, home: Path = HOME) -> Iterator[tuple[Path, str, str]]:
    """Yield the documents as they are, and with their blocks made anew.

    Raises
    ------
    InputError
        If a block is not known.
    """
    figures = figures | testbed_figures()

    def made(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise InputError(f"{match[2]}: is no block; choose from {', '.join(BLOCKS)}")
        return f"{match[1]}{BLOCKS[match[2]](figures)}\n{match[3]}"

    for name in DOCUMENTS:
        text = (home / name).read_text(encoding="utf-8")
        yield home / name, text, _BLOCK.sub(made, text)


def _rounded(figure: Figure) -> list[float | None]:
    return [None if each is None else float(f"{each:.{_DIGITS}g}") for each in figure]
