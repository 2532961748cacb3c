r"""Figures as TeX, in the form that the last word of a key asks for.

``\val{KEY}`` is a number, ``\ci{KEY}`` one with its unit and interval, ``\num{KEY}`` a count.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.evaluation.figures import Figure, Figures
from benchmarks.evaluation.plan import read_plan
from metronome_opt.errors import InputError

_CHANGES = ("completion", "tail", "energy")
_LEVELS = ("running", "estimate", "free", "gated", "slowdown", "lateness")
_LEVEL = "{:.3f}"
_COUNTS = (
    *("seeds", "cells", "runs", "failed", "shorter", "longer", "tested"),
    *("solved", "instances", "harmed", "pairs", "saturated", "stable"),
)
KINDS = {
    **dict.fromkeys(_CHANGES, "{:+.1f}"),
    **dict.fromkeys(_LEVELS, _LEVEL),
    **dict.fromkeys(_COUNTS, "{:,.0f}"),
    **dict.fromkeys(("gap", "later", "lost", "met", "fitting"), "{:.1f}"),
    "error": "{:.0f}",
    **dict.fromkeys(("least", "median", "most"), "{:.2f}"),
}
"""Formats by the last word of a key: changes in per cent, levels in iterations alone."""

_OTHERS = ("jitter", "testbed", "ns3", "steps")
_HEAD = "% Made of recorded figures by `python -m paper`; a test holds it to them. Do not edit.\n"


def check_key(key: str, macro: str = "val") -> str:
    """Return the format of a figure.

    Raises
    ------
    InputError
        If the key is of no part or of no kind that there is, or the macro of another kind.
    """
    part, kind = key.split("/")[0], key.rpartition("/")[2].partition("@")[0]
    if part not in {*read_plan(), *_OTHERS}:
        raise InputError(f"\\{macro}{{{key}}}: {part} is no part; see benchmarks/evaluation")
    if kind not in KINDS:
        raise InputError(f"\\{macro}{{{key}}}: {kind} is no kind; choose from {', '.join(KINDS)}")
    form = "{:,.0f}" if macro == "num" else KINDS[kind]
    if macro != "num" and kind in _COUNTS:
        raise InputError(f"\\{macro}{{{key}}}: {kind} is a count; write \\num")
    return form


def number(value: float, form: str) -> str:
    """Return a number in the format of its kind; no zero has a sign."""
    text = form.format(value)
    plain = text.lstrip("+-")
    if not plain.strip("0."):
        return plain
    return f"${text}$" if text != plain else text.replace(",", "\\,")


def tex(figures: Figures, key: str, macro: str = "val", *, small: bool = False) -> str:
    """Return what a macro stands for; a visible gap if the figure is not recorded.

    In tables, `small`, a number goes without its unit, and with half the width of its interval.
    """
    form = check_key(key, macro)
    figure = figures.get(key)
    if figure is None:
        return f"\\missing{{{key}}}"
    mean = number(figure.mean, form)
    if macro != "ci":
        return mean
    unit = "" if form == _LEVEL else "\\,\\%"
    if small:
        return with_half(figure, form)
    if figure.low is None or figure.high is None:
        return "--"
    low, high = number(figure.low, form), number(figure.high, form)
    return f"{mean}{unit} ({low} to {high})"


def with_half(figure: Figure, form: str) -> str:
    """Return a number and half the width of its interval; TeX lays them out."""
    if figure.low is None or figure.high is None:
        return "--"
    half = form.replace("+", "").format((figure.high - figure.low) / 2)
    half = half if half == "0.0" else half.removeprefix("0")
    return f"\\around{{{number(figure.mean, form)}}}{{{half}}}"


def values_file(used: Iterable[tuple[str, str]], figures: Figures) -> str:
    """Return the file that defines what the macros of a text stand for."""
    lines = (f"\\recorded{{{macro}:{key}}}{{{tex(figures, key, macro)}}}\n" for macro, key in used)
    return _HEAD + "".join(lines)
