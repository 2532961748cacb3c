"""Bandwidths as Kubernetes writes quantities."""

from __future__ import annotations

from metronome_opt.errors import InputError, show

_SUFFIXES = ("M", "G", "T", "P", "E")
_LARGEST = 2**63 - 1  # Kubernetes caps a quantity at a signed 64-bit integer


def quantity(mbit_per_s: int) -> str:
    """Return a bandwidth as a canonical Kubernetes quantity in bit/s.

    Canonical means: an integer with the largest decimal suffix that keeps it one, so ``50000``
    Mbit/s is ``50G`` and ``12345`` is ``12345M``. A cluster stores such a quantity as it is.

    Parameters
    ----------
    mbit_per_s
        Bandwidth in Mbit/s, not negative.

    Raises
    ------
    InputError
        If it is more than a quantity can hold.
    """
    if not 0 <= mbit_per_s * 10**6 <= _LARGEST:
        raise InputError(
            f"bandwidth: {show(mbit_per_s)} Mbit/s does not fit a Kubernetes quantity; "
            f"it holds at most {_LARGEST // 10**6} Mbit/s"
        )
    if mbit_per_s == 0:
        return "0"
    number, step = mbit_per_s, 0
    while number % 1000 == 0 and step + 1 < len(_SUFFIXES):
        number //= 1000
        step += 1
    return f"{number}{_SUFFIXES[step]}"
