"""Quantities are read by the grammar of Kubernetes, exactly, and written in canonical form."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.quantities import parse_quantity, quantity

LARGEST = (2**63 - 1) // 10**6


@given(
    st.one_of(
        st.integers(0, LARGEST),
        st.integers(0, 8).flatmap(lambda n: st.integers(0, 10**4).map(lambda x: x * 10**n)),
    )
)
def test_bandwidths_are_canonical_and_read_back_as_they_are_written(mbit_per_s: int) -> None:
    text = quantity(mbit_per_s)
    assert parse_quantity(text) == mbit_per_s * 10**6
    assert text == "0" or (text[:-1].isdigit() and text[-1] in "MGTPE")
    assert not text[:-1].endswith("000") or text.endswith("E")


@pytest.mark.parametrize("mbit", [-1, LARGEST + 1, 10**100])
def test_bandwidth_beyond_quantities_is_refused(mbit: int) -> None:
    with pytest.raises(InputError, match="does not fit a Kubernetes quantity"):
        quantity(mbit)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1.5Gi", 3 * 2**29),
        ("500m", Fraction(1, 2)),
        ("2u", Fraction(2, 10**6)),
        ("3n", Fraction(3, 10**9)),
        ("1e3", 1000),
        ("2E-1", Fraction(1, 5)),
        ("1E", 10**18),
        (".5k", 500),
        ("+7.", 7),
        (8, 8),
    ],
)
def test_quantities_by_the_grammar_of_kubernetes(text: str | int, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "1 G", "G", "1g", "1KiB", "0x10", "-1", "1e1000", "1" * 200, None, True, 1.5, "½"]
)
def test_malformed_quantities_are_refused(text: object) -> None:
    with pytest.raises(InputError, match="must be a quantity that is not negative"):
        parse_quantity(text)
