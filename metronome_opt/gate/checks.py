"""What a claim has to be for a training loop to obey it."""

from __future__ import annotations

from metronome_opt.gate.plan import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_NS = 3600 * 10**9
"""The longest period that anybody waits for; a longer one is a mistake in the unit."""

MOST_BURSTS = 1024
"""In an iteration, as claims limit it."""

_SHOWN = 60


class ClaimError(Exception):
    """A claim cannot be obeyed; the text is one line that names place, value and remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Names:
    """What the values of a claim are called where it comes from, and their unit in nanoseconds."""

    def __init__(
        self, offset: str, period: str, starts: str, cushion: str, gated: str, unit: int
    ) -> None:
        self.offset, self.period, self.starts, self.cushion = offset, period, starts, cushion
        self.gated, self.unit = gated, unit


_NANOSECONDS = Names("offset_ns", "period_ns", "starts_ns", "cushion_ns", "gated", 1)


def show(value: object) -> str:
    """Return a value as it may stand in a one-line message."""
    if isinstance(value, (dict, list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**_SHOWN:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def some(names: list[str]) -> str:
    """Return the first few of some names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(show(name) for name in names[:3]) + more


def whole(value: Any, name: str) -> int:
    """Return a value that has to be an integer.

    Raises
    ------
    ClaimError
        If it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ClaimError(f"{name}: {show(value)}: must be a whole number")
    return value


def truth(value: Any, name: str) -> bool:
    """Return a value that has to be true or false.

    Raises
    ------
    ClaimError
        If it is neither.
    """
    if not isinstance(value, bool):
        raise ClaimError(f"{name}: {show(value)}: must be true or false")
    return value


def checked(claim: Claim, names: Names = _NANOSECONDS) -> Claim:
    """Return a claim that can be obeyed.

    Raises
    ------
    ClaimError
        If it cannot.
    """

    def fault(name: str, value: int, rule: str) -> ClaimError:
        return ClaimError(f"{name}: {_number(value, names.unit)}: {rule}")

    period = whole(claim.period_ns, names.period)
    if period <= 0:
        raise fault(names.period, period, "must be positive")
    if period > LONGEST_NS:
        raise fault(names.period, period, "longer than an hour; check the unit")
    within = f"must be from 0 to below the period, {_number(period, names.unit)}"
    if not 0 <= whole(claim.offset_ns, names.offset) < period:
        raise fault(names.offset, claim.offset_ns, within)
    if whole(claim.cushion_ns, names.cushion) < 0:
        raise fault(names.cushion, claim.cushion_ns, "must be at least 0")
    if not 1 <= len(claim.starts_ns) <= MOST_BURSTS:
        count = len(claim.starts_ns)
        raise ClaimError(f"{names.starts}: {count} bursts: must be from 1 to {MOST_BURSTS}")
    before = -1
    for start in claim.starts_ns:
        if not 0 <= whole(start, names.starts) < period:
            raise fault(names.starts, start, within)
        if start <= before:
            raise fault(names.starts, start, "must be after the one before; state them in order")
        before = start
    truth(claim.gated, names.gated)
    return claim


def _number(value: int, unit: int) -> str:
    exact, rest = divmod(abs(value), unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    sign = "-" if value < 0 else ""
    return sign + show(exact) + (f".{digits}" if digits else "")
