"""Small systems whose ends were worked out by hand, slot by slot of 10 ms; the links carry 100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.instance import Instance, Job, Link
from tests.builders import job


@dataclass(frozen=True)
class Case:
    """Jobs, where they start, and when their iterations end, in ms."""

    name: str
    instance: Instance
    offsets: Mapping[str, int]
    ends: Mapping[str, tuple[Fraction | int, ...]]
    sharing: str = "fair"

    @property
    def iterations(self) -> int:
        return len(next(iter(self.ends.values())))


def links(*jobs: Job, **capacities: int) -> Instance:
    named = {"link": 100, **capacities}
    return Instance(
        name="by-hand",
        slot_ms=10,
        links=tuple(Link(name=name, capacity=value) for name, value in named.items()),
        jobs=jobs,
    )


def starts(**offsets: int) -> dict[str, int]:
    return offsets


CASES = (
    # a crosses both links, b the wide one, c the narrow one (60). There a and c get 30 each, so b
    # gets 70 of the wide one. From 40 on, c sends 3000 and b 7000 until 140; a, with 3000 of its
    # 6000 left, then has the narrow link alone: 50 ms more.
    Case(
        "three with one bottleneck",
        links(
            job("a", 10, (4, 6, 100), links={"link": 1, "narrow": 1}),
            job("b", 11, (4, 7, 100), links={"link": 1}),
            job("c", 7, (4, 3, 100), links={"narrow": 1}),
            narrow=60,
        ),
        starts(a=0, b=0, c=0),
        {"a": (190,), "b": (140,), "c": (140,)},
    ),
    # A chain: a and b on the first link, b and c on the second, c and d on the third (200).
    # By 20, at 50, 50 and 150, b, c and d have sent 1000, 1000 and 3000. Then come three flows of
    # a: 25 each for a and b, so 75 for c, so 125 for d. By 60 a is done (1000 a flow), b has sent
    # 2000, c 4000, d 8000. At 50, 50 and 150 again b is done at 80, with c at 5000 and d at 11000;
    # at 100 and 100 c at 90, with d at 12000; and d, at 200, at 100.
    Case(
        "what goes down a chain",
        links(
            job("a", 1, (0, 1, 100), links={"link": 3}),
            job("b", 3, (0, 3, 100), links={"link": 1, "second": 1}),
            job("c", 6, (0, 6, 100), links={"second": 1, "third": 1}),
            job("d", 7, (0, 7, 200), links={"third": 1}),
            second=100,
            third=200,
        ),
        starts(a=2, b=0, c=0, d=0),
        {"a": (60,), "b": (80,), "c": (90,), "d": (100,)},
    ),
    # The heaviest cannot use more than 40 (its narrow link), so the link has 60 for the middle one,
    # whose own rate is 50, and 10 for the light one. By 40 they have sent 1600, 2000 and 400, and
    # the middle one is done. Then 40 and 60: the heaviest sends 2400 more till 100, the light one
    # 600 till 50.
    Case(
        "three classes",
        links(
            job("heavy", 4, (0, 4, 100), weight=3, links={"link": 1, "narrow": 1}),
            job("middle", 4, (0, 4, 50), weight=2),
            job("light", 1, (0, 1, 100), weight=1),
            narrow=40,
        ),
        starts(heavy=0, middle=0, light=0),
        {"heavy": (100,), "middle": (40,), "light": (50,)},
        "strict",
    ),
    # The light one has sent all of its 500 at 50, when the heavy one, without a break, goes on at a
    # rate that leaves nothing: it is done all the same.
    Case(
        "done at the moment when nothing is left",
        links(job("heavy", 10, (0, 5, 90), (5, 5, 100), weight=2), job("light", 5, (0, 5, 10))),
        starts(heavy=0, light=0),
        {"heavy": (100,), "light": (50,)},
        "strict",
    ),
    # Each flow of a gets twice what that of b gets, and a has two: 80 and 20 of the link. a sends
    # 2000 a flow at 40: 50 ms; b has sent 1000 of 2000 then: 10 ms more.
    Case(
        "weights and several flows",
        links(job("a", 2, (0, 2, 100), weight=2, links={"link": 2}), job("b", 2, (0, 2, 100))),
        starts(a=0, b=0),
        {"a": (50,), "b": (60,)},
        "weighted",
    ),
    # Flows on links of their own: two of a on `link`, one on `other`. With b on `link` all flows
    # there get 100 / 3, so a sends at 100 / 3 on `other` too, and c gets 200 / 3 of it.
    # b: 1000 at 100 / 3: 30. c: 4000, of which 2000 by 30, when a has 1000 of 2000 left; then a is
    # alone on `link` at 50, c at 50 as well: a is done at 50; c has sent 3000, the rest at 100: 60.
    Case(
        "flows on several links",
        links(
            job("a", 2, (0, 2, 100), links={"link": 2, "other": 1}),
            job("b", 1, (0, 1, 100)),
            job("c", 4, (0, 4, 100), links={"other": 1}),
            other=100,
        ),
        starts(a=0, b=0, c=0),
        {"a": (50,), "b": (30,), "c": (60,)},
    ),
    # a sends 1000 at up to 50, then 3000 at up to 100, without a break; b sends 2000 from 10 on.
    # From 10 both get 50: a's first burst lasts till 20; b is done at 50, when a has sent 1500 of
    # 3000, the rest alone: 65. a's next iteration is over at 115, before b bursts again at 250.
    Case(
        "a change of rate within a burst",
        links(job("a", 5, (0, 2, 50), (2, 3, 100)), job("b", 22, (1, 2, 100))),
        starts(a=0, b=0),
        {"a": (65, 115), "b": (240, 460)},
    ),
)
