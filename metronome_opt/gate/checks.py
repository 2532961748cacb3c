"""Checks of a claim that a training loop is to obey."""

from __future__ import annotations

from metronome_opt.gate.windows import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

MAX_PERIOD_NS = 3600 * 10**9
"""The maximum period; a longer one is a mistake in the unit."""

MAX_BURSTS = 1024
"""In an iteration, as claims limit it."""

MAX_CLASS = 7
"""The highest traffic class, of eight."""

FIELDS = ("offset_ms", "period_ms", "starts_ms", "cushion_ms", "gated", "traffic_class")
"""What a claim has, as people state it."""

_MAX_QUOTED = 60
_LIMIT_MS = 10**12
_LONGEST = 64  # characters


class ClaimError(Exception):
    """A claim cannot be obeyed; the text is one line that names place, value and remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def quote(value: object) -> str:
    """Return a value quoted and short, for a one-line message."""
    if isinstance(value, (dict, list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**_MAX_QUOTED:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "..."


def some(names: list[str]) -> str:
    """Return the first few of some names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(quote(name) for name in names[:3]) + more


def whole(value: Any, name: str) -> int:
    """Return a value that has to be an integer.

    Raises
    ------
    ClaimError
        If it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ClaimError(f"{name}: {quote(value)}: must be a whole number")
    return value


def _truth(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise ClaimError(f"{name}: {quote(value)}: must be true or false")


def _class(value: Any, name: str) -> None:
    if not 0 <= whole(value, name) <= MAX_CLASS:
        raise ClaimError(f"{name}: {quote(value)}: must be from 0 to {MAX_CLASS}")


def _in_nanoseconds(key: str) -> str:
    return key.replace("_ms", "_ns")


def checked(
    claim: Claim, called: Callable[[str], str] = _in_nanoseconds, unit_ns: int = 1
) -> Claim:
    """Return a claim that can be obeyed.

    `called` says what each of `FIELDS` is called where the claim comes from, and `unit_ns` is the
    unit in which values are stated there.

    Raises
    ------
    ClaimError
        If it cannot be obeyed.
    """
    offset, period_name, starts, cushion, gated, traffic_class = map(called, FIELDS)

    def fault(name: str, value: int, rule: str) -> ClaimError:
        return ClaimError(f"{name}: {_number(value, unit_ns)}: {rule}")

    period = whole(claim.period_ns, period_name)
    if period <= 0:
        raise fault(period_name, period, "must be positive")
    if period > MAX_PERIOD_NS:
        raise fault(period_name, period, "longer than an hour; check the unit")
    within = f"must be from 0 to below the period, {_number(period, unit_ns)}"
    if not 0 <= whole(claim.offset_ns, offset) < period:
        raise fault(offset, claim.offset_ns, within)
    if whole(claim.cushion_ns, cushion) < 0:
        raise fault(cushion, claim.cushion_ns, "must be at least 0")
    if not 1 <= len(claim.starts_ns) <= MAX_BURSTS:
        count = len(claim.starts_ns)
        raise ClaimError(f"{starts}: {count} bursts: must be from 1 to {MAX_BURSTS}")
    for start, before in zip(claim.starts_ns, (-1, *claim.starts_ns), strict=False):
        if not 0 <= whole(start, starts) < period:
            raise fault(starts, start, within)
        if start <= before:
            raise fault(starts, start, "must be after the one before; state them in order")
    _truth(claim.gated, gated)
    _class(claim.traffic_class, traffic_class)
    return claim


def from_milliseconds(values: Mapping[str, Any], called: Callable[[str], str], job: str) -> Claim:
    """Return the claim of a job that is stated in milliseconds, by `FIELDS`.

    Raises
    ------
    ClaimError
        If it cannot be obeyed.
    """
    offset, period, starts, cushion, *_ = map(called, FIELDS)
    listed = values.get("starts_ms", [0])
    if not isinstance(listed, list):
        raise ClaimError(f"{starts}: {quote(listed)}: must be a list")
    claim = Claim(
        offset_ns=_nanoseconds(values.get("offset_ms"), offset),
        period_ns=_nanoseconds(values.get("period_ms"), period),
        starts_ns=tuple(_nanoseconds(start, starts) for start in listed),
        cushion_ns=_nanoseconds(values.get("cushion_ms", 0), cushion),
        job=job,
        gated=values.get("gated", True),
        traffic_class=values.get("traffic_class", 0),
    )
    return checked(claim, called, 10**6)


def _nanoseconds(value: Any, name: str) -> int:
    """Return milliseconds in nanoseconds, exactly; `name` is for the message.

    A float counts as the shortest decimals that stand for it.
    """
    # It takes longer to import than all that a gate needs whose claim is given by a program.
    from decimal import Decimal, InvalidOperation

    wrong = ClaimError(f"{name}: {quote(value)}: must be a number of milliseconds, such as 12.5")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise wrong
    if isinstance(value, str) and len(value) > _LONGEST:
        raise wrong
    try:
        number = Decimal(str(value).strip())
    except (InvalidOperation, ValueError):
        raise wrong from None
    if not number.is_finite() or number.copy_abs() >= _LIMIT_MS:
        raise wrong
    if number == 0:
        return 0
    if number.copy_abs() >= Decimal("1e-6"):
        whole, part = number.as_integer_ratio()
        exact, rest = divmod(whole * 10**6, part)
        if not rest:
            return exact
    raise ClaimError(f"{name}: {quote(value)}: finer than a nanosecond; give at most 6 decimals")


def _number(value: int, unit: int) -> str:
    exact, rest = divmod(abs(value), unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    sign = "-" if value < 0 else ""
    return sign + quote(exact) + (f".{digits}" if digits else "")
