"""Figures that need neither pyplot nor a window, their legends, and the files they become."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from metronome_opt.documents import staged
from metronome_opt.errors import InputError, quote
from metronome_opt.plot import style

Canvas = Figure | SubFigure

WIDTH, HEIGHT = 6.4, 4.0  # inches, of one pair of axes
_DPI, _FILE_DPI = 100, 150
_MARGIN = 0.07  # inches
_MOST_ENTRIES = 40

# What would differ from run to run is left out of the files.
_METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}


class Picture(Figure):
    """A figure that shows itself in a notebook.

    Parameters
    ----------
    width, height
        Inches.
    title
        What stands above everything, taken as it is; none if it is empty.
    """

    def __init__(self, width: float, height: float, title: str = "") -> None:
        super().__init__(
            figsize=(width, height),
            dpi=_DPI,
            layout=ConstrainedLayoutEngine(w_pad=_MARGIN, h_pad=_MARGIN),
            facecolor="white",
        )
        if title:
            self.suptitle(title, fontsize=style.TITLE, parse_math=False)

    def settle(self) -> None:
        """Arrange everything now and for good, so that every file shows the same."""
        with _missing_letters():
            self.draw_without_rendering()
        self.set_layout_engine("none")

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with _missing_letters():
            self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()


def single(title: str, x: str = "", y: str = "") -> tuple[Picture, Axes]:
    """Return a figure with one pair of axes below a title; `x` and `y` stand beside them."""
    figure = Picture(WIDTH, HEIGHT, title)
    axes = figure.add_subplot()
    axes.set_xlabel(x, fontsize=style.TEXT)
    axes.set_ylabel(y, fontsize=style.TEXT)
    dress(axes)
    return figure, axes


def dress(axes: Axes) -> None:
    """Give axes a pale grid, small numbers and no frame."""
    axes.tick_params(labelsize=style.SMALL)
    axes.grid(color=style.SHEET["grid.color"], linewidth=style.SHEET["grid.linewidth"])
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def new_axes(width: float = WIDTH, height: float = HEIGHT, **options: Any) -> Axes:
    """Return the axes of a new figure; in a notebook it is shown below the cell.

    Parameters
    ----------
    width, height
        Inches.
    options
        Of `matplotlib.figure.Figure.add_subplot`, as ``projection="polar"``.
    """
    figure = pyplot.figure(figsize=(width, height), layout="constrained")
    axes: Axes = figure.add_subplot(**options)
    return axes


def legend_beside(axes: Axes, entries: Sequence[Any]) -> None:
    """Put a legend to the right of axes."""
    axes.legend(handles=list(entries), loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)


# ------------------------------------------------------------------ legends


def note_entry(note: str) -> Patch:
    """Return a legend entry that is only words."""
    return Patch(fill=False, linewidth=0, label=note)


def overload_entry() -> Patch:
    """Return the legend entry of overload."""
    return Patch(**style.OVERLOAD, label="demand above capacity")


def job_entries(labels: Sequence[str], nothing: str) -> list[Patch]:
    """Return a legend entry for each job in their looks; very many are cut off, and said."""
    entries = [
        Patch(**style.job_style(position), label=label)
        for position, label in enumerate(labels[:_MOST_ENTRIES])
    ]
    if len(labels) > _MOST_ENTRIES:
        entries.append(note_entry(f"and {len(labels) - _MOST_ENTRIES} more"))
    return entries or [note_entry(nothing)]


def legend_height(entries: Sequence[Any], width: float) -> float:
    """Return the height of a legend in inches."""
    return 0.19 * math.ceil(len(entries) / _legend_columns(entries, width)) + 0.15


def add_legend(canvas: Canvas, entries: Sequence[Any], width: float) -> None:
    """Put a legend below everything on a canvas that is `width` inches wide."""
    legend = canvas.legend(
        handles=list(entries),
        loc="outside lower center",
        ncols=_legend_columns(entries, width),
        fontsize=style.SMALL,
        frameon=False,
        handlelength=2.4,
        handleheight=1.1,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _legend_columns(entries: Sequence[Any], width: float) -> int:
    """Return how many columns of a legend fit into `width` inches."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), int(width / (0.62 * style.SMALL / 72 * longest + 0.55))))


# ------------------------------------------------------------------ files


def save_figure(drawn: Axes | Figure, path: str | Path) -> None:
    """Write a figure, or that of some axes, as SVG, PNG or PDF, as the suffix of `path` says.

    The file is whole or not there at all. A figure of pyplot is closed.

    Raises
    ------
    InputError
        If the suffix is another one or the file cannot be written.
    """
    path = Path(path)
    suffix = check_suffix(path)
    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None  # noqa: S101 (axes that were removed have none)
    settings: Any = {
        "svg.fonttype": "none",  # text stays text, to be searched and read
        "svg.hashsalt": "metronome-opt",
        "pdf.fonttype": 42,
        "savefig.bbox": "standard",
    }
    metadata = _METADATA[suffix]
    with staged(path) as temporary, matplotlib.rc_context(settings), _missing_letters():
        figure.savefig(temporary, format=suffix[1:], dpi=_FILE_DPI, metadata=metadata)
    pyplot.close(figure)


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a picture in lower case: ``.svg``, ``.png`` or ``.pdf``.

    Raises
    ------
    InputError
        If it is another one.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _METADATA:
        raise InputError(
            f"{path}: ends in {quote(suffix)}, not the name of a picture; "
            "end it in .svg, .png or .pdf"
        )
    return suffix


@contextmanager
def _missing_letters() -> Iterator[None]:
    """Draw letters that the font lacks as boxes, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
