"""Shares of a link that two bursts have while both are sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import log

import numpy as np

from benchmarks.testbed.cases import Case
from benchmarks.testbed.run import BedRun
from metronome_opt.engine.conditions import TcpShares

_LEAST = 0.1  # of a burst, that is left of the first one when the second one begins
_CUT = 0.02  # shares nearer to none or all are errors of measurement


def shares(case: Case, run: BedRun) -> list[float]:
    """Return logarithms of the share of a burst over that of the one that it meets.

    Of two jobs, wherever two bursts alone meet: the earlier one has sent alone for a while, the one
    that ends first says which share it had, and the link is full all the time. Bursts alone take as
    long as the case states.
    """
    (a, b), (first, second) = (run.jobs[name].bursts_ms for name in case.job_names), case.jobs
    whole = (first.bursts[0][1], second.bursts[0][1])
    sent = sorted(
        chain(((*burst[1:], whole[0], 0) for burst in a), ((*burst[1:], whole[1], 1) for burst in b))
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
