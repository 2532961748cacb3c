"""Results of several solvers side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metronome_opt.allocation.arguments import Problem
from metronome_opt.api import solve
from metronome_opt.problem.result import Result

if TYPE_CHECKING:
    import pandas as pd


def compare(results: Iterable[Problem]) -> pd.DataFrame:
    """Return one row per result: solver, objective and value, bound, gap, scores and seconds.

    A problem, such as the name of a shipped scenario, stands for its jobs starting when ready.

    Results of different objectives have no bound in common: there is then a column of bounds for
    each objective. What is not known is missing (``<NA>``), not 0. Values are floats to read and
    plot; the exact ones are in the results.
    """
    import pandas as pd

    found = [r if isinstance(r, Result) else solve(r, "unshifted") for r in results]
    names = list(dict.fromkeys(result.schedule.primary_objective for result in found))
    rows = []
    for result in found:
        name, evaluation = result.schedule.primary_objective, result.evaluation
        bounds = {
            "lower_bound" if len(names) == 1 else f"{each}_bound": result.bound
            if each == name
            else None
            for each in names
        }
        exact = {
            "value": result.value,
            **bounds,
            "gap": result.gap,
            "contention": None if evaluation is None else evaluation.contention,
            "latency": None if evaluation is None else evaluation.objectives["latency"],
            "score_mean": None if evaluation is None else evaluation.score_mean,
            "score_min": None if evaluation is None else evaluation.score_min,
        }
        rows.append(
            {
                "solver": result.schedule.solver,
                "objective": name,
                "status": str(result.status),
                **{each: None if v is None else float(v) for each, v in exact.items()},
                "seconds": result.schedule.runtime_s,
            }
        )
    frame = pd.DataFrame(rows).set_index("solver")
    numbers = frame.columns.drop(["objective", "status"])
    return frame.astype(dict.fromkeys(numbers, "Float64"))
