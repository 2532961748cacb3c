"""Folder of results, and figures stored in it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.files.documents import make_folder
from metronome_opt.output.figures.picture import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"


def keep_figure(figure: Axes | Figure, name: str, small: bool) -> None:
    """Write a figure to `RESULTS`; that of a small run, which means nothing, is not kept."""
    with tempfile.TemporaryDirectory() as elsewhere:
        folder = Path(elsewhere) if small else RESULTS
        make_folder(folder)
        save_figure(figure, folder / name)
