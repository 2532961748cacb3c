"""New figures, their legends, and the files they are written to."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from metronome_opt.errors import InputError, quote
from metronome_opt.files.documents import staged
from metronome_opt.output.figures import style

WIDTH, HEIGHT = 6.4, 4.0  # inches, of one pair of axes
_DPI = 150  # of a file
_MAX_ENTRIES = 40

# Load the backend now: that of notebooks makes pyplot interactive, which must outlast the
# `rc_context` of the first figure, or later figures are not shown.
pyplot.draw_if_interactive()  # type: ignore[no-untyped-call]

# Dates would differ from run to run.
_METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure, sizes in inches; in a notebook it is shown below the cell."""
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    return figure


def new_axes(width: float = WIDTH, height: float = HEIGHT) -> Axes:
    """Return the axes of a new figure, sizes in inches."""
    return new_figure(width, height).add_subplot()


# ------------------------------------------------------------------ legends


def legend_beside(axes: Axes, entries: Sequence[Any]) -> None:
    """Put a legend to the right of axes."""
    axes.legend(handles=list(entries), loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)


def legend_below(figure: Figure, entries: Sequence[Any]) -> None:
    """Put a legend below everything in a figure."""
    figure.legend(handles=list(entries), loc="outside lower center", ncols=4, frameon=False)


def job_entries(labels: Sequence[str], nothing: str) -> list[Patch]:
    """Return a legend entry for each job; beyond a limit the rest is counted."""
    entries = [
        Patch(**style.job_style(position), label=label)
        for position, label in enumerate(labels[:_MAX_ENTRIES])
    ]
    if len(labels) > _MAX_ENTRIES:
        entries.append(_note(f"and {len(labels) - _MAX_ENTRIES} more"))
    return entries or [_note(nothing)]


def _note(text: str) -> Patch:
    """Return a legend entry that is only a text."""
    return Patch(fill=False, linewidth=0, label=text)


# ------------------------------------------------------------------ files


def save_figure(drawn: Axes | Figure, path: str | Path) -> None:
    """Write a figure, or that of some axes, as SVG, PNG or PDF, as the suffix of `path` says.

    The file is whole or not there at all. The figure is closed.

    Raises
    ------
    InputError
        If the suffix is another one, or the file cannot be written.
    """
    path = Path(path)
    suffix = check_suffix(path)
    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None  # noqa: S101 (removed axes have none)
    settings: Any = {
        "svg.fonttype": "none",  # text stays text, to be searched and read
        "svg.hashsalt": "metronome-opt",
        "pdf.fonttype": 42,
    }
    options: Any = {"format": suffix[1:], "dpi": _DPI, "metadata": _METADATA[suffix]}
    with staged(path) as temporary, matplotlib.rc_context(settings), warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes, without a warning for each.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(temporary, **options)
    pyplot.close(figure)


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a figure's file in lower case; only .svg, .png and .pdf are known."""
    suffix = Path(path).suffix.lower()
    if suffix not in _METADATA:
        raise InputError(
            f"{path}: ends in {quote(suffix)}, not the name of a picture; "
            "end it in .svg, .png or .pdf"
        )
    return suffix
