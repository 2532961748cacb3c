from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.quantities import quantity

LARGEST = (2**63 - 1) // 10**6
POWERS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def bits(text: str) -> int:
    """Read a quantity back: an integer and a decimal suffix."""
    match = re.fullmatch(r"([0-9]+)([kMGTPE]?)", text)
    assert match is not None
    return int(match[1] + "0" * POWERS[match[2]])


@given(
    st.one_of(
        st.integers(0, LARGEST),
        st.integers(0, 8).flatmap(lambda n: st.integers(0, 10**4).map(lambda x: x * 10**n)),
    )
)
def test_quantities_are_exact_and_canonical(mbit: int) -> None:
    text = quantity(mbit)
    assert bits(text) == mbit * 10**6
    if mbit:
        assert not text[:-1].endswith("000") or text.endswith("E")


@pytest.mark.parametrize(
    ("mbit", "text"),
    [
        (0, "0"),
        (1, "1M"),
        (1_000, "1G"),
        (12_345, "12345M"),
        (50_000, "50G"),
        (1_500_000, "1500G"),
        (10**6, "1T"),
        (10**9, "1P"),
        (10**12, "1E"),
        (9 * 10**12, "9E"),
    ],
)
def test_quantities_by_hand(mbit: int, text: str) -> None:
    assert quantity(mbit) == text


@pytest.mark.parametrize("mbit", [-1, LARGEST + 1, 10**100])
def test_what_a_quantity_cannot_hold_is_refused(mbit: int) -> None:
    with pytest.raises(InputError, match="does not fit a Kubernetes quantity"):
        quantity(mbit)
