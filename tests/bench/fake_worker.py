"""A worker that neither solves nor simulates; what it does instead is the name of its solver."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from metronome_opt.bench.worker import Tell, columns_of, serve

# The instance of tests.builders.two_jobs: 0 and 8 do not overlap, 0 and 0 do.
APART, TOGETHER = {"a": 0, "b": 8}, {"a": 0, "b": 0}

# Offsets, value and bound that solvers state one after the other, and their status at the end.
Statement = tuple[dict[str, int] | None, str | None, str | None]
STATED: dict[str, tuple[list[Statement], str]] = {
    "well": ([(TOGETHER, "6000", None), (APART, "0", "0")], "optimal"),
    "overlap_denied": ([(TOGETHER, "0", "0")], "optimal"),
    "offset_outside": ([({"a": 0, "b": 28}, "0", "0")], "optimal"),
    "offset_negative": ([({"a": 0, "b": -12}, "0", "0")], "optimal"),
    "job_forgotten": ([({"a": 0}, "0", "0")], "optimal"),
    "bound_above_value": ([(APART, "0", "1/3")], "feasible"),
    "bound_without_schedule": ([(None, None, "6001")], "unknown"),
    "proof_denied": ([(TOGETHER, "6000", "1")], "optimal"),
    "infeasible": ([], "infeasible"),
    "nothing": ([], "unknown"),
}


def state(name: str, tell: Tell) -> None:
    statements, status = STATED[name]
    for offsets, value, bound in statements:
        progress(tell, offsets, value, bound)
    tell("end", status=status, stop="finished", runtime_s=0.2, build_s=0.0, notes=["fake"])


def progress(
    tell: Tell, offsets: dict[str, int] | None, value: str | None, bound: str | None = None
) -> None:
    more = {} if offsets is None else {"offsets": offsets}
    tell("progress", elapsed_s=0.1, incumbent=value, bound=bound, source="fake", **more)


def slow(tell: Tell) -> None:
    time.sleep(0.3)
    state("well", tell)


def abort(_: Tell) -> NoReturn:
    os.write(2, b"free(): invalid pointer\n")
    os.abort()


def abort_after_schedule(tell: Tell) -> NoReturn:
    progress(tell, TOGETHER, "6000")
    os.abort()


def abort_after_end(tell: Tell) -> NoReturn:
    state("well", tell)
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
    progress(tell, TOGETHER, "6000", "0")
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


def refuse(tell: Tell) -> None:
    tell("error", kind="refused", text="jobs[0].batch: is not to be had")


FAKES: dict[str, Callable[[Tell], None]] = {
    each.__name__: each
    for each in (
        *(slow, abort, abort_after_schedule, abort_after_end, fail, leave, refuse),
        *(eat, eat_in_child, fail_to_allocate, hang, hang_after_schedule, hang_in_child),
        *(fork_and_abort, say_where),
    )
}


def simulated(document: dict[str, Any], tell: Tell) -> None:
    """Tell of the jobs of the scenario; how long they took depends on the seed."""
    names = [job["name"] for job in document["scenario"]["jobs"]]
    times = [document["seed"] + 1 / 3] * len(names)
    jobs = pd.DataFrame({"job": names, "completion_s": times, "score": math.nan, "finished": True})
    tell(
        "end",
        runtime_s=0.25,
        jobs=columns_of(jobs),
        links=columns_of(pd.DataFrame({"link": ["l"], "carried_gbit": [0.1]})),
        samples={},
        makespan_s=max(times),
        events=7,
        notes=["fake"],
    )


def run(document: dict[str, Any], tell: Tell) -> None:
    name = document["policy" if "policy" in document else "solver"]
    if name == "never_ready":
        hang(tell)
    tell("ready")
    if name == "simulated":
        simulated(document, tell)
    elif name in STATED:
        state(name, tell)
    else:
        FAKES[name](tell)


if __name__ == "__main__":
    sys.exit(serve(run, lambda: time.sleep(1 if "slow" in sys.argv else 0)))
