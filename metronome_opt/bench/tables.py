"""Tables, figures and numbers of a report, and how they are written.

What is not known is a dash, never 0; only 0 is shown as 0. The words of a report are templates in
``templates``, for jinja2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from metronome_opt.documents import make_folder, write_text
from metronome_opt.plot.picture import save_figure

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

R = TypeVar("R")
C = TypeVar("C")

MISSING = "-"


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    name
        Of its file, without suffix.
    caption
        One sentence.
    headings, rows
        Cells of what is shown.
    words
        How many columns, from the left, are words; the others are numbers, set to the right.
    """

    name: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


def cross_table(
    name: str,
    caption: str,
    corner: str,
    rows: Iterable[R],
    columns: Iterable[C],
    cell: Callable[[R, C], str],
) -> Table:
    """Return a table of a cell for each row and column, which are shown by their names."""
    columns = list(columns)
    body = [(str(row), *(cell(row, column) for column in columns)) for row in rows]
    return Table(name, caption, (corner, *map(str, columns)), body)


@dataclass(frozen=True)
class Drawing:
    """A figure, the name of its files without suffix, and what it shows in a sentence."""

    name: str
    caption: str
    figure: Picture


Item = str | Table | Drawing


def write_pages(
    folder: str | Path,
    template: str,
    chapters: Mapping[str, Sequence[Item]],
    *,
    suffixes: Sequence[str] = (".svg",),
    texts: Mapping[str, str],
    latex: bool = False,
    **context: Any,
) -> Path:
    """Write ``report.md``, its figures and other files to a folder, and return where it is.

    Parameters
    ----------
    folder
        Made if it does not exist; other files in it stay as they are.
    template
        Name of the file with the words.
    chapters
        Items by title, in order.
    suffixes
        Of the files of each figure.
    texts
        Contents of further files by name.
    latex
        Whether tables are written to ``tables/*.tex`` too.
    context
        What the template is told.

    Raises
    ------
    InputError
        If something cannot be written.
    """
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 (Markdown, escaped by a filter of ours)
        loader=jinja2.PackageLoader("metronome_opt.bench"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(text=markdown_text, item=_markdown, count=count)
    report = environment.get_template(template).render(chapters=chapters, **context)
    folder = Path(folder)
    for each in (folder, folder / "figures", *([folder / "tables"] if latex else [])):
        make_folder(each)
    for item in (item for items in chapters.values() for item in items):
        if isinstance(item, Drawing):
            for suffix in suffixes:
                save_figure(item.figure, folder / "figures" / f"{item.name}{suffix}")
        elif isinstance(item, Table) and latex:
            write_text(folder / "tables" / f"{item.name}.tex", to_latex(item))
    for name, text in texts.items():
        write_text(folder / name, text)
    write_text(folder / "report.md", report)
    return folder / "report.md"


# ------------------------------------------------------------------ languages

# Names may contain anything; only what would change the layout is escaped.
_MARKDOWN = str.maketrans({character: f"\\{character}" for character in r"\|`*_<[]#$~"})

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return text.translate(_MARKDOWN)


def latex_text(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return text.translate(_LATEX)


def to_markdown(table: Table) -> str:
    """Return the table as Markdown, without its caption."""
    rules = [":---" if column < table.words else "---:" for column in range(len(table.headings))]
    rows = [[markdown_text(cell) for cell in row] for row in (table.headings, *table.rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rules, *rows[1:]))


def to_latex(table: Table) -> str:
    r"""Return the table as a ``tabular`` that needs ``\usepackage{booktabs}``.

    Caption and float are the paper's; the sentence that says what it is stands in a comment.
    """
    columns = "l" * table.words + "r" * (len(table.headings) - table.words)
    head, *body = (
        "  " + " & ".join("--" if cell == MISSING else latex_text(cell) for cell in row) + r" \\"
        for row in (table.headings, *table.rows)
    )
    lines = [
        f"% {' '.join(table.caption.split())}",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        *(r"  \toprule", head, r"  \midrule", *body, r"  \bottomrule", r"\end{tabular}", ""),
    ]
    return "\n".join(lines)


def _markdown(item: Item) -> str:
    """Return an item as it stands in a report whose figures lie in ``figures/``."""
    if isinstance(item, Table):
        return f"{markdown_text(item.caption)}:\n\n{to_markdown(item)}"
    if isinstance(item, Drawing):
        return f"![{item.caption}](figures/{item.name}.svg)\n\n{item.caption}\n"
    return item


# ------------------------------------------------------------------ numbers


def exact(value: Fraction | None, other: Fraction | None = None) -> str:
    """Return an exact number with ten digits: ``199/5`` is shown as 39.8.

    Where these do not tell it from `other`, it is shown as a fraction.
    """
    if value is None:
        return MISSING
    text = f"{float(value):,.10g}"
    alike = other not in (None, value) and other is not None and f"{float(other):,.10g}" == text
    return str(value) if alike else text


def three_digits(value: float | None) -> str:
    """Return a number with three digits, more if it has more before the point."""
    if value is None or not math.isfinite(value):
        return MISSING
    if not value:
        return "0"
    # Rounding first, so that 9.999 has as many digits as 10.0.
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:,.{max(0, digits)}f}"


def percent(share: float | None) -> str:
    """Return a share in percent, with two digits after the point."""
    if share is None or not math.isfinite(share):
        return MISSING
    if 0 < share < 0.00005:
        return "<0.01 %"
    return f"{100 * share:.2f} %"


def count(value: int | None) -> str:
    """Return an integer."""
    return MISSING if value is None else f"{value:,}"


# ------------------------------------------------------------------ words


def listed(names: Iterable[str]) -> str:
    """Return names as a list in Markdown."""
    return ", ".join(map(markdown_text, names))


def seed_range(seeds: Iterable[int]) -> str:
    """Return seeds in words: ``0 to 9``, or all of them where some are left out."""
    ordered = sorted(set(seeds))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def distinct(values: Iterable[str]) -> list[str]:
    """Return each value once, in the order in which they came."""
    return list(dict.fromkeys(values))


def versions_of(records: Sequence[Any]) -> dict[str, list[str]]:
    """Return the versions of each package that records of a campaign name."""
    packages = sorted({package for record in records for package in record.versions})
    return {
        package: distinct(
            record.versions[package] for record in records if package in record.versions
        )
        for package in packages
    }


def distinct_slugs(slugs: Iterable[str]) -> list[str]:
    """Return names of files that differ: those that are taken get a number."""
    taken: list[str] = []
    for slug in slugs:
        numbered = (f"{slug}-{number}" for number in count_from(2))
        taken.append(slug if slug not in taken else next(s for s in numbered if s not in taken))
    return taken
