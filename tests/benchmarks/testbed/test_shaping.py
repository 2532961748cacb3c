"""Classes of data have the rates that weights ask for, and `tc` is told of them."""

from __future__ import annotations

import pytest

from benchmarks.testbed.shaping import DataClass, data_classes, shape_lines

BUCKET = "burst 16kb cburst 16kb quantum"
SMALL = "u32 match u16 0x0000 0xff80 at 2 flowid 1:2"


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


def test_classes_borrow_up_to_the_rate_and_are_selected_by_tos() -> None:
    """Quanta are as shares are, and packets of no class are in the last one."""
    classes = [DataClass(tos=4, share=0.75), DataClass(tos=8, share=0.25, prio=1)]
    first, second = "rate 75000kbit ceil 100mbit prio 0", "rate 25000kbit ceil 100mbit prio 1"
    assert shape_lines("r0", 100, classes) == [
        "qdisc add dev r0 root handle 1: htb default 11",
        f"class add dev r0 parent 1: classid 1:1 htb rate 100mbit {BUCKET} 60000",
        f"class add dev r0 parent 1:1 classid 1:10 htb {first} {BUCKET} 180000",
        f"class add dev r0 parent 1:1 classid 1:11 htb {second} {BUCKET} 60000",
        "class add dev r0 parent 1: classid 1:2 htb rate 1gbit quantum 60000",
        "qdisc add dev r0 parent 1:10 bfifo limit 250000",
        "qdisc add dev r0 parent 1:11 bfifo limit 250000",
        f"filter add dev r0 parent 1: protocol ip prio 1 {SMALL}",
        "filter add dev r0 parent 1: protocol ip prio 2 u32 match u8 0x04 0xfc at 1 flowid 1:10",
        "filter add dev r0 parent 1: protocol ip prio 2 u32 match u8 0x08 0xfc at 1 flowid 1:11",
    ]
