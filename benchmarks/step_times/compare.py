"""Do placements change step times as predicted? Tables, and causes of outliers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

import pandas as pd

from benchmarks.step_times.measurements import Step
from benchmarks.step_times.prediction import (
    TESTBEDS,
    Crossing,
    Overlap,
    Placement,
    communication_s,
    gradient_bytes,
    step_s,
)

OUTLIER = 0.4  # beyond it, a ratio is explained
DIFFERS = 1.2  # placements whose steps differ by so much say something about placements
_HALF_AN_OUTLIER = 0.18  # of two steps of an outlier one is off by sqrt(1.4) - 1 at least
_COMPUTING = (0.8, 1.25)  # times that of one GPU
_SHOWN: Sequence[Placement] = (
    *((2,), (1, 1), (4,), (2, 2), (1, 3), (8,), (4, 4), (1, 7), (8, 8), (8, 8, 8, 8)),
)


class Cause(StrEnum):
    """Why the ratio of two steps is not as predicted."""

    COMPUTING = "computing differs from one GPU's"
    WAITING = "waits for a slower worker"
    HIDDEN = "predicted too slow: hidden, or a faster network"
    SLOW_NETWORK = "predicted too fast: a slower network"


@dataclass(frozen=True)
class Prediction:
    """A measured step and what is predicted of it, in seconds."""

    step: Step
    seconds: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.seconds / self.step.seconds


@dataclass(frozen=True)
class Pair:
    """One job at two placements."""

    one: Prediction
    other: Prediction

    @property
    def measured(self) -> float:
        """The measured step of one placement over that of the other."""
        return self.one.step.seconds / self.other.step.seconds

    @property
    def error(self) -> float:
        """The larger of predicted and measured ratio over the smaller, less 1."""
        return _deviation(self.one.ratio / self.other.ratio)

    @property
    def differs(self) -> bool:
        """Whether the placement matters to the job, as measured."""
        return 1 + _deviation(self.measured) >= DIFFERS


def _deviation(ratio: float) -> float:
    return max(ratio, 1 / ratio) - 1


# ------------------------------------------------------------------ predictions and pairs


def predict(
    steps: Iterable[Step], overlap: Overlap = Overlap.NONE, crossing: Crossing | None = None
) -> list[Prediction]:
    """Predict each step of the step on one GPU; `crossing` instead of that of the testbed."""
    return [Prediction(step, _predicted_s(step, overlap, crossing)) for step in steps]


def _predicted_s(step: Step, overlap: Overlap, crossing: Crossing | None) -> float:
    size = gradient_bytes(step.model)
    network = communication_s(TESTBEDS[step.testbed], step.placement, size, crossing)
    return step_s(step.computing, network, size, overlap)


def pair_placements(predictions: Iterable[Prediction]) -> Iterator[Pair]:
    """Pair placements of a job: of equal GPUs, and even ones of different numbers of GPUs."""
    jobs: dict[tuple[str, str, int], list[Prediction]] = {}
    for each in predictions:
        jobs.setdefault(each.step.job, []).append(each)
    for mine in jobs.values():
        for one, other in combinations(mine, 2):
            is_even = len({*one.step.placement}) == len({*other.step.placement}) == 1
            if one.step.gpus == other.step.gpus or is_even:
                yield Pair(one, other)


# ------------------------------------------------------------------ causes of outliers


def find_causes(pair: Pair, baseline: Mapping[tuple[str, str, Placement], float]) -> list[Cause]:
    """Explain an outlier; `baseline`: the synchronisation of the smallest batch by placement."""
    causes = {
        cause
        for each in (pair.one, pair.other)
        if (cause := _find_cause(each, baseline)) is not None
    }
    return sorted(causes, key=list(Cause).index)


def _find_cause(
    each: Prediction, baseline: Mapping[tuple[str, str, Placement], float]
) -> Cause | None:
    """Explain why a step is not as predicted; None if it nearly is."""
    step, synchronisation = each.step, each.step.synchronisation
    if _deviation(each.ratio) < _HALF_AN_OUTLIER:
        return None
    if synchronisation is not None:
        low, high = _COMPUTING
        if not low <= (step.seconds - synchronisation) / step.computing <= high:
            return Cause.COMPUTING
        least = baseline[step.testbed, step.model, step.placement]
        if synchronisation - least > _HALF_AN_OUTLIER * step.seconds:
            return Cause.WAITING  # a larger batch has no more to send
    return Cause.HIDDEN if each.ratio > 1 else Cause.SLOW_NETWORK


def smallest_batches(steps: Iterable[Step]) -> dict[tuple[str, str, Placement], float]:
    """Return the synchronisation of the smallest batch by testbed, model and placement."""
    return {
        (step.testbed, step.model, step.placement): step.synchronisation
        for step in sorted(steps, key=lambda step: -step.batch)
        if step.synchronisation is not None
    }


# ------------------------------------------------------------------ tables


def summarise(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return median errors in per cent and outliers, of all pairs and of those that differ."""
    differing = [pair for pair in pairs if pair.differs]
    return {
        "pairs": len(pairs),
        "median error %": _median_percent(pair.error for pair in pairs),
        "differing": len(differing),
        "their median error %": _median_percent(pair.error for pair in differing),
        "outliers": sum(pair.error > OUTLIER for pair in pairs),
    }


def _median_percent(errors: Iterable[float]) -> float:
    found = list(errors)
    return 100 * statistics.median(found) if found else 0.0


def forms_table(steps: Sequence[Step]) -> pd.DataFrame:
    """Return how well each form of overlap predicts, by testbed, and placements that do nothing."""
    rows: list[dict[str, Any]] = []
    for testbed in ("all", *dict.fromkeys(step.testbed for step in steps)):
        mine = [step for step in steps if testbed in ("all", step.testbed)]
        for hops, crossing in (("as it ran", None), ("as processes", Crossing.PROCESSES)):
            for overlap in Overlap:
                predictions = predict(mine, overlap, crossing)
                rows.append(
                    {"testbed": testbed, "ring": hops, "hidden behind": str(overlap)}
                    | _step_error(predictions)
                    | summarise(list(pair_placements(predictions)))
                )
        same = [Prediction(step, step.computing) for step in mine]
        rows.append(
            {"testbed": testbed, "ring": "no communication", "hidden behind": "-"}
            | _step_error(same)
            | summarise(list(pair_placements(same)))
        )
    return pd.DataFrame(rows)


def _step_error(predictions: Iterable[Prediction]) -> dict[str, float]:
    return {"step error %": _median_percent(_deviation(each.ratio) for each in predictions)}


def placements_table(predictions: Sequence[Prediction]) -> pd.DataFrame:
    """Return medians over batches by testbed, model and placement.

    ``step`` is predicted over measured; ``ratio`` the same of the step over that of the reference,
    the first placement of the model in the list of those that are shown.
    """
    rows: list[dict[str, Any]] = []
    groups: dict[tuple[str, str], dict[Placement, dict[int, Prediction]]] = {}
    for each in predictions:
        of_model = groups.setdefault(each.step.job[:2], {})
        of_model.setdefault(each.step.placement, {})[each.step.batch] = each
    for (testbed, model), found in groups.items():
        shown = [placement for placement in _SHOWN if placement in found]
        for placement in shown:
            pairs = _beside(found[placement], found[shown[0]])
            ratios = [pair.one.ratio / pair.other.ratio for pair in pairs]
            rows.append(
                {
                    "testbed": testbed,
                    "model": model.removeprefix("muri "),
                    "placement": " ".join(map(str, placement)),
                    "batches": len(found[placement]),
                    "step": statistics.median(each.ratio for each in found[placement].values()),
                    "reference": " ".join(map(str, shown[0])),
                    "measured": statistics.median(pair.measured for pair in pairs),
                    "ratio": statistics.median(ratios),
                    "lowest": min(ratios),
                    "highest": max(ratios),
                }
            )
    return pd.DataFrame(rows)


def _beside(one: Mapping[int, Prediction], other: Mapping[int, Prediction]) -> list[Pair]:
    return [Pair(one[batch], other[batch]) for batch in one if batch in other]


def outliers_table(predictions: Sequence[Prediction]) -> pd.DataFrame:
    """Return pairs, outliers and their causes by testbed and model."""
    baseline = smallest_batches(each.step for each in predictions)
    rows: list[dict[str, Any]] = []
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pair_placements(predictions):
        groups.setdefault(pair.one.step.job[:2], []).append(pair)
    for (testbed, model), pairs in groups.items():
        causes = Counter(find_causes(pair, baseline)[0] for pair in pairs if pair.error > OUTLIER)
        rows.append(
            {"testbed": testbed, "model": model.removeprefix("muri ")}
            | summarise(pairs)
            | {str(cause): causes[cause] for cause in Cause}
        )
    return pd.DataFrame(rows)
