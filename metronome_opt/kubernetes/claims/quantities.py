"""Quantities as Kubernetes writes them: bandwidths, cores, bytes, GPUs."""

from __future__ import annotations

import re
from fractions import Fraction

from metronome_opt.errors import InputError, quote

_MAX_NUMBER = 10**6
_MAX_QUANTITY = 2**63 - 1  # Kubernetes caps a quantity at a signed 64-bit integer

# The grammar of k8s.io/apimachinery, pkg/api/resource, without a minus sign.
_QUANTITY = re.compile(r"\+?([0-9.]{1,80})(?:([KMGTPE]i|[numkMGTPE])|([eE][+-]?[0-9]{1,2}))?")
_SUFFIXES = {
    **{suffix: Fraction(1, 1000**step) for step, suffix in enumerate("mun", start=1)},
    **{suffix: Fraction(1000**step) for step, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**step) for step, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(value: object) -> Fraction:
    """Return the exact value of a quantity, such as ``50G``, ``64Gi``, ``500m``, ``1e3`` or 8."""
    match = None if isinstance(value, (bool, float)) else _QUANTITY.fullmatch(str(value))
    try:
        if match is None:
            raise ValueError
        number, suffix, exponent = match.groups("")
        result = Fraction(number.rstrip(".") + exponent) * _SUFFIXES.get(suffix, 1)
    except ValueError:
        must = "must be a quantity that is not negative, such as 50G, 64Gi or 500m"
        raise InputError(must) from None
    if result > _MAX_QUANTITY:
        raise InputError(f"must be at most {_MAX_QUANTITY}, the largest quantity")
    return result


def parse_positive(where: str, text: str) -> Fraction:
    """Return a number above 0 and up to a million as it is typed, exactly; `where` it stands."""
    number = Fraction(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else Fraction(0)
    if not 0 < number <= _MAX_NUMBER:
        must = f"must be a number above 0 and up to {_MAX_NUMBER}"
        raise InputError(f"{where}: {must}, got {quote(text)}")
    return number


def quantity(mbit_per_s: int) -> str:
    """Return a bandwidth as a canonical Kubernetes quantity in bit/s.

    Canonical means: an integer with the largest decimal suffix that keeps it one, so ``50000``
    Mbit/s is ``50G`` and ``12345`` is ``12345M``. A cluster stores such a quantity as it is.
    """
    if not 0 <= mbit_per_s * 10**6 <= _MAX_QUANTITY:
        most = f"must be from 0 to {_MAX_QUANTITY // 10**6} Mbit/s, as a Kubernetes quantity"
        raise InputError(f"bandwidth: {most}, got {quote(mbit_per_s)}")
    steps = max(step for step in range(5) if mbit_per_s % 1000**step == 0)
    return f"{mbit_per_s // 1000**steps}{'MGTPE'[steps]}" if mbit_per_s else "0"
