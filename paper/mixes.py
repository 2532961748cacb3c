"""The studies of mixes on one link: what compatibility allows, and what control brings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean

from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import IDEAL, RIVAL, SUBJECT
from metronome_opt.simulate.study import Setting
from paper.shown import Numbers, camel, percent, whole
from paper.studies import MEAN, StudyRuns, changed, with_ends

GAINS = (IDEAL, RIVAL, SUBJECT)
Gains = Mapping[tuple[str, float], Mapping[str, Interval | None]]
"""The change under `GAINS` by number of jobs, in words, and best score of a mix."""

CONTROLS = ("once", "slots", "monitor")


def mix_numbers(snapshot: StudyRuns | None, control: StudyRuns | None) -> Numbers:
    """Return the numbers of both studies, None for what is not recorded."""
    return _snapshot(snapshot) | _control(control)


def gains(runs: StudyRuns) -> Gains:
    """Return the change of mean completion of each mix of `snapshot`."""
    found = {}
    for mix in map(str, runs.values("mix")):
        jobs, score = mix.split("-")
        part = runs.where(mix=mix)
        found[jobs, float(score)] = {policy: changed(part, policy, MEAN) for policy in GAINS}
    return found


def _snapshot(runs: StudyRuns | None) -> Numbers:
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


def controlled(
    runs: StudyRuns, *, wrong: bool, mix: str | None = None
) -> dict[str, Interval | None]:
    """Return the change of mean completion under each control and `ideal`, claims true or wrong.

    Parameters
    ----------
    mix
        One of them; None for all together.
    """
    error = _error(runs) if wrong else 0
    chosen: dict[str, Setting] = {"claim_error": error} | ({} if mix is None else {"mix": mix})
    found = {
        control: changed(runs.where(control=control, **chosen), SUBJECT, MEAN)
        for control in CONTROLS
    }
    return found | {IDEAL: changed(runs.where(control="slots", **chosen), IDEAL, MEAN)}


def _error(runs: StudyRuns) -> float:
    return max(float(value) for value in runs.values("claim_error"))


def _control(runs: StudyRuns | None) -> Numbers:
    found: Numbers = {}
    for wrong, stem in ((False, "control"), (True, "controlWrong")):
        by_control = {} if runs is None else controlled(runs, wrong=wrong)
        for control in (*CONTROLS, IDEAL):
            found |= with_ends(f"{stem}{camel(control)}", by_control.get(control))
    if runs is None:
        return found | dict.fromkeys(("controlJitter", "controlDrift", "controlError"))
    conditions = runs.records[0].conditions
    return found | {
        "controlJitter": _chosen(conditions.jitter),
        "controlDrift": whole(conditions.drift_ppm),
        "controlError": _chosen(_error(runs)),
    }


def _chosen(share: float) -> str:
    """Return a share that somebody chose, in percent without more digits than it has."""
    return f"{100 * share:g}"
