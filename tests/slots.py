"""Which slot a burst takes and when it begins, worked out by hand, for the gate and the simulator.

A burst is ready when the job has computed after the end of the burst before it; the job computes
from 0 on. Times are whole and of any unit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A job that keeps its slots, burst by burst.

    Attributes
    ----------
    compute
        Computing before each burst of an iteration.
    lengths
        How long each burst takes, but for the last one.
    taken
        The slots that bursts take.
    begins
        When bursts begin.
    offset, period, starts, cushion
        The claim: bursts are due at `starts` from ``offset + k * period`` on.
    """

    name: str
    compute: tuple[int, ...]
    lengths: tuple[int, ...]
    taken: tuple[int, ...]
    begins: tuple[int, ...]
    offset: int
    period: int = 100
    starts: tuple[int, ...] = (0,)
    cushion: int = 0


CASES = (
    # Ends at 90 and 190, ready at 150 and 250.
    Case("early", (60,), (20, 20), (70, 170, 270), (70, 170, 270), offset=70),
    Case("early, epoch long ago", (60,), (20,), (70, 170), (70, 170), offset=-99_930),
    # Ends at 100 and 200, ready at 160 and 260.
    Case("on time", (60,), (40, 40), (60, 160, 260), (60, 160, 260), offset=60),
    # Ends at 130: ready 30 late at 190, ends at 210; 10 late at 270, ends at 290; early at 350.
    Case(
        "late by less than half",
        (60,),
        (70, 20, 20),
        (60, 160, 260, 360),
        (60, 190, 270, 360),
        offset=60,
    ),
    # Ends at 150: ready 50 late at 210, ends at 220; 20 late at 280, ends at 290; early at 350.
    Case(
        "late by exactly half",
        (60,),
        (90, 10, 10),
        (60, 160, 260, 360),
        (60, 210, 280, 360),
        offset=60,
    ),
    # Ends at 151: ready 51 late at 211, so 49 early for the next; ends at 280, ready at 340.
    Case("late by more than half", (60,), (91, 20), (60, 260, 360), (60, 260, 360), offset=60),
    # Half of 101 is 50.5. Ends at 151: ready 50 late at 211, ends at 221; 19 late at 281.
    Case(
        "late by less than half of an odd period",
        (60,),
        (91, 10),
        (60, 161, 262),
        (60, 211, 281),
        offset=60,
        period=101,
    ),
    # Ends at 152: ready 51 late at 212, so 50 early for the next; ends at 272, ready at 332.
    Case(
        "late by more than half of an odd period",
        (60,),
        (92, 10),
        (60, 262, 363),
        (60, 262, 363),
        offset=60,
        period=101,
    ),
    # Ready at 410, 250 late: the slot of two iterations later, 50 late. Ends at 420, ready at 480.
    Case(
        "late by two and a half periods",
        (60,),
        (290, 10),
        (60, 360, 460),
        (60, 410, 480),
        offset=60,
    ),
    # Ready at 411, 251 late: the slot of three iterations later, 49 early.
    Case(
        "late by more than two and a half periods",
        (60,),
        (291, 20),
        (60, 460, 560),
        (60, 460, 560),
        offset=60,
    ),
    # Ends at 40, ready at 50; ends at 80, ready at 100.
    Case(
        "two bursts, early",
        (20, 10),
        (20, 10, 20),
        (20, 70, 120, 170),
        (20, 70, 120, 170),
        offset=20,
        starts=(0, 50),
    ),
    # The second is ready 50 late at 120, ends at 130; then 30 late at 150 and 10 late at 180.
    Case(
        "two bursts, the second late by exactly half",
        (20, 10),
        (90, 10, 20, 10),
        (20, 70, 120, 170, 220),
        (20, 120, 150, 180, 220),
        offset=20,
        starts=(0, 50),
    ),
    # The second is ready 60 late at 130, so 40 early for the next; all after it are one later.
    Case(
        "two bursts, the second late by more than half",
        (20, 10),
        (100, 10, 20, 10),
        (20, 170, 220, 270, 320),
        (20, 170, 220, 270, 320),
        offset=20,
        starts=(0, 50),
    ),
    # The first of the second iteration is ready 70 late at 190, so 30 early for the next.
    Case(
        "two bursts, the first late by more than half",
        (20, 10),
        (20, 100, 20, 10),
        (20, 70, 220, 270, 320),
        (20, 70, 220, 270, 320),
        offset=20,
        starts=(0, 50),
    ),
    # Ready at 60, 10 late, and on time for that. Ends at 80, ready at 140.
    Case("at first within the cushion", (60,), (20,), (50, 150), (60, 150), offset=50, cushion=10),
    # Ready at 60, 11 late: not on time any more.
    Case("at first beyond the cushion", (60,), (20,), (149, 249), (149, 249), 49, cushion=10),
    # Later it plays no part: 50 late at 200, ends at 210; 20 late at 270; but 55 late at 405.
    Case(
        "later no cushion",
        (60,),
        (80, 10, 75, 10),
        (50, 150, 250, 450, 550),
        (60, 200, 270, 450, 550),
        offset=50,
        cushion=10,
    ),
    # The second burst of an iteration has the same cushion, and the first decides alone.
    Case(
        "two bursts, at first within the cushion",
        (30, 10),
        (20, 10, 10),
        (20, 70, 120, 170),
        (30, 70, 120, 170),
        offset=20,
        starts=(0, 50),
        cushion=10,
    ),
)
