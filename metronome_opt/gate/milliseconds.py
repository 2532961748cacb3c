"""Milliseconds with decimals, as people write them, in whole nanoseconds."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from metronome_opt.gate.checks import ClaimError, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 10**12
_LONGEST = 64  # characters
_FINEST = Decimal("1e-6")


def nanoseconds(value: Any, name: str) -> int:
    """Return milliseconds in nanoseconds, exactly.

    Parameters
    ----------
    value
        A number, or text that is one; a float counts as the shortest decimals that stand for it.
    name
        What it is called, for the message.

    Raises
    ------
    ClaimError
        If it is no number, is not finite, or has more than six decimals.
    """
    wrong = ClaimError(f"{name}: {show(value)}: must be a number of milliseconds, such as 12.5")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise wrong
    if isinstance(value, str) and len(value) > _LONGEST:
        raise wrong
    try:
        number = Decimal(str(value).strip())
    except (InvalidOperation, ValueError):
        raise wrong from None
    if not number.is_finite() or number.copy_abs() >= _LARGEST:
        raise wrong
    if number == 0:
        return 0
    if number.copy_abs() >= _FINEST:
        whole, part = number.as_integer_ratio()
        exact, rest = divmod(whole * 10**6, part)
        if not rest:
            return exact
    raise ClaimError(f"{name}: {show(value)}: finer than a nanosecond; give at most 6 decimals")
