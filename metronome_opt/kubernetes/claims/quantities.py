"""Quantities as Kubernetes writes them: bandwidths, cores, bytes, GPUs."""

from __future__ import annotations

import re
from fractions import Fraction

from metronome_opt.errors import InputError, quote

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_LARGEST_NUMBER = 10**6
_LONGEST = 100  # characters
_LARGEST = 2**63 - 1  # Kubernetes caps a quantity at a signed 64-bit integer

# The grammar of k8s.io/apimachinery, pkg/api/resource, without a minus sign.
_GRAMMAR = re.compile(
    r"\+?(?P<number>[0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"((?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_SCALES = {
    **{suffix: Fraction(1, 1000**step) for step, suffix in enumerate("mun", start=1)},
    **{suffix: Fraction(1000**step) for step, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**step) for step, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(value: object) -> Fraction:
    """Return the exact value of a Kubernetes quantity.

    Parameters
    ----------
    value
        Text such as ``50G``, ``64Gi``, ``500m``, ``1e3`` or ``.5``, or an integer.

    Raises
    ------
    InputError
        If it is no quantity, is negative, or more than a quantity can hold.
    """
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise InputError("must be a quantity that is not negative, such as 50G, 64Gi or 500m")
    scale = _SCALES[match["suffix"]] if match["suffix"] else Fraction(1)
    result = Fraction(f"0{match['number']}".rstrip(".")) * scale
    result *= Fraction(10) ** int(match["exponent"] or 0)
    if result > _LARGEST:
        raise InputError(f"must be at most {_LARGEST}, which is what a quantity can hold")
    return result


def parse_positive(where: str, text: str) -> Fraction:
    """Return a number above 0 and up to a million as it is typed, exactly; `where` it stands."""
    if _NUMBER.fullmatch(text) is None or not 0 < Fraction(text) <= _LARGEST_NUMBER:
        raise InputError(
            f"{where}: must be a number above 0 and up to {_LARGEST_NUMBER}, got {quote(text)}"
        )
    return Fraction(text)


def quantity(mbit_per_s: int) -> str:
    """Return a bandwidth as a canonical Kubernetes quantity in bit/s.

    Canonical means: an integer with the largest decimal suffix that keeps it one, so ``50000``
    Mbit/s is ``50G`` and ``12345`` is ``12345M``. A cluster stores such a quantity as it is.

    Raises
    ------
    InputError
        If it is negative or more than a quantity can hold.
    """
    if not 0 <= mbit_per_s * 10**6 <= _LARGEST:
        raise InputError(
            f"bandwidth: {quote(mbit_per_s)} Mbit/s does not fit a Kubernetes quantity; "
            f"it holds at most {_LARGEST // 10**6} Mbit/s"
        )
    steps = max(step for step in range(5) if mbit_per_s % 1000**step == 0)
    return f"{mbit_per_s // 1000**steps}{'MGTPE'[steps]}" if mbit_per_s else "0"


def milliseconds(microseconds: int) -> int | float:
    """Return a time in ms, as a decimal that reads back exactly."""
    whole, rest = divmod(microseconds, 1000)
    return microseconds / 1000 if rest else whole
