"""Shares of a link that two bursts have while both are sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log

import numpy as np
import pandas as pd

from benchmarks.testbed.agreement import as_run
from benchmarks.testbed.cases import Case
from benchmarks.testbed.lasting import cells
from benchmarks.testbed.run import BedRun
from metronome_opt.engine.conditions import TcpShares

_CHANCE, _DELAY = 1.76, 12.0
_FEWEST = 30  # meetings that say something
_LEAST = 0.1  # of a burst, that is left of the first one when the second one begins
_CUT = 0.02  # shares nearer to none or all are errors of measurement


def shares(case: Case, run: BedRun) -> list[float]:
    """Return logarithms of the share of a burst over that of the one that it meets.

    Of two jobs, wherever two bursts alone meet: the earlier one has sent alone for a while, the one
    that ends first says which share it had, and the link is full all the time. Bursts alone take as
    long as the case states.
    """
    sent = sorted(
        (begin, end, job.bursts[0][1], name)
        for name, job in zip(case.job_names, case.jobs, strict=True)
        for _, begin, end in run.jobs[name].bursts_ms
    )
    found = []
    for before, old, new, after in zip(sent, sent[1:], sent[2:], sent[3:], strict=False):
        begin, end = new[0], min(old[1], new[1])
        left = old[2] - (begin - old[0])  # of the old one, in ms of the whole link
        alone = before[1] <= old[0] and max(old[1], new[1]) <= after[0]
        if old[3] == new[3] or not alone or left < _LEAST * old[2] or end <= begin:
            continue
        share = 1 - left / (end - begin) if old[1] < new[1] else new[2] / (end - begin)
        if _CUT < share < 1 - _CUT:
            found.append(log(share / (1 - share)))
    return found


def fitted(logarithms: Sequence[float]) -> TcpShares:
    """Return the distribution of shares that such logarithms come from.

    Their mean is that of `newcomer`, and their variance twice that of one share.
    """
    return TcpShares(
        spread=float(np.std(logarithms)) / 2**0.5, newcomer=float(np.exp(np.mean(logarithms)))
    )


def meetings(cases: Sequence[Case], runs: Iterable[BedRun]) -> pd.DataFrame:
    """Return what shares are like in the cells of two jobs, free, that meet often enough."""
    by_name = {case.name: case for case in cases if len(case.jobs) == 2}
    free = [run for run in runs if run.mode == "free"]
    rows = []
    for cell, group in cells(list(by_name.values()), free).items():
        case = as_run(by_name[cell.case], group[0])
        found = [each for run in group for each in shares(case, run)]
        if len(found) >= _FEWEST:
            over = case.burst_over_queue
            numbers = {**fitted(found)._asdict(), "meetings": len(found), "burst over queue": over}
            rows.append({**cell._asdict(), **numbers})
    return pd.DataFrame(rows)


def for_queue(burst_over_queue: float) -> TcpShares:
    """Return the shares of cubic that fit the measured ones at 200 Mbit/s.

    A burst is an average over as many queueing times as it lasts, and a newcomer lags behind by a
    number of them.
    """
    return TcpShares(
        spread=_CHANCE / burst_over_queue**0.5, newcomer=exp(-_DELAY / burst_over_queue)
    )


def refitted(table: pd.DataFrame) -> tuple[float, float]:
    """Return the two numbers of `for_queue` that are nearest to cells of `meetings`.

    Least squares, in which a meeting counts as much as any other.
    """
    over, count = table["burst over queue"], table["meetings"]
    chance = (count * table["spread"] / over**0.5).sum() / (count / over).sum()
    delay = -(count * np.log(table["newcomer"]) / over).sum() / (count / over**2).sum()
    return float(chance), float(delay)
