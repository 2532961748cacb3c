"""Figures of the paper: a column wide, without titles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.patches import Patch

from benchmarks.evaluation.blocks import DECISIONS, FACTORS, SHARING
from benchmarks.evaluation.figures import Figure, Figures
from metronome_opt.files.documents import make_folder
from metronome_opt.output.figures.picture import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_WIDTH, _HEIGHT = 3.37, 1.75  # inches
_LETTERS: Any = {"font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8.0}
_SHADES: Mapping[str, dict[str, Any]] = {
    "places": {"facecolor": "#0072B2", "label": "places"},
    "slots": {"facecolor": "#E69F00", "hatch": "....", "label": "slots"},
    "both": {"facecolor": "#56B4E9", "hatch": "////", "label": "both"},
}
_MARKS = {"cassini": "^", "mltcp": "s", "metronome": "o", "ideal": "k_"}
_FLEETS = {
    (4, "metronome"): "o--",
    (12, "metronome"): "o-",
    (4, "mltcp"): "s--",
    (12, "mltcp"): "s-",
    (12, "crux"): "^-",
    (12, "ideal"): "k_",
}


def attribution(figures: Figures, picture: Picture) -> None:
    """Draw what places and slots bring by GPUs of a node and by uplinks, against the nearest."""
    for axes, factor in zip(
        picture.subplots(1, 2, sharey=True), ("GPUs a node", "uplinks"), strict=True
    ):
        for at, label in enumerate(FACTORS[factor]):
            for number, (each, style) in enumerate(_SHADES.items(), start=-1):
                key = f"regimes/{label}/{DECISIONS[each]}/completion"
                gain = -figures.get(key, Figure(0.0)).mean
                axes.bar(at + 0.25 * number, gain, 0.25, edgecolor="white", **style)
        axes.set_xticks(range(len(FACTORS[factor])), FACTORS[factor].values())
        axes.set_xlabel(factor)
    names = [Patch(edgecolor="white", **style) for style in _SHADES.values()]
    picture.legend(handles=names, loc="outside upper center", ncols=3, frameon=False)
    picture.axes[0].set_ylabel("completion shorter, %")


def one_link(figures: Figures, picture: Picture) -> None:
    """Draw gains on one link by the best score that shifts can reach."""
    axes = picture.subplots()
    for policy, mark in _MARKS.items():
        found = re.compile(rf"one-link/mix=\w+-([\d.]+)/{policy}/completion")
        matches = [match for match in map(found.fullmatch, figures) if match]
        gains = [-figures[match[0]].mean for match in matches]
        axes.plot([float(match[1]) for match in matches], gains, mark, ms=4, label=policy)
    axes.set_xlabel("best score that shifts can reach")
    axes.set_ylabel("completion shorter, %")
    picture.legend(loc="outside upper center", ncols=4, frameon=False)


def fleets(figures: Figures, picture: Picture) -> None:
    """Draw gains of fleets of alike jobs, by how far their periods are apart."""
    for axes, sharing in zip(picture.subplots(1, 2, sharey=True), SHARING, strict=True):
        for (jobs, policy), line in _FLEETS.items():
            found = re.compile(
                rf"fleets/cluster=ring-{jobs},apart=([\d.]+),sharing={sharing}/{policy}/completion"
            )
            matches = [match for match in map(found.fullmatch, figures) if match]
            gains = [-figures[match[0]].mean for match in matches]
            apart = [100 * float(match[1]) for match in matches]
            axes.plot(apart, gains, line, ms=3, lw=0.8, label=f"{jobs}, {policy}")
        axes.set_xlabel(f"periods apart, %, {SHARING[sharing]}")
    names, labels = axes.get_legend_handles_labels()
    picture.legend(names, labels, loc="outside upper center", ncols=3, frameon=False)
    picture.axes[0].set_ylabel("completion shorter, %")


PICTURES: Mapping[str, Callable[[Figures, Picture], None]] = {
    each.__name__: each for each in (attribution, one_link, fleets)
}
"""Figures by the names that the text uses."""


def draw(names: set[str], figures: Figures, folder: Path) -> None:
    """Draw figures into a folder, in letters like the paper's."""
    make_folder(folder)
    for name in sorted(names):
        with rc_context(_LETTERS):
            picture = new_figure(_WIDTH, _HEIGHT)
            PICTURES[name](figures, picture)
            for axes in picture.axes:
                axes.axhline(0, color="#1a1a1a", lw=0.5)
                axes.spines[["top", "right"]].set_visible(False)
            save_figure(picture, folder / f"{name}.pdf")
