"""Every benchmark still runs; what it measures is not looked at here."""

from __future__ import annotations

import pytest

import benchmarks.__main__  # noqa: F401 (registers them)
from benchmarks.families.crowded import crowded
from benchmarks.registry import BENCHMARKS, Figure


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_each_benchmark_runs_once(name: str) -> None:
    entry = BENCHMARKS[name]
    assert entry.question.endswith("?")
    figures = list(entry.run(True))
    if name == "controller-speed" and not figures:
        pytest.skip("needs an API server: KUBECONFIG of a cluster")
    assert figures
    signed = ("added", "Pearson", "Spearman", "a burst that waits")  # a difference of times
    assert all(
        figure.value >= 0 or any(word in figure.name for word in signed) for figure in figures
    )


def test_a_bar_says_whether_it_holds() -> None:
    assert Figure("f", 3.0, "s", "<= 4").holds is True
    assert Figure("f", 5.0, "s", "<= 4").holds is False
    assert Figure("f", 5.0, "a second", ">= 4").holds is True
    assert Figure("f", 5.0, "s").holds is None


def test_the_crowded_fabric_is_a_leaf_spine_of_the_stated_size() -> None:
    instance = crowded(4, 5, 12, seed=3)
    assert instance == crowded(4, 5, 12, seed=3) != crowded(4, 5, 12, seed=4)
    assert len(instance.links) == 4 * 5 + 4
    assert len(instance.jobs) == 12
    for job in instance.jobs:
        uplinks = {link: count for link, count in job.links.items() if link.endswith("uplink")}
        tasks = sum(job.links.values()) - sum(uplinks.values())
        assert 3 <= tasks <= 8
        # A job inside one rack crosses no uplink; else all its tasks are behind some uplink.
        assert not uplinks or sum(uplinks.values()) == tasks
