"""A worker whose solvers misbehave, each in its own way."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from metronome_opt.bench.worker import Tell, serve

Offsets = dict[str, int]

# The instance of tests.builders.two_jobs: 0 and 8 do not overlap, 0 and 0 do.
APART, TOGETHER = {"a": 0, "b": 8}, {"a": 0, "b": 0}


def found(tell: Tell, offsets: Offsets, value: str, bound: str | None = None) -> None:
    tell("progress", elapsed_s=0.1, incumbent=value, bound=bound, source="fake", offsets=offsets)


def end(tell: Tell, status: str = "feasible") -> None:
    tell("end", status=status, stop="finished", runtime_s=0.2, build_s=0.0, notes=["fake"])


def well(tell: Tell) -> None:
    found(tell, TOGETHER, "6000")
    found(tell, APART, "0", "0")
    end(tell, "optimal")


def slow(tell: Tell) -> None:
    time.sleep(0.3)
    well(tell)


def abort(_: Tell) -> NoReturn:
    os.write(2, b"free(): invalid pointer\n")
    os.abort()


def abort_after_schedule(tell: Tell) -> NoReturn:
    found(tell, TOGETHER, "6000")
    os.abort()


def abort_after_end(tell: Tell) -> NoReturn:
    well(tell)
    os.abort()


def fail(_: Tell) -> NoReturn:
    raise ValueError("a fault\nof two lines")


def leave(_: Tell) -> NoReturn:
    sys.exit("nothing to do")


def eat(_: Tell) -> NoReturn:
    eaten = []
    while True:
        eaten.append(b"x" * 2**26)
        time.sleep(0.02)


def eat_in_child(_: Tell) -> None:
    code = "import time; eaten = bytearray(b'x') * 300 * 2**20; time.sleep(600)"
    subprocess.run([sys.executable, "-c", code], check=False, start_new_session=True)


def fail_to_allocate(_: Tell) -> NoReturn:
    raise MemoryError


def hang(_: Tell) -> NoReturn:
    while True:
        time.sleep(1)


def hang_after_schedule(tell: Tell) -> NoReturn:
    found(tell, TOGETHER, "6000", "0")
    hang(tell)


def hang_in_child(_: Tell) -> NoReturn:
    """Start a process in a session of its own, as HiGHS is, and die without it."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    os.abort()


def fork_and_abort(_: Tell) -> None:
    """Leave a child that has no program of its own, as a pool of processes does."""
    if os.fork():
        os.abort()
    time.sleep(600)


def say_where(tell: Tell) -> None:
    tell("where", parent=os.getppid(), folder=str(Path.cwd()), temporary=tempfile.gettempdir())


def overlap_denied(tell: Tell) -> None:
    found(tell, TOGETHER, "0", "0")
    end(tell, "optimal")


def offset_outside(tell: Tell) -> None:
    found(tell, {"a": 0, "b": 28}, "0", "0")
    end(tell, "optimal")


def offset_negative(tell: Tell) -> None:
    found(tell, {"a": 0, "b": -12}, "0", "0")
    end(tell, "optimal")


def job_forgotten(tell: Tell) -> None:
    found(tell, {"a": 0}, "0", "0")
    end(tell, "optimal")


def bound_above_value(tell: Tell) -> None:
    found(tell, APART, "0", "1/3")
    end(tell)


def bound_without_schedule(tell: Tell) -> None:
    tell("progress", elapsed_s=0.1, incumbent=None, bound="6001", source="fake")
    end(tell, "unknown")


def proof_denied(tell: Tell) -> None:
    found(tell, TOGETHER, "6000", "1")
    end(tell, "optimal")


def infeasible(tell: Tell) -> None:
    end(tell, "infeasible")


def nothing(tell: Tell) -> None:
    end(tell, "unknown")


FAKES: dict[str, Callable[[Tell], None]] = {
    each.__name__: each
    for each in (
        *(well, slow, abort, abort_after_schedule, abort_after_end, fail, leave),
        *(eat, eat_in_child, fail_to_allocate, hang, hang_after_schedule, hang_in_child),
        *(fork_and_abort, say_where),
        *(overlap_denied, offset_outside, offset_negative, job_forgotten),
        *(bound_above_value, bound_without_schedule, proof_denied, infeasible, nothing),
    )
}


def run(document: dict[str, Any], tell: Tell) -> None:
    if document["solver"] == "never_ready":
        hang(tell)
    tell("ready")
    FAKES[document["solver"]](tell)


if __name__ == "__main__":
    sys.exit(serve(run, lambda: None))
