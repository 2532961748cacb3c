"""Quantities are read by the grammar of Kubernetes and exactly; names are RFC 1123 labels."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import Naming, labels
from metronome_opt.kubernetes.claims.quantities import parse_quantity, quantity
from metronome_opt.scenario.placed_instance import Deployment, Task
from tests.kubernetes.claims.example import cluster_of

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
    with pytest.raises(InputError, match="bandwidth: must be from 0 to 9223372036854 Mbit/s"):
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


# ------------------------------------------------------------------ names

RFC_1123_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# Few letters, so that names often differ in case or punctuation alone.
NAMES = st.one_of(
    st.text(min_size=1, max_size=80), st.text(alphabet="aA0-_. ", min_size=1, max_size=70)
)


def naming(*tasks: Task) -> Naming:
    return Naming(Deployment(cluster_of({"n": "r"}), tasks), "default")


@given(st.lists(NAMES, min_size=1, max_size=12), st.data())
def test_labels_are_valid_distinct_and_independent_of_other_names(
    names: list[str], data: st.DataObject
) -> None:
    given_labels = labels(names)
    assert set(given_labels) == set(names)
    assert all(RFC_1123_LABEL.fullmatch(label) for label in given_labels.values())
    assert len(set(given_labels.values())) == len(set(names))
    part = data.draw(st.permutations(names))[: len(names) // 2 + 1]
    assert labels(part).items() <= given_labels.items()


def test_tasks_of_jobs_that_end_in_numbers_differ() -> None:
    jobs = ("a", "a-1", "a_1", "a" * 63)
    names = naming(*(Task(job, index, "n", ()) for job in jobs for index in range(12))).tasks
    assert len(set(names.values())) == len(names) == 48
    assert all(RFC_1123_LABEL.fullmatch(name) for name in names.values())
    assert names["a-1", 10] == "a-1-10"


def test_task_has_name_of_its_pod_unless_taken() -> None:
    names = naming(Task("a", 0, "n", (), "b-0", "team"), Task("b", 0, "n", ()))
    assert names.tasks["a", 0] == "b-0"
    assert names.tasks["b", 0].startswith("b-0-")
    assert (names.namespace_of("a"), names.namespace_of("b")) == ("team", "default")
    both = naming(*(Task(job, 0, "n", (), "worker-0", job) for job in ("a", "b")))
    assert set(both.tasks.values()) == {"worker-0"}  # in two namespaces
    assert naming(Task("a", 0, "n", (), "a.b")).tasks["a", 0] == "a-0"  # no label


@pytest.mark.parametrize("namespace", ["Default", ""])
def test_bad_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(InputError, match=f"namespace: '{namespace}'"):
        Naming(Deployment(cluster_of({"n": "r"}), ()), namespace)
