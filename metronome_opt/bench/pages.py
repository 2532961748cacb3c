"""Report pages: sections with tables and figures as one HTML file.

What is not known is a dash, never 0; only 0 is formatted as 0.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    remarks
        Sentences, each with the items of a list below it.
    tables
        Captions and data frames; an index holds words, columns hold numbers as text.
    figures
        Captions and axes.
    """

    title: str
    remarks: Sequence[tuple[str, Sequence[str]]] = ()
    tables: Sequence[tuple[str, pd.DataFrame]] = ()
    figures: Sequence[tuple[str, Axes]] = ()


def check_extra() -> None:
    """Raise a `MissingBackendError` if a package that reports need is not installed."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise MissingBackendError(
                f"reports need {package}, which is not installed: "
                "pip install 'metronome-opt[bench]'"
            )


def write_page(
    path: Path, title: str, sections: Sequence[ReportSection], *, closing: str, **context: Any
) -> None:
    """Write a report as one HTML file; its folder is made if it does not exist.

    Parameters
    ----------
    closing
        The template of the text after the sections; `context` holds its variables.

    Raises
    ------
    InputError
        If it cannot be written.
    MissingBackendError
        If jinja2 or matplotlib is not installed.
    """
    check_extra()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("metronome_opt.bench"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
    )
    environment.filters.update(svg=_to_svg, count=count, counted=counted)
    page = environment.get_template("report.html").render(
        title=title, sections=sections, closing=closing, **context
    )
    make_folder(path.parent)
    write_text(path, page)


def _to_svg(axes: Axes) -> str:
    """Return the figure of axes, base64-encoded; the same data make the same text."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    with rc_context({"svg.hashsalt": "metronome", "svg.fonttype": "none"}):
        figure: Any = axes.figure
        figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return base64.b64encode(stream.getvalue()).decode()


# ------------------------------------------------------------------ tables


def formatted(frame: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Return some columns of a data frame as text below headings."""
    return pd.DataFrame(
        {heading: frame[name].map(form) for name, (heading, form) in columns.items()},
        index=frame.index,
    )


def facts(rows: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return a table of names and values."""
    return pd.DataFrame(index=pd.MultiIndex.from_tuples(list(rows), names=["what", "value"]))


# ------------------------------------------------------------------ numbers


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
