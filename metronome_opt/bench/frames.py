"""The cases as one table for further work, exact numbers beside the rounded ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from metronome_opt.bench.cases import MeasuredCase

if TYPE_CHECKING:
    import pandas as pd


def cases_frame(cases: Sequence[MeasuredCase]) -> pd.DataFrame:
    """Return one row per case; what is not known is missing.

    `value`, `lower_bound` and `best_value` are exact text such as ``199/5``; the columns that end
    in ``_float`` are for plotting. Gaps and the primal integral are shares, times are seconds.
    """
    import pandas as pd

    return pd.DataFrame([_row(case) for case in cases])


def cases_csv(cases: Sequence[MeasuredCase]) -> str:
    """Return `cases_frame` as text, one line per case; what is missing is empty."""
    return str(cases_frame(cases).to_csv(index=False, lineterminator="\n"))


def _row(case: MeasuredCase) -> dict[str, Any]:
    record = case.record
    return {
        "suite": record.suite,
        "split": record.split,
        "instance": record.instance,
        "instance_sha256": record.instance_sha256,
        "jobs": _integer(None if record.offsets is None else len(record.offsets)),
        "solver": record.solver,
        "seed": record.seed,
        "time_limit_s": record.time_limit_s,
        "memory_limit_mb": _integer(record.memory_limit_mb),
        "workers": record.workers,
        "kind": record.kind,
        "status": record.status,
        "value": _exact(case.value),
        "value_float": _float(case.value),
        "lower_bound": _exact(case.bound),
        "lower_bound_float": _float(case.bound),
        "best_value": _exact(case.best),
        "solved": case.solved_s is not None,
        "runtime_s": record.runtime_s,
        "penalised_s": case.penalised_s,
        "build_s": record.build_s,
        "wall_s": record.wall_s,
        "peak_memory_mb": record.peak_memory_mb,
        "primal_gap": case.primal_gap,
        "certified_gap": None if case.value is None or case.bound is None else case.certified_gap,
        "primal_integral": case.primal_integral,
        "stop": record.stop,
        "error": record.error,
        "faults": "; ".join(record.faults) or None,
        "started": record.started,
        "commit": record.commit,
    }


def _integer(value: int | None) -> str | None:
    # As text, since a column of numbers with a gap in it would become one of floats.
    return None if value is None else str(value)


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
