"""Formats of numbers in the paper. Unknown numbers are None, never 0."""

from __future__ import annotations

import math
from collections.abc import Iterable

from metronome_opt.bench.statistics import Interval

Numbers = dict[str, str | None]
"""The text of each macro by its name, None where nothing is recorded of it."""


def whole(value: float | None) -> str | None:
    """Return an integer with thousands apart."""
    return None if value is None else f"{round(value):,}"


def digits(value: float | None) -> str | None:
    """Return a positive number with three digits, those before the point all; 0 only for 0."""
    if value is None or not math.isfinite(value):
        return None
    if not value:
        return "0"
    # Rounding first, so that 9.996 has as many digits as 10.0.
    places = 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:,.{min(2, max(0, places))}f}" if abs(value) >= 0.005 else r"\ensuremath{<}0.01"


def percent(share: float | None) -> str | None:
    """Return a share in percent, without the sign: two places below 1, one from there on."""
    if share is None or not math.isfinite(share):
        return None
    value = 100 * share
    if value < 0:
        return rf"\ensuremath{{{value:.1f}}}"
    if 0 < value < 0.005:
        return r"\ensuremath{<}0.01"
    return "0" if not value else f"{value:.{2 if value < 0.995 else 1}f}"


def change(share: float | None) -> str | None:
    """Return a change in percent with its sign, one place: -0.195 is -19.5."""
    return None if share is None else rf"\ensuremath{{{_signed(share)}}}"


def change_with_interval(found: Interval | None) -> str | None:
    """Return the mean of changes and, smaller, the ends of its interval, where it has one."""
    if found is None:
        return None
    mean = f"${_signed(found.mean)}$"
    if found.low is None or found.high is None:
        return mean
    return rf"{mean} {{\scriptsize$[{_signed(found.low)}, {_signed(found.high)}]$}}"


def camel(name: str) -> str:
    """Return a name as it stands in a macro: ``cpsat-textbook`` is CpsatTextbook."""
    return "".join(part.capitalize() for part in name.replace("_", "-").split("-"))


def listed(values: Iterable[str]) -> str | None:
    """Return all different values that are not empty, in words; None if there is none."""
    return " and ".join(filter(None, dict.fromkeys(values))) or None


def _signed(share: float) -> str:
    text = f"{100 * share:+.1f}"
    return "0.0" if float(text) == 0 else text


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def latex_text(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return text.translate(_LATEX)
