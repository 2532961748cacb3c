"""Clocks that stand still while something stops the processor.

A hypervisor may stop a processor for 100 ms at a time. Where all ranks of a network are on that
processor, their network stops with them, and by these clocks nothing has happened. A watcher on
the processor, this module as a program, goes before all ranks; it sees how late it wakes up.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

VARIABLE = "TESTBED_STOPPED"
"""Names the file in which the watcher adds up for how long its processor was stopped."""

_NAP_NS = 1_000_000
_PRIORITY = 50


def stopped_ns() -> int:
    """Return for how long the processor was stopped; 0 if nobody watches it."""
    return _watched()[0]


def wall_ns() -> int:
    """Return the time since the Unix epoch without that."""
    return time.time_ns() - stopped_ns()


def steady_ns() -> int:
    """Return the time of the clock that is never set, without that."""
    return time.monotonic_ns() - stopped_ns()


@cache
def _watched() -> Sequence[int]:
    path = os.environ.get(VARIABLE)
    if path is None:
        return (0,)
    with Path(path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)).cast("q")


def main() -> None:
    """Watch this processor as long as whoever started this is there."""
    parent = os.getppid()
    with Path(sys.argv[1]).open("r+b") as file:
        stopped = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    before = time.monotonic_ns()
    while os.getppid() == parent:
        time.sleep(_NAP_NS / 1e9)
        now = time.monotonic_ns()
        late = now - before - _NAP_NS
        if late > _NAP_NS:
            stopped[0] += late
        before = now


if __name__ == "__main__":
    main()
