"""Names of objects are RFC 1123 labels, distinct, and independent of other names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import Naming, labels
from metronome_opt.scenario.placed_instance import Deployment, Task
from tests.kubernetes.claims.example import cluster_of

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
