"""Numbers as the report shows them. What is not known is a dash, never 0; only 0 is shown as 0."""

from __future__ import annotations

import math
from fractions import Fraction

MISSING = "-"


def exact(value: Fraction | None, other: Fraction | None = None) -> str:
    """Return an exact number with ten digits: ``199/5`` is shown as 39.8.

    Where these do not tell it from `other`, it is shown as a fraction.
    """
    if value is None:
        return MISSING
    text = _ten_digits(value)
    return str(value) if other not in (None, value) and _ten_digits(other) == text else text


def _ten_digits(value: Fraction | None) -> str:
    return MISSING if value is None else f"{float(value):,.10g}"


def seconds(value: float | None) -> str:
    """Return seconds with three digits."""
    return three_digits(value)


def three_digits(value: float | None) -> str:
    """Return a number with three digits, more if it has more before the point."""
    if value is None or not math.isfinite(value):
        return MISSING
    if not value:
        return "0"
    # Rounding first, so that 9.999 has as many digits as 10.0.
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:,.{max(0, digits)}f}"


def percent(share: float | None) -> str:
    """Return a share in percent, with two digits after the point."""
    if share is None or not math.isfinite(share):
        return MISSING
    if 0 < share < 0.00005:
        return "<0.01 %"
    return f"{100 * share:.2f} %"


def count(value: int | None) -> str:
    """Return an integer."""
    return MISSING if value is None else f"{value:,}"
