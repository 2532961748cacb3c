"""Figures that the paper may use: those of the evaluation, and others that are recorded.

``jitter/0.1/gated`` is how many cases of the test bed are gated at a jitter, and
``jitter/all,times=2.0/harmed`` in how many a job loses at twice of it; ``testbed/three/0.03/free``
is the mean iteration over the period of a case on real TCP, ``ns3/three/dcqcn/free`` over DCQCN.
``steps/h200/iteration/median`` is an iteration made of measured steps over the computed one, and
``steps/placements/error`` the median error of ratios of steps at two placements, in per cent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.evaluation.figures import Figure, Figures
from benchmarks.evaluation.plan import HOME as CHECKOUT
from benchmarks.evaluation.recorded import RECORDS
from benchmarks.evaluation.written import FIGURES, read_figures
from benchmarks.testbed.recorded import testbed_figures

_REPORTED = CHECKOUT / "benchmarks" / "reported"
_MEASURED = CHECKOUT / "benchmarks" / "measured.csv"


def recorded_figures(folder: Path = RECORDS) -> Figures:
    """Return all figures that are recorded; none of an evaluation that was not made."""
    figures = read_figures(folder) if (folder / FIGURES).exists() else {}
    return figures | dict(_reported()) | testbed_figures()


def _reported() -> Iterator[tuple[str, Figure]]:
    yield from _steps()
    for row in _rows(_REPORTED / "ns3.csv"):
        key = f"ns3/{row['case']}/{row['network']}"
        yield f"{key}/free", Figure(row["free"])
        yield f"{key}/gated", Figure(row["slots"])
    harmed: dict[str, float] = defaultdict(float)
    for row in _rows(_REPORTED / "jitter.csv"):
        yield f"jitter/{row['jitter']}/gated", Figure(row["gated cases"])
        harmed[f"jitter/all,times={row['times jitter']}/harmed"] += row["cases with harm"]
    yield from ((key, Figure(value)) for key, value in harmed.items())


def _steps() -> Iterator[tuple[str, Figure]]:
    """Yield measured steps over computed ones, and errors of predicted ratios of steps."""
    traffic = pd.read_csv(_MEASURED, index_col="model")
    is_computed = traffic["traffic"] == "computed"
    for name, column in {"iteration": "iteration_ms", "sending": "duty_cycle"}.items():
        ratios = traffic.loc[~is_computed, column] / traffic.loc[is_computed, column]
        for kind, value in zip(
            ("least", "median", "most"), ratios.quantile([0, 0.5, 1]), strict=True
        ):
            yield f"steps/h200/{name}/{kind}", Figure(value)
    for row in _rows(_REPORTED / "step-times-overlap.csv"):
        if (row["testbed"], row["ring"], row["hidden behind"]) == ("all", "as it ran", "nothing"):
            yield "steps/placements/pairs", Figure(row["pairs"])
            yield "steps/placements/error", Figure(row["median error %"])
            yield "steps/differing/pairs", Figure(row["differing"])
            yield "steps/differing/error", Figure(row["their median error %"])


def _rows(path: Path) -> list[dict[Hashable, Any]]:
    return pd.read_csv(path, comment="#").to_dict("records")
