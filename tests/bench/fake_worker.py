"""A task that neither solves nor simulates; the name of its solver says what it does."""

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

from metronome_opt.bench.process import Send
from metronome_opt.bench.simulations import to_columns
from metronome_opt.scenario import Scenario

# The instance of tests.builders.two_jobs: 0 and 8 do not overlap, 0 and 0 do.
APART, TOGETHER = {"a": 0, "b": 8}, {"a": 0, "b": 0}

# Offsets, value and bound that solvers state one after the other, and their status at the end.
Statement = tuple[dict[str, int] | None, str | None, str | None]
STATED: dict[str, tuple[list[Statement], str]] = {
    "well": ([(TOGETHER, "6000", None), (APART, "0", "0")], "optimal"),
    "overlap_denied": ([(TOGETHER, "0", "0")], "optimal"),
    "offset_outside": ([({"a": 0, "b": 28}, "0", "0")], "optimal"),
    "bound_above_value": ([(APART, "0", "1/3")], "feasible"),
    "bound_without_schedule": ([(None, None, "6001")], "unknown"),
    "proof_denied": ([(TOGETHER, "6000", "1")], "optimal"),
    "infeasible": ([], "infeasible"),
    "nothing": ([], "unknown"),
}


def state(name: str, send: Send) -> None:
    statements, status = STATED[name]
    for offsets, value, bound in statements:
        progress(send, offsets, value, bound)
    send("end", status=status, stop="finished", runtime_s=0.2, build_s=0.0, notes=["fake"])


def progress(
    send: Send, offsets: dict[str, int] | None, value: str | None, bound: str | None = None
) -> None:
    more = {} if offsets is None else {"offsets": offsets}
    send("progress", elapsed_s=0.1, incumbent=value, bound=bound, source="fake", **more)


def abort(_: Send) -> NoReturn:
    os.write(2, b"free(): invalid pointer\n")
    os.abort()


def abort_after_schedule(send: Send) -> NoReturn:
    progress(send, TOGETHER, "6000")
    os.abort()


def abort_after_end(send: Send) -> NoReturn:
    state("well", send)
    os.abort()


def fail(_: Send) -> NoReturn:
    raise ValueError("a fault\nof two lines")


def eat(_: Send) -> NoReturn:
    eaten = []
    while True:
        eaten.append(b"x" * 2**26)


def abort_without_memory(_: Send) -> NoReturn:
    """End as a library in C++ does that is refused an allocation."""
    os.write(2, b"terminate called after throwing\n  what():  std::bad_alloc\n")
    os.abort()


def hang(_: Send) -> NoReturn:
    while True:
        time.sleep(1)


def hang_after_schedule(send: Send) -> NoReturn:
    progress(send, TOGETHER, "6000", "0")
    hang(send)


def hang_in_child(_: Send) -> NoReturn:
    """Start a process in a session of its own, as HiGHS is, and die without it."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    os.abort()


def fork_and_abort(_: Send) -> None:
    """Leave a child that has no program of its own, as a pool of processes does."""
    if os.fork():
        os.abort()
    time.sleep(600)


def say_where(send: Send) -> None:
    send("where", parent=os.getppid(), folder=str(Path.cwd()), temporary=tempfile.gettempdir())


def refuse(send: Send) -> None:
    send("error", kind="refused", text="jobs[0].batch: is not to be had")


FAKES: dict[str, Callable[[Send], None]] = {
    each.__name__: each
    for each in (
        *(abort, abort_after_schedule, abort_after_end, fail, refuse),
        *(eat, abort_without_memory, hang, hang_after_schedule, hang_in_child),
        *(fork_and_abort, say_where),
    )
}


def simulated(send: Send, scenario: Scenario, seed: int) -> None:
    """Send of the jobs of the scenario; how long they took depends on the seed."""
    import pandas as pd

    names = [job.name for job in scenario.jobs]
    times = [seed + 1 / 3] * len(names)
    jobs = pd.DataFrame({"job": names, "completion_s": times, "score": math.nan, "finished": True})
    send(
        "end",
        runtime_s=0.25,
        jobs=to_columns(jobs),
        links=to_columns(pd.DataFrame({"link": ["l"], "carried_gbit": [0.1]})),
        makespan_s=max(times),
        events=7,
        notes=["fake"],
    )


def run_fake(send: Send, **arguments: Any) -> None:
    """Do what the name of the solver or of the policy says."""
    name = arguments["policy" if "policy" in arguments else "solver"]
    if name == "never_ready":
        hang(send)
    send("ready")
    if name == "simulated":
        simulated(send, arguments["scenario"], arguments["seed"])
    elif name in STATED:
        state(name, send)
    else:
        FAKES[name](send)
