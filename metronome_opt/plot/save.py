"""Writing figures: SVG, PNG or PDF, whole or not at all, the same bytes for the same picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.documents import staged
from metronome_opt.errors import InputError, show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 150

# What would differ from run to run is left out of the files.
_METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".png": {},
    ".pdf": {"CreationDate": None},
}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as SVG, PNG or PDF, as the suffix of `path` says.

    Raises
    ------
    InputError
        If the suffix is another one or the file cannot be written.
    """
    import matplotlib

    from metronome_opt.plot.picture import missing_letters

    path = Path(path)
    suffix = check_suffix(path)
    metadata = dict(_METADATA[suffix])
    if suffix != ".png":
        metadata["Title"] = figure.get_suptitle()
    with staged(path) as temporary, matplotlib.rc_context(), missing_letters():
        matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, to be searched and read
        matplotlib.rcParams["svg.hashsalt"] = "metronome-opt"
        matplotlib.rcParams["pdf.fonttype"] = 42
        matplotlib.rcParams["savefig.bbox"] = "standard"
        figure.savefig(temporary, format=suffix[1:], dpi=_DPI, metadata=metadata)
        if suffix == ".svg":
            text = temporary.read_text(encoding="utf-8")
            temporary.write_text(_numbered_clips(text), encoding="utf-8")


def _numbered_clips(svg: str) -> str:
    """Call clip paths by the order in which they appear.

    matplotlib derives their names from what may hold an address, so that they differ at random.
    """
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"{match[1]}clip{numbers.setdefault(match[2], len(numbers))}"

    return re.sub(r"""(id="|url\(#)(p[0-9a-f]{10})(?=[")])""", numbered, svg)


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
            f"{path}: ends in {show(suffix)}, not the name of a picture; "
            "end it in .svg, .png or .pdf"
        )
    return suffix
