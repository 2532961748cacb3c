"""Report pages: sections with tables and figures, as Markdown and as one HTML page.

What is not known is a dash, never 0; only 0 is shown as 0.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from metronome_opt.documents import make_folder, write_text
from metronome_opt.errors import MissingBackendError, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "-"

Columns = Mapping[str, tuple[str, Callable[[Any], str]]]
"""Headings and formats of the columns of a data frame that a report lists."""


class ReportSection(NamedTuple):
    """A section of a report.

    Attributes
    ----------
    paragraphs
        Markdown.
    tables
        Captions and data frames; an index holds words, columns hold numbers as text.
    figures
        Names of files, captions and axes.
    """

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[tuple[str, pd.DataFrame]] = ()
    figures: Sequence[tuple[str, str, Axes]] = ()


def check_extra() -> None:
    """Raise a `MissingBackendError` if a package that reports need is not installed."""
    for package in ("jinja2", "markdown_it", "matplotlib"):
        if find_spec(package) is None:
            raise MissingBackendError(
                f"reports need {package}, which is not installed: "
                "pip install 'metronome-opt[bench]'"
            )


def write_pages(
    folder: str | Path,
    title: str,
    sections: Sequence[ReportSection],
    *,
    closing: str,
    texts: Mapping[str, str],
    **context: Any,
) -> Path:
    """Write ``report.md``, ``report.html``, ``figures/*.svg`` and further files to a folder.

    Parameters
    ----------
    folder
        Made if it does not exist; other files in it stay as they are.
    closing
        The template of the text after the sections; `context` holds its variables.
    texts
        Contents of further files by name.

    Returns
    -------
    Path
        That of ``report.md``, which is written last.

    Raises
    ------
    InputError
        If something cannot be written.
    MissingBackendError
        If jinja2 is not installed.
    """
    check_extra()
    import jinja2
    from markdown_it import MarkdownIt

    environment = jinja2.Environment(  # noqa: S701 (Markdown, escaped by a filter of ours)
        loader=jinja2.PackageLoader("metronome_opt.bench"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(text=markdown_text, table=_to_markdown, count=count, counted=counted)
    figures = {
        f"figures/{name}.svg": _to_svg(axes)
        for section in sections
        for name, _, axes in section.figures
    }
    report = environment.get_template("report.md").render(
        title=title, sections=sections, closing=closing, **context
    )
    # "js-default" takes markup in names for text, as GitHub does not.
    body = str(MarkdownIt("js-default").render(report))
    for name, svg in figures.items():
        inline = base64.b64encode(svg.encode()).decode()
        body = body.replace(f'src="{name}"', f'src="data:image/svg+xml;base64,{inline}"')
    page = environment.get_template("report.html").render(title=title, body=body)
    folder = Path(folder)
    make_folder(folder)
    make_folder(folder / "figures")
    for name, text in {**figures, **texts, "report.html": page, "report.md": report}.items():
        write_text(folder / name, text)
    return folder / "report.md"


def _to_svg(axes: Axes) -> str:
    """Return the figure of axes; the same data make the same text."""
    from matplotlib import rc_context

    stream = io.StringIO()
    with rc_context({"svg.hashsalt": "metronome", "svg.fonttype": "none"}):
        figure: Any = axes.figure
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return stream.getvalue()


# ------------------------------------------------------------------ tables


def formatted(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return some columns of a data frame as text below headings."""
    return pd.DataFrame(
        {heading: frame[name].map(form) for name, (heading, form) in columns.items()},
        index=frame.index,
    )


def facts(rows: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return a table of names and values without headings."""
    return pd.DataFrame(index=pd.MultiIndex.from_tuples(list(rows), names=["", ""]))


# Names may contain anything; only what would change the layout is escaped.
_MARKDOWN = str.maketrans({character: f"\\{character}" for character in r"\|`*_<[]#$~"})


def markdown_text(text: object) -> str:
    """Return text that Markdown renders as it is."""
    return str(text).translate(_MARKDOWN)


def bullets(title: str, items: Iterable[object]) -> str:
    """Return a paragraph with a list, escaped."""
    return "\n".join([f"{title}\n", *(f"- {markdown_text(item)}" for item in items)])


def _to_markdown(frame: pd.DataFrame) -> str:
    """Return a table, words to the left and numbers to the right."""
    names = [name or "" for name in frame.index.names]
    rules = [*[":---"] * len(names), *["---:"] * len(frame.columns)]
    labels = [key if isinstance(key, tuple) else (key,) for key in frame.index]
    body = [[*label, *row] for label, row in zip(labels, frame.to_numpy().tolist(), strict=True)]
    rows = [[*names, *frame.columns], *body]
    head, *rest = [[markdown_text(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rest))


# ------------------------------------------------------------------ numbers


def exact(value: Fraction | None, other: Fraction | None = None) -> str:
    """Return an exact number with ten digits: ``199/5`` becomes 39.8.

    It becomes a fraction where these digits do not tell it from `other`.
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


# ------------------------------------------------------------------ circumstances


def seed_range(seeds: Iterable[int]) -> str:
    """Return seeds in words: ``0 to 9``, or all of them where some are left out."""
    ordered = sorted(set(seeds))
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def distinct(values: Iterable[str]) -> str:
    """Return each value once, in order, separated by commas."""
    return ", ".join(dict.fromkeys(values))


def circumstances(records: Sequence[Any]) -> list[tuple[str, str]]:
    """Return limits, machines, commits, versions and times of records of a campaign."""
    limits = sorted({record.time_limit_s for record in records})
    memory = {record.memory_limit_mb for record in records}
    versions = {item for record in records for item in record.versions.items()}
    starts = [record.started for record in records]
    return [
        ("time limits", ", ".join(f"{limit:g} s" for limit in limits)),
        ("memory limits", ", ".join(f"{mb:,} MB" if mb else "none" for mb in memory)),
        ("machine", distinct(", ".join(map(str, each.machine.values())) for each in records)),
        ("commit", distinct(record.commit or "unknown" for record in records)),
        ("versions", ", ".join(" ".join(item) for item in sorted(versions))),
        ("started", f"{min(starts)} to {max(starts)}"),
    ]
