"""A figure that shows itself in a notebook. Imports matplotlib, so import it where it is used."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

_DPI = 100
_MARGIN = 0.07  # inches


class Picture(Figure):
    """A figure that needs neither pyplot nor a window."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(
            figsize=(width, height),
            dpi=_DPI,
            layout=ConstrainedLayoutEngine(w_pad=_MARGIN, h_pad=_MARGIN),
            facecolor="white",
        )

    def settle(self) -> None:
        """Arrange everything now and for good, so that every file shows the same."""
        with missing_letters():
            self.draw_without_rendering()
        self.set_layout_engine("none")

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with missing_letters():
            self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()


@contextmanager
def missing_letters() -> Iterator[None]:
    """Draw letters that the font lacks as boxes, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
