"""HiGHS in a process of its own, which is killed when time is over.

A thread of HiGHS cannot be stopped: where it goes on past its limit, the interpreter aborts at its
end. The program reads a line of JSON, `deadline` (of the monotonic clock, or null), `costs` and
`rows`, and prints one: what `minimise` returns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from metronome_opt.allocation.slots.feasibility_models import Row, minimise
from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly
from metronome_opt.solvers.solve_process import end_with_parent

_ROOT = Path(__file__).parents[3]  # of the package


def minimise_in_process(
    budget: Budget, costs: Sequence[int], rows: Sequence[Row]
) -> tuple[bool, list[int] | None, float]:
    """Minimise as `minimise` does.

    Raises
    ------
    SolverError
        If HiGHS fails; the text is its last line.
    """
    if budget.stopped:
        return False, None, 0.0
    deadline = None if budget.remaining is None else time.monotonic() + budget.remaining
    task = json.dumps({"deadline": deadline, "costs": costs, "rows": rows})
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(  # noqa: S603 (this module)
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,  # open until the end: without this process the other one ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C in a terminal reaches it through us alone
    )

    def work() -> list[str]:
        assert process.stdin is not None  # noqa: S101 (pipes were asked for)
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(task + "\n")
        process.stdin.flush()
        return process.stdout.read().splitlines()

    try:
        lines = run_interruptibly(budget, work, process.kill)
    except BrokenPipeError:
        lines = []
    finally:
        process.kill()
        process.communicate()
    try:
        is_optimal, chosen, bound = json.loads((lines or [""])[-1])
    except ValueError:
        if budget.stopped:
            return False, None, 0.0
        raise SolverError(f"HiGHS fails: {(lines or ['no output'])[-1]}") from None
    return is_optimal, chosen, bound


def _main() -> None:
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    deadline = task["deadline"]
    budget = Budget(None if deadline is None else max(0.0, deadline - time.monotonic()))
    rows = [Row(tuple((factor, x) for factor, x in terms), most) for terms, most in task["rows"]]
    sys.stdout.write(json.dumps(minimise(budget, task["costs"], rows)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # whatever HiGHS still does


if __name__ == "__main__":
    _main()
