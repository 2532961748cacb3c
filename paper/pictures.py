"""Figures of the paper, without titles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import rc_context

from benchmarks.evaluation.figures import Figures
from benchmarks.evaluation.picture import draw_regimes
from metronome_opt.files.documents import make_folder
from metronome_opt.output.figures.picture import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_COLUMN, _PAGE = 3.37, 7.0  # inches
_LETTERS: Any = {"font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8.0}
_BLACK, _BLUE, _ORANGE = "#1a1a1a", "#0072B2", "#D55E00"  # of Okabe and Ito


_FLEETS = {
    (4, "metronome"): ("o--", _BLACK),
    (12, "metronome"): ("o-", _BLACK),
    (4, "mltcp"): ("s--", _ORANGE),
    (12, "mltcp"): ("s-", _ORANGE),
    (12, "crux"): ("^-", _BLUE),
    (12, "ideal"): ("_:", "#999999"),
}
_NAMES = {"ideal": "no contention"}


def regimes(figures: Figures, picture: Picture) -> None:
    """Draw what packing, placement and windows bring, by factor."""
    draw_regimes(figures, picture, {"markersize": 3, "linewidth": 0.9, "elinewidth": 0.5})


def fleets(figures: Figures, picture: Picture) -> None:
    """Draw gains of fleets of equal jobs, by how far their periods are apart."""
    for axes, sharing in zip(picture.subplots(1, 2, sharey=True), ("fair", "tcp"), strict=True):
        for (jobs, policy), (line, colour) in _FLEETS.items():
            found = re.compile(
                rf"fleets/cluster=ring-{jobs},apart=([\d.]+),sharing={sharing}/{policy}/completion"
            )
            matches = [match for match in map(found.fullmatch, figures) if match]
            gains = [-figures[match[0]].mean for match in matches]
            apart = [100 * float(match[1]) for match in matches]
            name = f"{jobs}, {_NAMES.get(policy, policy)}"
            axes.plot(apart, gains, line, color=colour, ms=3, lw=0.8, label=name)
        axes.set_xlabel(f"periods apart, %, {'TCP' if sharing == 'tcp' else sharing}")
        axes.axhline(0, color=_BLACK, lw=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    names, labels = axes.get_legend_handles_labels()
    picture.legend(names, labels, loc="outside upper center", ncols=3, frameon=False)
    picture.axes[0].set_ylabel("shorter, %")


class _Drawn(NamedTuple):
    """How a picture is drawn, and its size in inches."""

    draw: Callable[[Figures, Picture], None]
    width: float
    height: float


PICTURES: Mapping[str, _Drawn] = {
    "regimes": _Drawn(regimes, _PAGE, 3.2),
    "fleets": _Drawn(fleets, _COLUMN, 1.75),
}
"""Figures by the names that the text uses."""


def draw(names: set[str], figures: Figures, folder: Path) -> None:
    """Draw figures into a folder, in letters like the paper's."""
    make_folder(folder)
    for name in sorted(names):
        with rc_context(_LETTERS):
            drawn = PICTURES[name]
            picture = new_figure(drawn.width, drawn.height)
            drawn.draw(figures, picture)
            save_figure(picture, folder / f"{name}.pdf")
