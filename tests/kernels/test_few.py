"""Freed jobs are placed optimally: no combination of their offsets is better, by the judge."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.kernels.few import (
    Few,
    blames,
    end_release,
    is_done,
    room_for,
    start_release,
    try_offsets,
)
from metronome_opt.verify import evaluate
from tests.kernels.schedules import Scheduled, scheduled, schedules
from tests.tiers import examples


def release(case: Scheduled, members: np.ndarray) -> Few:
    room = room_for(4, len(case.offsets), int(case.periods.max()))
    start_release(case.state, case.offsets, members, room)
    return room


@given(schedules(max_jobs=5), st.integers(1, 3), st.integers(0, 99), st.integers(1, 5))
@examples(40)
def test_best_combination_is_returned(case: Scheduled, size: int, seed: int, nodes: int) -> None:
    before, value = case.offsets.copy(), case.scaled()
    members = np.random.default_rng(seed).permutation(case.around.free)[:size]
    room = release(case, members)
    while not is_done(room):
        try_offsets(case.state, room, nodes)
    end_release(case.state, case.offsets, room)
    case.check(before)
    best = value
    for choice in product(*(range(case.instance.jobs[job].period) for job in members)):
        tried = before.copy()
        tried[members] = choice
        best = min(best, scheduled(case.instance, tried).scaled())
    assert case.scaled() == best
    assert best < value or (case.offsets == before).all()


@given(schedules(), st.integers(0, 6), st.integers(0, 99))
@examples(40)
def test_search_can_be_interrupted(case: Scheduled, nodes: int, seed: int) -> None:
    before, value = case.offsets.copy(), case.scaled()
    members = np.random.default_rng(seed).permutation(case.around.free)[:4]
    room = release(case, members)
    try_offsets(case.state, room, nodes)
    end_release(case.state, case.offsets, room)
    case.check(before)
    assert case.scaled() <= value


@given(schedules())
@examples(40)
def test_blame_is_marginal_cost(case: Scheduled) -> None:
    free = case.around.free
    found = blames(case.state, case.offsets, free)
    case.check(case.offsets)
    jobs = case.instance.jobs
    offsets = {job.name: int(at) for job, at in zip(jobs, case.offsets, strict=True)}
    whole = evaluate(case.instance, offsets).contention
    for job, blame in zip(free, found, strict=True):
        if len(jobs) > 1:
            rest = case.instance.replace(jobs=jobs[:job] + jobs[job + 1 :])
            others = {name: at for name, at in offsets.items() if name != jobs[job].name}
            added = whole - evaluate(rest, others).contention
            assert case.compiled.fraction(int(blame), int(job)) == added
