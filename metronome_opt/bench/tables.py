"""Tables in two languages: Markdown for the report, LaTeX in the style of booktabs for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metronome_opt.bench.shown import MISSING


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    name
        Of its file, without suffix.
    caption
        One sentence.
    headings
        One for each column.
    rows
        Cells of what is shown, as many as headings.
    words
        How many columns, from the left, are words; the others are numbers, set to the right.
    """

    name: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


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
    """Return the table as Markdown whose source is aligned too, without its caption."""
    rows = [[markdown_text(cell) for cell in row] for row in (table.headings, *table.rows)]
    # Three dashes at least make a rule, and a colon says where the column is set.
    widths = [max(4, *map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if index < table.words else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(aligned)} |"

    rule = line(
        [
            "-" * width if index < table.words else "-" * (width - 1) + ":"
            for index, width in enumerate(widths)
        ]
    )
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])]) + "\n"


def to_latex(table: Table) -> str:
    r"""Return the table as a ``tabular`` that needs ``\usepackage{booktabs}``.

    Caption and float are the paper's; the sentence that says what it is stands in a comment.
    """
    columns = "l" * table.words + "r" * (len(table.headings) - table.words)

    def line(cells: Sequence[str]) -> str:
        set_ = ["--" if cell == MISSING else latex_text(cell) for cell in cells]
        return f"  {' & '.join(set_)} \\\\"

    return "\n".join(
        [
            f"% {' '.join(table.caption.split())}",
            f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"  \toprule",
            line(table.headings),
            r"  \midrule",
            *map(line, table.rows),
            r"  \bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
