"""Figures of the paper, without titles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import rc_context

from benchmarks.evaluation.blocks import DECISIONS, FACTORS
from benchmarks.evaluation.figures import Figures
from benchmarks.evaluation.picture import STYLES, Lines, draw_factor
from metronome_opt.files.documents import make_folder
from metronome_opt.output.figures.picture import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_COLUMN, _PAGE = 3.37, 7.0  # inches
_LETTERS: Any = {"font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8.0}
_SMALL = {"markersize": 3, "linewidth": 0.9, "elinewidth": 0.5}
_BLACK, _BLUE, _GREEN, _ORANGE = "#1a1a1a", "#0072B2", "#009E73", "#D55E00"  # of Okabe and Ito


def _line(decision: str) -> tuple[str, Mapping[str, Any]]:
    return DECISIONS[decision], {**STYLES[decision], **_SMALL}


_ROWS: Mapping[str, tuple[str, Lines]] = {
    "over-default/": (
        "default",
        {
            "no contention": _line("no contention"),
            "packing": ("nearest", _SMALL | {"color": _GREEN, "marker": "D"}),
            "all decisions": _line("both"),
        },
    ),
    "": (
        "nearest",
        {
            "no contention": _line("no contention"),
            "all decisions": _line("both"),
            "placement": _line("placement"),
            "windows": _line("windows"),
        },
    ),
}
"""Lines of the map by what they are compared with."""

_FLEETS = {
    (4, "metronome"): ("o--", _BLACK),
    (12, "metronome"): ("o-", _BLACK),
    (4, "mltcp"): ("s--", _ORANGE),
    (12, "mltcp"): ("s-", _ORANGE),
    (12, "crux"): ("^-", _BLUE),
    (12, "ideal"): ("_:", "#999999"),
}


def regimes(figures: Figures, picture: Picture) -> None:
    """Draw what packing, placement and windows bring, by factor."""
    shown = [tuple(each.rstrip(" %") for each in values.values()) for values in FACTORS.values()]
    widths = [0.6 + max(len(texts), len("".join(texts)) / 3) for texts in shown]
    grid = picture.subplots(len(_ROWS), len(FACTORS), sharey="row", width_ratios=widths)
    legend: dict[object, Any] = {}
    for axes_row, (over, (base, lines)) in zip(grid, _ROWS.items(), strict=True):
        gains = [0.0]
        for axes, texts, (factor, values) in zip(axes_row, shown, FACTORS.items(), strict=True):
            gains += draw_factor(axes, figures, over, values, lines)
            axes.set_xticks(range(len(values)), [] if over else texts)
            percent = ", %" if any("%" in each for each in values.values()) else ""
            axes.set_xlabel("" if over else factor + percent)
            axes.tick_params(length=2, pad=2)
            handles, labels = axes.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        margin = 0.15 * (max(gains) - min(gains))
        axes_row[0].set_ylim(min(gains) - margin, max(gains) + margin)
        axes_row[0].set_ylabel(f"shorter, %,\nthan {base}")
    picture.legend(
        [*legend.values()],
        [*map(str, legend)],
        loc="outside upper center",
        ncols=len(legend),
        frameon=False,
    )


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
            axes.plot(apart, gains, line, color=colour, ms=3, lw=0.8, label=f"{jobs}, {policy}")
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
    "regimes": _Drawn(regimes, _PAGE, 2.7),
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
