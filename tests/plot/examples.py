"""Two jobs on one link, small enough to know every slot of them."""

from __future__ import annotations

from metronome_opt.instance import Instance, Job, Link, Phase


def instance() -> Instance:
    """Return a link of 50 Gbit/s with two jobs, the heavier one second, and an unused link."""
    return Instance(
        name="example",
        slot_ms=5,
        links=(Link(name="spare", capacity=100), Link(name="node-0", capacity=50_000)),
        jobs=(
            Job(
                name=LIGHT,
                period=4,
                phases=(Phase(start=0, length=1, rate=20_000),),
                links={"node-0": 2},
            ),
            Job(
                name=HEAVY,
                period=6,
                weight=4,
                phases=(
                    Phase(start=0, length=1, rate=30_000),
                    Phase(start=3, length=2, rate=15_000),
                ),
                links={"node-0": 1},
            ),
        ),
    )


LIGHT, HEAVY = "light", "_heavy $x$"

# The demands of all twelve slots in Gbit/s. What is late before is 20 and 5, all of it of the
# light job with weight 1, so the contention is 25,000 / 12; after it is 5,000 / 12.
BEFORE = {LIGHT: 0, HEAVY: 0}
BEFORE_LIGHT = (40, 0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0)
BEFORE_HEAVY = (30, 0, 0, 15, 15, 0, 30, 0, 0, 15, 15, 0)

AFTER = {LIGHT: 3, HEAVY: 2}
AFTER_LIGHT = (0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 0, 40)
AFTER_HEAVY = (15, 0, 30, 0, 0, 15, 15, 0, 30, 0, 0, 15)
