"""Results of several solvers side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metronome_opt.allocation.arguments import Problem
from metronome_opt.api import solve
from metronome_opt.problem.result import Result

if TYPE_CHECKING:
    import pandas as pd

_MEASURES = ("contention", "latency", "score_mean", "score_min")


def compare(results: Problem | Iterable[Problem]) -> pd.DataFrame:
    """Return one row per result: solver, objective and value, bound, gap, scores and seconds.

    A problem, such as the name of a shipped scenario, stands for its jobs starting when ready.

    Results of different objectives have no bound in common: there is then a column of bounds for
    each objective. Unknown values are missing (``<NA>``), not 0. Values are floats; the exact ones
    are in the results.
    """
    import pandas as pd

    rows, bounds = [], {}
    if isinstance(results, Problem):
        results = [results]
    found = [r if isinstance(r, Result) else solve(r, "unshifted") for r in results]
    is_one = len({result.schedule.primary_objective for result in found}) == 1
    for result in found:
        name, evaluation = result.schedule.primary_objective, result.evaluation
        bounds[name] = "lower_bound" if is_one else f"{name}_bound"
        row: dict[str, object] = {
            "solver": result.schedule.solver,
            "objective": name,
            "status": str(result.status),
            "value": result.value,
            bounds[name]: result.bound,
            "gap": result.gap,
            "seconds": result.schedule.runtime_s,
        }
        if evaluation is not None:
            row |= evaluation.objectives
            row |= {"score_mean": evaluation.score_mean, "score_min": evaluation.score_min}
        rows.append(row)
    numbers = ["value", *bounds.values(), "gap", *_MEASURES, "seconds"]
    frame = pd.DataFrame(rows, columns=["solver", "objective", "status", *numbers])
    frame[numbers] = frame[numbers].map(float, na_action="ignore").astype("Float64")
    return frame.set_index("solver")
