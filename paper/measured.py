"""The numbers that single benchmarks found: fronts, stretch, placement, prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.stored import SUITES
from metronome_opt.bench.suites import read_suite
from paper.shown import Numbers, digits, whole

Figures = Mapping[str, Mapping[str, float]]
"""Figures of each benchmark by name."""

SEARCHES = {"Tree": "tree", "Beam": "beam", "Greedy": "greedy", "Spread": "spread"}
PLAYED = {
    "StrictFree": "strict, not held",
    "StrictStep": "strict, in step",
    "StrictQuiet": "strict, in step, without waiting",
    "FairFree": "fair, not held",
    "FairStep": "fair, in step",
    "FairQuiet": "fair, in step, without waiting",
}
"""Kinds of simulations that prediction is compared with, by names in macros."""

Show = Callable[[float | None], str | None]


def benchmark_numbers(figures: Figures) -> Numbers:
    """Return the numbers of all benchmarks, None for those that are not recorded."""
    return (
        _fronts(figures.get("fronts", {}))
        | _stretch(figures.get("idle-injection", {}))
        | _placement(figures.get("placement-gaps", {}), figures.get("placement-speed", {}))
        | _prediction(figures.get("prediction", {}))
    )


def percentage(value: float | None) -> str | None:
    """Return a number of percent with one place, 0 only for 0."""
    if value is None:
        return None
    return "0" if not value else f"{value:,.1f}" if abs(value) >= 0.05 else r"\ensuremath{<}0.1"


def correlation(value: float | None) -> str | None:
    """Return a coefficient of correlation with two places."""
    if value is None:
        return None
    return rf"\ensuremath{{{value:.2f}}}"


def _instances(family: str) -> str | None:
    """Return how many stored test instances a family has."""
    entries = read_suite(SUITES / family).index.instances
    return whole(sum(entry.split == "test" for entry in entries))


def _fronts(found: Mapping[str, float]) -> Numbers:
    return {
        "frontsInstances": _instances("paper") if found else None,
        "frontsComplete": whole(found.get("complete")),
        "frontsInTime": whole(found.get("complete within 60 s")),
        "frontsMedian": digits(found.get("median time")),
        "frontsPoints": digits(found.get("points of a front, mean")),
        "frontsMost": whole(found.get("points of a front, most")),
        "frontsFalse": whole(found.get("points that the judge refutes")),
    }


def _stretch(found: Mapping[str, float]) -> Numbers:
    each = [
        value
        for name, value in found.items()
        if name.endswith(", with over without") and name != "all, with over without"
    ]
    return {
        "stretchRatio": digits(found.get("all, with over without")),
        "stretchBest": digits(min(each, default=None)),
        "stretchWorst": digits(max(each, default=None)),
    }


def _placement(gaps: Mapping[str, float], speed: Mapping[str, float]) -> Numbers:
    found = {
        "placementSolved": percentage(gaps.get("solved exactly")),
        "placementContended": percentage(gaps.get("of these with contention at best")),
        "placementRank": digits(
            speed.get("filter, score and rank 5000 nodes, period of 400 slots")
        ),
    }
    columns: Mapping[str, tuple[str, Show]] = {
        "Mean": ("gap, mean", percentage),
        "Tail": ("gap, 90th percentile", percentage),
        "Worst": ("gap, worst", percentage),
        "Best": ("contention as at best", percentage),
    }
    for macro, name in SEARCHES.items():
        for end, (figure, show) in columns.items():
            found[f"placement{macro}{end}"] = show(gaps.get(f"{name}: {figure}"))
        found[f"placementGang{macro}"] = digits(speed.get(f"gang of 16 at 100 Gbit/s, {name}"))
    return found


def _prediction(found: Mapping[str, float]) -> Numbers:
    numbers = {
        "predictionJobs": whole(found.get("jobs")),
        "predictionHeld": whole(found.get("predicted to be held up")),
        "predictionMean": percentage(found.get("predicted, mean")),
    }
    columns: Mapping[str, tuple[str, Show]] = {
        "pearson": ("Pearson", correlation),
        "spearman": ("Spearman", correlation),
        "simulated": ("simulated, mean", percentage),
        "error": ("mean absolute error", percentage),
        "right": ("right to 1% of an iteration", whole),
    }
    for end, label in PLAYED.items():
        for macro, (figure, show) in columns.items():
            numbers[f"{macro}{end}"] = show(found.get(f"{label}: {figure}"))
    return numbers
