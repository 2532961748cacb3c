"""Classes of data have the rates that weights ask for."""

from __future__ import annotations

import pytest

from benchmarks.testbed.shaping import DataClass, data_classes


def test_weighted_classes_have_as_much_as_their_jobs_weigh() -> None:
    """10 of 16, two of 1 together 2 of 16, and 4 of 16."""
    assert data_classes([1, 10, 1, 4], "weighted") == {
        10: DataClass(tos=4, share=0.625),
        4: DataClass(tos=8, share=0.25),
        1: DataClass(tos=12, share=0.125),
    }


@pytest.mark.parametrize("weights", [[1], [1, 1], [1000, 1], [10**9, *range(1, 26)]])
def test_every_class_has_something_and_all_no_more_than_there_is(weights: list[int]) -> None:
    for service in ("weighted", "strict"):
        classes = data_classes(weights, service).values()
        assert len(classes) == len(set(weights))
        assert min(each.share for each in classes) > 0.007
        assert sum(each.share for each in classes) < 1.0 + 1e-9
        assert len({each.tos for each in classes}) == len(classes)
        assert all(each.tos % 4 == 0 and 0 < each.tos < 256 for each in classes)
        assert all(each.prio in range(8) for each in classes)
