"""Results and fronts as cells of a notebook show them: the lines of the command line, a picture.

The package registers both functions with IPython where it is imported in a notebook.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

from metronome_opt.allocation.slots.iteration_times import IterationTimes
from metronome_opt.errors import MissingBackendError
from metronome_opt.output.descriptions import describe_front, describe_gain, describe_jobs
from metronome_opt.problem.result import Result
from metronome_opt.solvers.multiobjective.front import Front

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

_DPI = 100


def show_result(result: Result) -> str:
    """Return what a result gained as HTML, with its picture and the table of jobs."""
    from metronome_opt.plot import plot_result

    times = IterationTimes.of(result)
    gain = describe_gain(result, result.instance, times)
    return _page(
        (*gain, *_notes(result.notes)), lambda: plot_result(result), describe_jobs(result, times)
    )


def show_front(front: Front) -> str:
    """Return the points of a front as HTML, with its picture."""
    from metronome_opt.plot import plot_front

    *lines, table = describe_front(front)
    return _page(
        (*lines, *_notes(front.notes)), lambda: plot_front(front).get_figure(root=True), [table]
    )


def _notes(notes: Sequence[str]) -> list[str]:
    return [f"note: {text}" for text in notes]


def _page(
    above: Iterable[Table | str], draw: Callable[[], Figure | None], below: Iterable[Table | str]
) -> str:
    return "".join([*map(_html, above), _picture(draw), *map(_html, below)])


def _html(part: Table | str) -> str:
    import pandas as pd

    if isinstance(part, str):
        return f"<div>{html.escape(part).replace(chr(10), '<br>')}</div>"
    columns = {str(column.header): map(str, column.cells) for column in part.columns}
    return pd.DataFrame({name: list(cells) for name, cells in columns.items()}).to_html(index=False)


def _picture(draw: Callable[[], Figure | None]) -> str:
    """Return a figure as an image; nothing without matplotlib."""
    with suppress(MissingBackendError):
        figure, stream = draw(), BytesIO()
        if figure is not None:
            from matplotlib import pyplot

            figure.savefig(stream, format="png", dpi=_DPI)
            pyplot.close(figure)
            encoded = base64.b64encode(stream.getvalue()).decode()
            return f'<img src="data:image/png;base64,{encoded}">'
    return ""
