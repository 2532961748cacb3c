"""Jobs on one link whose times are whole numbers, so that nothing is rounded and ties are ties.

The link carries 6 and bursts ask for 2, 3 or 6, so up to three bursts go at 2, 3, 4 or 6. A slot of
`SLOT` ms can be divided by 2 and by 3 twelve times before a time is no whole number.
"""

from __future__ import annotations

from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job, Link
from tests.strategies import phases

SLOT = 6**12
CAPACITY = 6
RATES = (2, 3, 6)


@st.composite
def meeting(draw: st.DrawFn, *, min_jobs: int = 2) -> Instance:
    """Draw up to three jobs that meet on a link, and may be stretched."""
    count = draw(st.integers(min_jobs, 3))
    return Instance(
        name="meeting",
        slot_ms=SLOT,
        links=(Link(name="link", capacity=CAPACITY),),
        jobs=tuple(
            Job(
                name=f"job-{index}",
                period=period,
                phases=draw(phases(period, 2, RATES)),
                links={"link": 1},
                max_stretch=draw(st.integers(0, 3)),
            )
            for index, period in enumerate(
                draw(st.lists(st.integers(1, 8), min_size=count, max_size=count))
            )
        ),
    )
