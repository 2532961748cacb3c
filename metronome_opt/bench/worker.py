"""The processes in which cases run: ``python -m metronome_opt.bench.worker solver|simulation``.

When everything is loaded, standard output says so. Each line of standard input names a folder with
a case, as JSON. A child is forked for it; when that has ended, its exit status is a line of
standard output. The child reads what to do and says what happens, a JSON object a line: that it is
ready, every new incumbent with its offsets and every better bound, and how it ended. What was said
stays when it is killed. Both end when their standard input does, so that they do not outlive
whoever started them.

The clock of a case starts when everything that happens once per process is behind it: kernels are
loaded before the fork, as are our own solvers with their back ends, which have solved two jobs with
one thread by then. A child solves or simulates two jobs once more, because nobody knows what a
plug-in may not share with the process that it was forked from. What a solver does in every run,
starting HiGHS as a program, say, counts. The solver is called with a `Search` as `solve` does it,
but a schedule is only what the solver itself offered, never the unshifted one that `solve` falls
back to.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from metronome_opt.bench.process import LOADED, MARK, MESSAGES_FILE, OUTPUT_FILE, TASK_FILE
from metronome_opt.errors import InputError, SolverError
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.result import Event
from metronome_opt.solvers.registry import OWN_SOLVERS

if TYPE_CHECKING:
    import pandas as pd

_WARM_UP_S = 1.0
_LONGEST = 500  # characters of an error
_WARM = Path(__file__).parent / "templates" / "warm.yaml"


class Tell(Protocol):
    """Says something to whoever watches."""

    def __call__(self, event: str, **content: Any) -> None:
        """Say that `event` happened."""


Run = Callable[[dict[str, Any], Tell], None]


def serve(
    run: Run, load: Callable[[], object], warm: Callable[[dict[str, Any]], object] | None = None
) -> int:
    """Run tasks, each in a child, until standard input ends; return the exit status.

    Parameters
    ----------
    run
        Takes the task's document and `tell`. It says ``ready`` when its clock starts and ``end``
        when it is done; an exception is told for it.
    load
        Loads what all tasks need.
    warm
        Loads what a task like this one needs, before it is forked.
    """
    statuses = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else is to be printed there
    load()
    os.write(statuses, LOADED)
    for line in sys.stdin:
        folder = Path(json.loads(line))
        if warm is not None:
            warm(_read_task(folder))
        child = os.fork()
        if not child:
            os.close(statuses)
            os.setpgid(0, 0)
            status = _run_task(folder, run)
            for printing in (sys.stdout, sys.stderr):
                printing.flush()
            os._exit(status)  # to clear away all that was inherited would take 0.3 s
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(ProcessLookupError):  # what it has forked
            os.killpg(child, signal.SIGKILL)
        os.write(statuses, b"%d\n" % status)
    return 0


def _run_task(folder: Path, run: Run) -> int:
    """Run the task of a folder, in the child; return its exit status."""
    _move_to(folder)
    document = _read_task(folder)
    _end_with_parent()
    with (folder / MESSAGES_FILE).open("ab", buffering=0) as stream:

        def tell(event: str, **content: Any) -> None:
            # One write a line: threads cannot mix, and what was said is out.
            stream.write(json.dumps({"event": event, **content}).encode() + b"\n")

        try:
            run(document, tell)
        except MemoryError:
            tell("error", kind="out_of_memory", text="an allocation failed")
            return 1
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            tell("error", kind="crash", text=text[:_LONGEST])
            return 1
    return 0


def _read_task(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
    return document


def _move_to(folder: Path) -> None:
    """Work, print and keep temporary files in a folder; programs started there bear its mark."""
    os.chdir(folder)
    os.environ.update({MARK: str(folder), "TMPDIR": str(folder)})
    tempfile.tempdir = None  # so that TMPDIR is read again
    with (folder / OUTPUT_FILE).open("ab") as output:
        for printing in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), printing.fileno())


def _end_with_parent() -> None:
    """End, with all that was started from here, when standard input ends."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        for child in psutil.Process().children(recursive=True):
            child.kill()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# ------------------------------------------------------------------ solvers


def _run_solver(document: dict[str, Any], tell: Tell) -> None:
    """Run a solver on an instance and say what it finds."""
    from metronome_opt.solvers.registry import find_solver
    from metronome_opt.solvers.search import Search

    instance = Instance.from_dict(document["instance"])
    run = find_solver(document["solver"]).load()
    _warm_up(document["solver"], document["workers"])
    told: Fraction | None = None

    def on_event(event: Event, /) -> None:
        nonlocal told
        content: dict[str, Any] = {
            "elapsed_s": round(event.elapsed_s, 6),
            "incumbent": _exact(event.incumbent),
            "bound": _exact(event.bound),
            "source": event.source,
        }
        if event.incumbent != told:
            told = event.incumbent
            content["offsets"] = search.named()
        tell("progress", **content)

    tell("ready")
    search = Search(
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
    found = "feasible" if search.best is not None else "unknown"
    tell(
        "end",
        status="optimal" if search.proved else found,
        stop=str(search.stop),
        runtime_s=round(runtime, 6),
        build_s=round(search.build_s, 6),
        notes=search.notes,
    )


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else str(Fraction(value))


def _warm_up(solver: str, workers: int) -> None:
    """Solve two jobs that cannot avoid each other with `solver`; what fails fails again later."""
    from metronome_opt.solving import solve

    burst = Phase(start=0, length=3, rate=60)
    jobs = tuple(Job(name=name, period=4, phases=(burst,), links={"l": 1}) for name in "ab")
    links = (Link(name="l", capacity=100),)
    instance = Instance(name="warm", slot_ms=1, links=links, jobs=jobs)
    with suppress(Exception):
        solve(instance, solver, "contention", time_limit=_WARM_UP_S, workers=workers)


@cache
def _load_solver(name: str) -> None:
    """Load one of our solvers and its back end; one thread leaves nothing that a fork can tear."""
    if name in OWN_SOLVERS:
        _warm_up(name, workers=1)


def _load_kernels() -> None:
    """Compile or load all kernels."""
    from metronome_opt.kernels.__main__ import main as load_kernels

    load_kernels()


# ------------------------------------------------------------------ simulations


def _run_simulation(document: dict[str, Any], tell: Tell) -> None:
    """Simulate a scenario and say what it brings, or that it is refused."""
    from metronome_opt.scenario import Scenario, read_scenario
    from metronome_opt.simulate import Conditions, simulate

    try:
        scenario = Scenario.from_dict(document["scenario"])
        conditions = Conditions.model_validate(document["conditions"])
        policy = document["policy"]
        simulate(read_scenario(_WARM), policy, conditions=conditions)
        tell("ready")
        begin = time.perf_counter()
        seed, sample_s = document["seed"], document["sample_s"]
        run = simulate(scenario, policy, seed=seed, conditions=conditions, sample_s=sample_s)
    except InputError as error:
        tell("error", kind="refused", text=str(error))
        return
    tell(
        "end",
        runtime_s=round(time.perf_counter() - begin, 6),
        jobs=columns_of(run.jobs),
        links=columns_of(run.links),
        samples=columns_of(run.samples),
        makespan_s=float(run.makespan_s),
        events=int(run.events),
        notes=run.notes,
    )


def _load_policies() -> None:
    """Import everything, and compile or load what most policies need."""
    from metronome_opt.scenario import read_scenario
    from metronome_opt.simulate import simulate

    for policy in ("metronome", "cassini"):
        simulate(read_scenario(_WARM), policy)


def columns_of(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table as a list for each column, None for what is not known."""
    return {
        str(name): [None if value != value else value for value in column.tolist()]
        for name, column in frame.items()
    }


if __name__ == "__main__":
    if sys.argv[1] == "solver":
        sys.exit(serve(_run_solver, _load_kernels, lambda task: _load_solver(task["solver"])))
    sys.exit(serve(_run_simulation, _load_policies))
