"""The study of mixes on one link: gains by compatibility."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean

from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import IDEAL, RIVAL, SUBJECT
from paper.shown import Numbers, percent, whole
from paper.studies import MEAN, StudyRuns, changed

GAINS = (IDEAL, RIVAL, SUBJECT)
Gains = Mapping[tuple[str, float], Mapping[str, Interval | None]]
"""The change under `GAINS` by number of jobs, in words, and best score of a mix."""


def gains(runs: StudyRuns) -> Gains:
    """Return the change of mean completion of each mix of `snapshot`."""
    found = {}
    for mix in map(str, runs.values("mix")):
        jobs, score = mix.split("-")
        part = runs.where(mix=mix)
        found[jobs, float(score)] = {policy: changed(part, policy, MEAN) for policy in GAINS}
    return found


def mix_numbers(runs: StudyRuns | None) -> Numbers:
    """Return the numbers of the study, None for what is not recorded."""
    names = (
        *("snapshotScores", "snapshotCompatible", "snapshotCompatibleLow"),
        *("snapshotCompatibleHigh", "snapshotNearLow", "snapshotNearHigh"),
        *("snapshotLossCassini", "snapshotLossMetronome"),
    )
    if runs is None:
        return dict.fromkeys(names)
    found = gains(runs)
    full = _shares(found, lambda score: score == 1.0)
    near = _shares(found, lambda score: 0.85 <= score < 1.0)
    values = (
        whole(len(found)),
        *(percent(each) for each in (fmean(full), min(full), max(full))),
        *(percent(each) for each in (min(near), max(near))),
        *(percent(_loss(found, policy)) for policy in (RIVAL, SUBJECT)),
    )
    return dict(zip(names, values, strict=True))


def _shares(
    found: Gains,
    wanted: Callable[[float], bool],
) -> list[float]:
    """Return what of the gain of `ideal` the subject has, in the mixes of the wanted scores."""
    shares = []
    for (_, score), by_policy in found.items():
        mine, ideal = by_policy[SUBJECT], by_policy[IDEAL]
        if wanted(score) and mine is not None and ideal is not None:
            shares.append(mine.mean / ideal.mean)
    return shares or [math.nan]


def _loss(found: Gains, policy: str) -> float:
    known = (by_policy[policy] for by_policy in found.values())
    return max((max(0.0, each.mean) for each in known if each), default=math.nan)
