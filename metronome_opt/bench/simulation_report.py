"""The report of a study that was simulated: tables, figures, marks, for all of it and each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from metronome_opt.bench.evaluation.estimates import Estimates, estimates_csv
from metronome_opt.bench.evaluation.figures import cell_drawings, grid_drawings, job_drawings
from metronome_opt.bench.evaluation.marks import SUBJECT, Verdict, verdicts, verdicts_csv
from metronome_opt.bench.evaluation.prose import (
    DEFINITIONS,
    cautions,
    failures,
    header,
    threats,
    where_it_fails,
)
from metronome_opt.bench.evaluation.runs import parts_of
from metronome_opt.bench.evaluation.tables import (
    comparison_tables,
    group_tables,
    marks_table,
    measures_tables,
    outcomes_table,
)
from metronome_opt.bench.items import Drawing, Item, item_markdown
from metronome_opt.bench.simulations import SimulationRecord, latest
from metronome_opt.bench.tables import Table, markdown_text
from metronome_opt.documents import make_folder, write_text
from metronome_opt.plot.save import save_figure


def write_simulation_report(
    records: Sequence[SimulationRecord],
    folder: str | Path,
    *,
    link: Item | None = None,
) -> Path:
    """Write ``report.md``, ``estimates.csv``, ``marks.csv`` and ``figures/*.svg``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one study, under one set of conditions, in the order that the cells are to have. Of a
        run that is there several times, the last counts.
    folder
        Made if it does not exist.
    link
        A link as it happened, or the words that there is none to show.

    Returns
    -------
    Path
        That of ``report.md``, which is written last.

    Raises
    ------
    InputError
        If there are no records, they are of several studies or conditions, or something cannot be
        written.
    """
    records = latest(records)
    parts = parts_of(records)
    found = [Estimates(part) for part in parts]
    marks = [list(verdicts(part)) for part in parts]
    items = list(_contents(records, found, marks, link))

    folder = Path(folder)
    for each in (folder, folder / "figures"):
        make_folder(each)
    for item in items:
        if isinstance(item, Drawing):
            save_figure(item.figure, folder / "figures" / f"{item.name}.svg")
    write_text(folder / "estimates.csv", estimates_csv(found))
    write_text(folder / "marks.csv", verdicts_csv(verdict for each in marks for verdict in each))
    report = folder / "report.md"
    write_text(report, "\n".join(map(item_markdown, items)))
    return report


def _contents(
    records: Sequence[SimulationRecord],
    found: Sequence[Estimates],
    marks: Sequence[Sequence[Verdict]],
    link: Item | None,
) -> Iterator[Item]:
    study, whole = records[0].study, found[0].part
    cells = found[1:] or found
    yield f"# What it brings: {markdown_text(study)}\n"
    yield Table("study", "What ran", ("", ""), tuple(header(records, whole)), words=2)
    failed = list(failures(records))
    if failed:
        yield "Runs that were not done:\n\n" + "\n".join(failed) + "\n"
    yield f"## How to read it\n\n{DEFINITIONS}"
    if SUBJECT in whole.policies:
        yield "## Marks\n"
        for each, verdict in zip(found, marks, strict=True):
            yield marks_table(verdict, each.part.title, each.part.slug)
        yield where_it_fails(cells)
    yield "## The grid\n"
    yield from grid_drawings(cells, study)
    if link is not None:
        yield "## A link as it happened\n"
        yield link
    for each in found:
        yield from _chapter(each, one_cell=each in cells)
    yield "## Threats to validity\n"
    yield "\n\n".join(threats(whole)) + "\n"


def _chapter(found: Estimates, *, one_cell: bool) -> Iterator[Item]:
    """Yield what one part of the study shows."""
    part = found.part
    yield f"## {markdown_text(part.title)}\n"
    for caution in cautions(part):
        yield f"{caution}\n"
    yield outcomes_table(part)
    yield from measures_tables(found)
    yield from comparison_tables(found)
    for kind in ("priority", "model"):
        yield from group_tables(found, kind)
    if one_cell:
        yield from cell_drawings(part)
    yield from job_drawings(part)
