"""Which window a burst takes and when it begins, by hand, for the gate and the simulator.

A burst is ready when the job has computed after the end of the burst before it; the job computes
from 0 on. Times are whole and of any unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A job that keeps its windows, burst by burst.

    Attributes
    ----------
    compute
        Computing before each burst of an iteration.
    lengths
        How long each burst takes, but for the last one.
    taken
        The windows that bursts take; None once the job has let go.
    begins
        When bursts begin.
    offset, period, starts, cushion
        The claim: bursts are due at `starts` from ``offset + k * period`` on.
    """

    name: str
    compute: tuple[int, ...]
    lengths: tuple[int, ...]
    taken: tuple[int | None, ...]
    begins: tuple[int, ...]
    offset: int
    period: int = 100
    starts: tuple[int, ...] = (0,)
    cushion: int = 0


# The fields of a case in their order, the last ones by name; "-" is None.
_TABLE = """
# Ends at 90 and 190, ready at 150 and 250.
early | 60 | 20 20 | 70 170 270 | 70 170 270 | 70
early, epoch long ago | 60 | 20 | 70 170 | 70 170 | -99930
# Ends at 100 and 200, ready at 160 and 260.
on time | 60 | 40 40 | 60 160 260 | 60 160 260 | 60
# Ends at 125: ready 25 late at 185, ends at 205; 5 late at 265, ends at 285; early at 345.
late by exactly a quarter | 60 | 65 20 20 | 60 160 260 360 | 60 185 265 360 | 60
# A quarter of 101 is 25.25. Ends at 126: ready 25 late at 186, ends at 196; early at 256.
less than a quarter of an odd period | 60 | 66 10 | 60 161 262 | 60 186 262 | 60 | period 101
# Ends at 127: ready 26 late at 187, and lets go. Ends at 197, ready at 257, and does not wait.
more than a quarter of an odd period | 60 | 67 10 | 60 161 - | 60 187 257 | 60 | period 101
# Ready at 186, 26 late. Then at 6320, when the next iteration is that of 6360, before 6400; at
# 6400 it is that of 6460, the first whose number is 64 or more.
lets go, and takes windows again | 60 | 66 6074 20 | 60 160 - 6460 | 60 186 6320 6460 | 60
# Ready at 260, 100 late: not yet a pause.
late by a period | 60 | 140 10 | 60 160 - | 60 260 330 | 60
# Ready at 261.
a pause | 60 | 141 10 | 60 360 460 | 60 360 460 | 60
# Ready at 186, 26 late; then at 6587, when iteration 64 is over.
a pause while let go | 60 | 66 6341 20 | 60 160 6660 6760 | 60 186 6660 6760 | 60
# Ends at 40, ready at 50; ends at 80, ready at 100.
two bursts, early | 20 10 | 20 10 20 | 20 70 120 170 | 20 70 120 170 | 20 | starts 0 50
# The second is ready 25 late at 95, ends at 105; then 5 late at 125, and early at 155.
second late by a quarter | 20 10 | 65 10 20 | 20 70 120 170 | 20 95 125 170 | 20 | starts 0 50
# The second is ready 46 late at 116. At 6360 the next iteration is that of 6420.
second lets go | 20 10 | 86 6224 20 | 20 70 6420 6470 | 20 116 6420 6470 | 20 | starts 0 50
# The first of the second iteration is ready 46 late at 166; the second does not wait either.
first lets go | 20 10 | 20 76 10 6214 | 20 70 120 - 6420 | 20 70 166 186 6420 | 20 | starts 0 50
# Ready at 60, 10 late, and on time for that. Ends at 80, ready at 140.
at first within the cushion | 60 | 20 | 50 150 | 60 150 | 50 | cushion 10
# Ready at 60, 11 late: not on time any more.
at first beyond the cushion | 60 | 20 | 149 249 | 149 249 | 49 | cushion 10
# Later it plays no part: 30 late at 180 is more than a quarter.
later no cushion | 60 | 60 10 | 50 150 - | 60 180 250 | 50 | cushion 10
# The second burst of an iteration has the same cushion, and the first decides alone.
both within it | 30 10 | 20 10 10 | 20 70 120 170 | 30 70 120 170 | 20 | starts 0 50 | cushion 10
"""


def _numbers(text: str) -> tuple[Any, ...]:
    return tuple(None if word == "-" else int(word) for word in text.split())


def _case(row: str) -> Case:
    name, compute, lengths, taken, begins, offset, *further = row.split(" | ")
    fields: dict[str, Any] = {"offset": int(offset), "compute": _numbers(compute)}
    fields |= {"lengths": _numbers(lengths), "taken": _numbers(taken), "begins": _numbers(begins)}
    for field, _, text in (part.partition(" ") for part in further):
        fields[field] = _numbers(text) if field == "starts" else int(text)
    return Case(name, **fields)


CASES = tuple(_case(row) for row in _TABLE.split("\n") if row and not row.startswith("#"))
