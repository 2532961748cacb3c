"""Colours, hatches, sizes and texts that all figures share.

The colours are those of Okabe and Ito, "Color Universal Design" (2008), which colour-blind readers
can distinguish; black is kept for overload and replaced by grey. A job also has a hatch, so that a
print in black and white keeps the difference.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from typing import Any

TITLE, TEXT, SMALL = 11.0, 9.0, 8.0  # points
INK = "#1a1a1a"
PAPER = "#ececec"
BLUE = "#0072B2"

_COLOURS = (
    "#E69F00",  # orange
    "#56B4E9",  # sky blue
    "#009E73",  # bluish green
    "#F0E442",  # yellow
    BLUE,
    "#CC79A7",  # reddish purple
    "#D55E00",  # vermilion
    "#BBBBBB",  # grey
)
_LINES = ("#595959", BLUE, "#E69F00", "#009E73")
_HATCHES = (
    *("", "////", "....", "\\\\\\\\", "---", "oo", "|||", "++"),
    *("**", "//..", "\\\\..", "--..", "||..", "//oo", "O.", "/-"),
)

# Only overload is black under white crosses.
OVERLOAD: dict[str, Any] = {
    "facecolor": "black",
    "edgecolor": "white",
    "hatch": "xxx",
    "linewidth": 0.0,
}

SHEET: Any = {
    "text.parse_math": False,  # names may contain dollar signs
    "font.size": SMALL,
    "axes.titlesize": TEXT,
    "axes.titlelocation": "left",
    "axes.labelsize": TEXT,
    "axes.axisbelow": True,
    "figure.titlesize": TITLE,
    "figure.labelsize": TEXT,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
}
"""Settings while a picture is drawn."""


def job_style(position: int, bursts: int = 1) -> dict[str, Any]:
    """Return the patch properties of the job at `position` on its link.

    The first eight differ both in colour and in hatch, the first 128 in one of them. Outlines of
    many narrow bursts are thin, so that they do not hide the colours.
    """
    rounds = position // len(_HATCHES)
    return {
        "facecolor": _COLOURS[position % len(_COLOURS)],
        "edgecolor": INK,
        "hatch": _HATCHES[(position + rounds) % len(_HATCHES)],
        "linewidth": 0.6 * min(1.0, 30 / max(1, bursts)),
    }


def line_colour(position: int) -> str:
    """Return the colour of a line; grey, blue, orange and green come first."""
    colours = tuple(dict.fromkeys((*_LINES, *_COLOURS)))
    return colours[position % len(colours)]


# ------------------------------------------------------------------ policies


def sort_policies(policies: Collection[str]) -> tuple[str, ...]:
    """Return policies in their usual order, unknown ones last."""
    from metronome_opt.simulation.policies import BUILTIN_POLICIES

    def place(text: str) -> tuple[int, str]:
        name = text.partition(":")[0]
        return [*BUILTIN_POLICIES, name].index(name), text

    return tuple(sorted(policies, key=place))


# ------------------------------------------------------------------ words


MISSING = "-"


def shorten(name: str, longest: int = 34) -> str:
    """Return `name` without its middle if it is longer than `longest` characters."""
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"


def format_gbps(megabits: float) -> str:
    """Return a bandwidth given in Mbit/s as text in Gbit/s."""
    return f"{megabits / 1000:,.10g} Gbit/s"


def three_digits(value: float | None) -> str:
    """Return a number with three digits, more if it has more before the point."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:#,.3g}" if value and abs(value) < 99.95 else f"{value:,.0f}"


def contention_text(contention: Fraction) -> str:
    """Return a contention as text: three digits or more, 0 only if it is 0."""
    large = abs(contention) >= 1000
    number = f"{round(contention):,}" if large else f"{float(contention):.3g}"
    return f"contention {number} weight × Mbit/s"
