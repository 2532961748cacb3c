"""YAML that is written reads back equal in all readers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.kubernetes.claims.files import dump_objects
from tests.tiers import examples

PRINTABLE = st.text(alphabet=st.characters(exclude_categories=["C", "Z"]), max_size=150)
VALUES = st.recursive(
    st.booleans() | st.integers() | PRINTABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE, inner, max_size=3),
    max_leaves=12,
)


@examples(40)  # long texts are slow to draw
@given(st.lists(st.dictionaries(PRINTABLE, VALUES, max_size=4), max_size=3))
def test_dump_reads_back_unchanged(objects: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(dump_objects(objects, header="two\nlines"))) == objects


@pytest.mark.parametrize(
    "text",
    # Numbers and truth values to some reader: YAML 1.1, YAML 1.2 or the one of Kubernetes.
    [
        *("1", "1.0", "1e3", "1_000", "0x1F", "0o17", ".1e3", ".5", "-1", "+1", "1:30", "50G"),
        *("2026-01-31", "y", "N", "yes", "No", "on", "off", "true", "null", "~", ".inf", "=", ""),
    ],
)
def test_ambiguous_text_is_quoted(text: str) -> None:
    assert re.search(r"^key: (['\"]).*\1$", dump_objects([{"key": text}]), re.MULTILINE)
