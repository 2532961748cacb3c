"""Reports: a template for jinja2 with the words, data frames as tables, figures, numbers as text.

What is not known is a dash, never 0; only 0 is shown as 0.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from metronome_opt.documents import make_folder, write_text
from metronome_opt.errors import counted
from metronome_opt.plot.picture import save_figure
from metronome_opt.report.page.assemble import content_policy

if TYPE_CHECKING:
    import jinja2

    from metronome_opt.plot.picture import Picture

MISSING = "-"

Columns = Mapping[str, tuple[str, Callable[[Any], str]]]
"""Headings of the columns of a data frame that are shown, and how their values are written."""


def write_pages(
    folder: str | Path,
    template: str,
    *,
    suffixes: Sequence[str] = (".svg",),
    texts: Mapping[str, str],
    latex: bool = False,
    **context: Any,
) -> Path:
    """Write ``report.md``, its figures and other files to a folder, and return where it is.

    ``report.html`` is the same in one file, with tables that can be sorted.

    A template has ``table(name, caption, frame)`` and ``figure(name, caption, picture)``. The
    levels of the index of a frame are words, set to the left; its columns are numbers, set to the
    right; all of it is text.

    Parameters
    ----------
    folder
        Made if it does not exist; other files in it stay as they are.
    template
        Name of the file with the words.
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

    tables: dict[str, str] = {}
    figures: dict[str, Picture] = {}

    def table(name: str, caption: str, frame: pd.DataFrame) -> str:
        tables[name] = _to_latex(caption, frame)
        return f"{_markdown_text(caption)}:\n\n{_to_markdown(frame)}"

    def figure(name: str, caption: str, picture: Picture) -> str:
        figures[name] = picture
        text = _markdown_text(caption)
        return f"![{text}](figures/{name}.svg)\n\n{text}\n"

    environment = jinja2.Environment(  # noqa: S701 (Markdown, escaped by a filter of ours)
        loader=jinja2.PackageLoader("metronome_opt.bench"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        text=_markdown_text, listed=_listed, count=count, counted=counted, exact=exact
    )
    environment.globals.update(table=table, figure=figure)
    report = environment.get_template(template).render(**context)
    folder = Path(folder)
    for each in (folder, folder / "figures", *([folder / "tables"] if latex else [])):
        make_folder(each)
    for name, picture in figures.items():
        for suffix in suffixes:
            save_figure(picture, folder / "figures" / f"{name}{suffix}")
    more = {f"tables/{name}.tex": text for name, text in tables.items()} if latex else {}
    page = _to_html(report, environment, folder)
    for name, text in {**more, **texts, "report.html": page, "report.md": report}.items():
        write_text(folder / name, text)
    return folder / "report.md"


def _to_html(report: str, environment: jinja2.Environment, folder: Path) -> str:
    """Return a report as a page that needs no other file; its figures are read from `folder`."""
    from markdown_it import MarkdownIt

    def embed(found: re.Match[str]) -> str:
        picture = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'src="data:image/svg+xml;base64,{picture}"'

    style, script = (_asset(environment, f"report.{kind}") for kind in ("css", "js"))
    # "js-default" takes markup in names for text, as GitHub does not.
    body = str(MarkdownIt("js-default").render(report))
    # The policy lets no style of single elements in.
    body = re.sub(r'style="text-align:(left|right)"', r'class="\1"', body)
    return environment.get_template("report.html").render(
        policy=content_policy(style, script),
        title=report.partition("\n")[0].removeprefix("# "),
        style=style,
        script=script,
        body=re.sub(r'src="(figures/[^"]+)"', embed, body),
    )


def _asset(environment: jinja2.Environment, name: str) -> str:
    return environment.get_template(name).render()


# ------------------------------------------------------------------ tables


def shown(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return some columns of a data frame as text below headings."""
    return pd.DataFrame(
        {heading: frame[name].map(show) for name, (heading, show) in columns.items()},
        index=frame.index,
    )


def facts(rows: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return a table of names and what is to be said of them, without a head."""
    return pd.DataFrame(index=pd.MultiIndex.from_tuples(list(rows), names=["", ""]))


def _rows(frame: pd.DataFrame) -> tuple[int, list[list[str]]]:
    """Return how many columns are words, and all rows, the first of which are the headings."""
    labels = [key if isinstance(key, tuple) else (key,) for key in frame.index]
    body = [[*map(str, label), *row] for label, row in zip(labels, frame.to_numpy(), strict=True)]
    head = [*(str(name) for name in frame.index.names), *map(str, frame.columns)]
    return frame.index.nlevels, [head, *body]


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


def _markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return text.translate(_MARKDOWN)


def latex_text(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return text.translate(_LATEX)


def _to_markdown(frame: pd.DataFrame) -> str:
    """Return a table as Markdown, without its caption."""
    words, rows = _rows(frame)
    rules = [":---" if column < words else "---:" for column in range(len(rows[0]))]
    head, *body = [list(map(_markdown_text, row)) for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rules, *body))


def _to_latex(caption: str, frame: pd.DataFrame) -> str:
    r"""Return a table as a ``tabular`` that needs ``\usepackage{booktabs}``.

    Caption and float are the paper's; the sentence that says what it is stands in a comment.
    """
    words, rows = _rows(frame)
    head, *body = (
        "  " + " & ".join("--" if cell == MISSING else latex_text(cell) for cell in row) + r" \\"
        for row in rows
    )
    lines = [
        f"% {' '.join(caption.split())}",
        rf"\begin{{tabular}}{{@{{}}{'l' * words}{'r' * (len(rows[0]) - words)}@{{}}}}",
        *(r"  \toprule", head, r"  \midrule", *body, r"  \bottomrule", r"\end{tabular}", ""),
    ]
    return "\n".join(lines)


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


def count(value: float) -> str:
    """Return an integer; a dash for a missing one."""
    return MISSING if pd.isna(value) else f"{int(value):,}"


# ------------------------------------------------------------------ words


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_markdown_text, names))


def seed_range(seeds: Iterable[int]) -> str:
    """Return seeds in words: ``0 to 9``, or all of them where some are left out."""
    ordered = sorted(set(seeds))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def distinct(values: Iterable[str]) -> list[str]:
    """Return each value once, in the order in which they came."""
    return list(dict.fromkeys(values))


def software(records: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the commits and versions that records of a campaign name, in words."""
    versions = versions_of(records).items()
    return [
        ("commit", ", ".join(distinct(record.commit or "unknown" for record in records))),
        ("versions", ", ".join(f"{name} {' and '.join(each)}" for name, each in versions)),
    ]


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
