"""Checks of a claim that a training loop is to obey."""

from __future__ import annotations

from metronome_opt.gate.windows import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

FIELDS = ("offset_ms", "period_ms", "starts_ms", "cushion_ms", "gated", "traffic_class")
"""Fields of a claim, as people state it."""

_MAX_PERIOD_NS = 3600 * 10**9  # a longer one is a mistake in the unit
_MAX_BURSTS = 1024  # in an iteration, as claims limit it
_MAX_CLASS = 7  # of traffic
_MAX_QUOTED = 60
_LIMIT = 10**12  # of a time in its unit
_MAX_TEXT = 64  # characters


class ClaimError(Exception):
    """A claim cannot be obeyed; the text is one line that names location, value and remedy."""

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


def whole(value: Any, name: str) -> int:
    """Return a value that has to be an integer; anything else is a `ClaimError`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ClaimError(f"{name}: {quote(value)}: must be a whole number")
    return value


def check_claim(claim: Claim, name_of: Callable[[str], str], unit_ns: int = 1) -> Claim:
    """Return a claim that can be obeyed; any other one is a `ClaimError` in its names and unit."""

    def check(key: str, value: Any, lowest: int, above: int | None, rule: str) -> None:
        number = whole(value, name_of(key))
        if number < lowest or (above is not None and number >= above):
            raise ClaimError(f"{name_of(key)}: {shown(number)}: {rule}")

    def shown(value: int) -> str:
        return quote(value / unit_ns if value % unit_ns else value // unit_ns)

    period = claim.period_ns
    check("period_ms", period, 1, None, "must be positive")
    check("period_ms", period, 1, _MAX_PERIOD_NS + 1, "longer than an hour; check the unit")
    within = f"must be from 0 to below the period, {shown(period)}"
    check("offset_ms", claim.offset_ns, 0, period, within)
    check("cushion_ms", claim.cushion_ns, 0, None, "must be at least 0")
    count = len(claim.starts_ns)
    if not 1 <= count <= _MAX_BURSTS:
        name = name_of("starts_ms")
        raise ClaimError(f"{name}: {count} bursts: must be from 1 to {_MAX_BURSTS}")
    before = -1
    for start in claim.starts_ns:
        check("starts_ms", start, 0, period, within)
        order = "must be after the one before; state them in order"
        check("starts_ms", start, before + 1, None, order)
        before = start
    if not isinstance(claim.gated, bool):
        raise ClaimError(f"{name_of('gated')}: {quote(claim.gated)}: must be true or false")
    name = name_of("traffic_class")
    if not 0 <= whole(claim.traffic_class, name) <= _MAX_CLASS:
        raise ClaimError(f"{name}: {quote(claim.traffic_class)}: must be from 0 to {_MAX_CLASS}")
    return claim


def parse_claim(
    values: Mapping[str, Any], name_of: Callable[[str], str], job: str, unit_ns: int = 10**6
) -> Claim:
    """Return the claim of a job from numbers or texts of numbers by `FIELDS`, in some unit.

    All but the first two are optional; messages have the names of fields where they come from.
    """

    def time(key: str, value: Any) -> int:
        return _nanoseconds(value, name_of(key), unit_ns)

    starts = values.get("starts_ms", [0])
    if not isinstance(starts, list):
        raise ClaimError(f"{name_of('starts_ms')}: {quote(starts)}: must be a list")
    claim = Claim(
        offset_ns=time("offset_ms", values.get("offset_ms")),
        period_ns=time("period_ms", values.get("period_ms")),
        starts_ns=tuple(time("starts_ms", start) for start in starts),
        cushion_ns=time("cushion_ms", values.get("cushion_ms", 0)),
        job=job,
        gated=values.get("gated", True),
        traffic_class=values.get("traffic_class", 0),
    )
    return check_claim(claim, name_of, unit_ns)


def _nanoseconds(value: Any, name: str, unit_ns: int) -> int:
    """Return a time exactly; a float counts as the shortest decimals that stand for it."""
    # It takes longer to import than all that a gate needs whose claim is given by a program.
    from decimal import Decimal, InvalidOperation, localcontext

    unit = "milliseconds" if unit_ns == 10**6 else "microseconds"
    wrong = ClaimError(f"{name}: {quote(value)}: must be a number of {unit}, such as 12.5")
    is_number = isinstance(value, (int, float, str, Decimal)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, str) and len(value) > _MAX_TEXT):
        raise wrong
    try:
        number = Decimal(str(value).strip())
    except (InvalidOperation, ValueError):
        raise wrong from None
    if not number.is_finite() or number.copy_abs() >= _LIMIT:
        raise wrong
    if number == 0:  # of any exponent
        return 0
    with localcontext(prec=2 * _MAX_TEXT):
        exact = number * unit_ns
    if exact != exact.to_integral_value():
        raise ClaimError(f"{name}: {quote(value)}: finer than a nanosecond; give fewer decimals")
    return int(exact)
