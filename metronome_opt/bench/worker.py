"""The process of one task: ``python -m metronome_opt.bench.worker solver|simulation``.

It reads its task in the folder it is started in, and appends messages to a file there, a JSON
object a line: that it is ready, every new incumbent with its offsets and every better bound, and
how it ended. They stay when it is killed. It ends when its standard input does, so that it does
not outlive the process that started it.

The clock of a task starts when everything that happens once per process is behind it: kernels and
back ends are loaded by solving or simulating two jobs. What a solver does in every run, starting
HiGHS as a program, say, counts. The solver is called with a `SolverRun` as `solve` does it, but a
schedule is only what the solver itself offered, never the unshifted one that `solve` falls back to.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from metronome_opt.bench.process import MARK, MESSAGES_FILE, TASK_FILE, kill_marked
from metronome_opt.errors import InputError, PluginError, SolverError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent

if TYPE_CHECKING:
    import pandas as pd

_WARM_UP_S = 1.0
_ERROR_LENGTH = 500
_MAX_LINES = 50  # of a traceback, its last ones
_WARM_UP_SCENARIO = Path(__file__).parent / "templates" / "warm.yaml"


Send = Callable[..., None]
"""Sends an event, with fields by name, to the process that watches."""


def run_task(run: Callable[[dict[str, Any], Send], None]) -> int:
    """Run the task of the working directory; return the exit status.

    Parameters
    ----------
    run
        Takes the task's document. It sends ``ready`` when its clock starts and ``end`` when it is
        done; an exception is sent for it.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    document: dict[str, Any] = json.loads(Path(TASK_FILE).read_text(encoding="utf-8"))
    memory_mb = document.pop("memory_mb")
    if memory_mb is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_mb * 2**20
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with Path(MESSAGES_FILE).open("ab", buffering=0) as stream:

        def send(event: str, **content: Any) -> None:
            # One write a line: threads cannot mix, and the message stays when this process dies.
            stream.write(json.dumps({"event": event, **content}).encode() + b"\n")

        try:
            run(document, send)
        except MemoryError:
            send("error", kind="out_of_memory", text=f"more memory than {memory_mb} MB was needed")
            return 1
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            if isinstance(error, PluginError):
                text = str(error)
            lines = "".join(format_exception(error.__cause__ or error)).splitlines()
            notes = [line[:_ERROR_LENGTH] for line in lines[-_MAX_LINES:]]
            send("error", kind="crash", text=text[:_ERROR_LENGTH], notes=notes)
            return 1
    return 0


def _end_with_parent() -> None:
    """End, with all that was started from here, when standard input ends."""
    while os.read(0, 1):
        pass
    kill_marked(os.environ[MARK])
    os.killpg(0, signal.SIGKILL)


# ------------------------------------------------------------------ solvers


def _run_solver(document: dict[str, Any], send: Send) -> None:
    """Minimise the contention of an instance, and send each incumbent and bound."""
    from metronome_opt.solvers.registry import find_solver
    from metronome_opt.solvers.run import SolverRun

    instance = Instance.from_dict(document["instance"])
    run = find_solver(document["solver"]).load()
    _warm_up(document["solver"], document["workers"])
    last: Fraction | None = None

    def on_event(event: ProgressEvent, /) -> None:
        nonlocal last
        content: dict[str, Any] = {
            "elapsed_s": round(event.elapsed_s, 6),
            "incumbent": None if event.incumbent is None else str(Fraction(event.incumbent)),
            "bound": None if event.bound is None else str(Fraction(event.bound)),
            "source": event.source,
        }
        if event.incumbent != last:
            last = event.incumbent
            content["offsets"] = search.named()
        send("progress", **content)

    send("ready")
    search = SolverRun(
        instance,
        time_limit=document["time_limit_s"],
        seed=document["seed"],
        workers=document["workers"],
        callback=on_event,
    )
    try:
        run(search)
    except SolverError as error:
        if search.best is None:
            raise
        search.notes.append(f"stopped by an error: {error}")
    runtime = search.elapsed
    unproved = "feasible" if search.best is not None else "unknown"
    send(
        "end",
        status="optimal" if search.proved else unproved,
        stop=str(search.stop),
        runtime_s=round(runtime, 6),
        build_s=round(search.build_s, 6),
        notes=search.notes,
    )


def _warm_up(solver: str, workers: int) -> None:
    """Solve a few jobs with `solver`; a failure here is repeated later."""
    from metronome_opt.api import solve
    from metronome_opt.solvers.arguments import warm_up_instance

    with suppress(Exception):
        solve(warm_up_instance(), solver, "contention", time_limit=_WARM_UP_S, threads=workers)


# ------------------------------------------------------------------ simulations


def _run_simulation(document: dict[str, Any], send: Send) -> None:
    """Simulate a scenario and send its tables, or that it is refused."""
    from metronome_opt.scenario import Scenario, read_scenario
    from metronome_opt.simulation import Conditions, simulate

    try:
        scenario = Scenario.from_dict(document["scenario"])
        conditions = Conditions.model_validate(document["conditions"])
        policy = document["policy"]
        simulate(read_scenario(_WARM_UP_SCENARIO), policy, conditions=conditions)
        send("ready")
        begin = time.perf_counter()
        run = simulate(
            scenario,
            policy,
            seed=document["seed"],
            conditions=conditions,
            bounded=document["bounded"],
        )
    except InputError as error:
        send("error", kind="refused", text=str(error))
        return
    send(
        "end",
        runtime_s=round(time.perf_counter() - begin, 6),
        jobs=columns_of(run.jobs),
        links=columns_of(run.links),
        makespan_s=float(run.makespan_s),
        events=int(run.events),
        bound=run.bound,
    )


def columns_of(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table as a list for each column, None for what is not known."""
    return {
        str(name): [None if value != value else value for value in column.tolist()]
        for name, column in frame.items()
    }


if __name__ == "__main__":
    sys.exit(run_task(_run_solver if sys.argv[1] == "solver" else _run_simulation))
