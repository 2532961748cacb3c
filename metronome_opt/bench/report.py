"""The report of a campaign: Markdown, LaTeX tables, figures and a table of all cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from metronome_opt.bench.cases import MeasuredCase, measured
from metronome_opt.bench.chapters import checks_chapter, section_chapter
from metronome_opt.bench.facts import facts_of
from metronome_opt.bench.figures import strokes
from metronome_opt.bench.frames import cases_csv
from metronome_opt.bench.items import Drawing, Item, item_markdown
from metronome_opt.bench.prose import DEFINITIONS, header, threats
from metronome_opt.bench.records import Record
from metronome_opt.bench.references import References, gather, read_best_known
from metronome_opt.bench.sections import sections_of, whole
from metronome_opt.bench.tables import Table, to_latex
from metronome_opt.documents import make_folder, write_text
from metronome_opt.errors import InputError, show
from metronome_opt.plot import save_figure

_FIGURES = ".svg", ".pdf"


def write_report(
    records: Sequence[Record],
    folder: str | Path,
    *,
    baseline: str | None = None,
    best_known: str | Path | None = None,
) -> Path:
    """Write ``report.md``, ``records.csv``, ``tables/*.tex`` and ``figures/*.svg`` and ``*.pdf``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one campaign, every case once.
    folder
        Made if it does not exist.
    baseline
        The solver whose times the others' are related to.
    best_known
        A file of format ``metronome-best-known/1``; without it, the best values of the records
        are the best known.

    Returns
    -------
    Path
        That of ``report.md``, which is written last.

    Raises
    ------
    InputError
        If there are no records, a case is there twice, the baseline did not run, the file of best
        known values is wrong or something cannot be written.
    """
    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    known = None if best_known is None else read_best_known(best_known)
    references = gather(records, known)
    cases = measured(records, references)
    items = list(_contents(records, cases, references, baseline, known is not None))

    folder = Path(folder)
    for each in (folder, folder / "tables", folder / "figures"):
        make_folder(each)
    for item in items:
        if isinstance(item, Table):
            write_text(folder / "tables" / f"{item.name}.tex", to_latex(item))
        elif isinstance(item, Drawing):
            for suffix in _FIGURES:
                save_figure(item.figure, folder / "figures" / f"{item.name}{suffix}")
    write_text(folder / "records.csv", cases_csv(cases))
    report = folder / "report.md"
    write_text(report, "\n".join(map(item_markdown, items)))
    return report


def _contents(
    records: Sequence[Record],
    cases: Sequence[MeasuredCase],
    references: References,
    baseline: str | None,
    best_known: bool,
) -> Iterator[Item]:
    facts = facts_of(records, references)
    if baseline is not None and baseline not in facts.solvers:
        raise InputError(
            f"baseline: {show(baseline)} is not in the records; "
            f"choose from {', '.join(facts.solvers)}"
        )
    yield "# Benchmark report\n"
    yield Table("campaign", "What ran", ("", ""), tuple(header(facts)), words=2)
    yield f"## How to read it\n\n{DEFINITIONS}"
    looks = strokes(facts.solvers)
    for section in sections_of(cases):
        yield from section_chapter(section, references, baseline, looks)
    yield from checks_chapter(cases, whole(cases), references, best_known)
    yield "## Threats to validity\n"
    yield "\n\n".join(threats(facts, best_known)) + "\n"
