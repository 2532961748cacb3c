"""CASSINI: every link's best rotations on its circle, joined over the affinity graph."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.solvers import cassini
from metronome_opt.solvers.cassini import _time_shifts, shifts_of
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import HARD, evaluation_of, job, network
from tests.strategies import instances, jobs
from tests.tiers import examples


def solved(instance: Instance, **options: Any) -> Result:
    result = solve(instance, "cassini", **options)
    assert verify_schedule(instance, result.schedule) == ()
    return result


def has_note(result: Result, text: str) -> bool:
    return any(text in note for note in result.notes)


def best_on_circle(instance: Instance, link: Link) -> Fraction:
    """Return the minimum mean excess of a link over all rotations, each job by itself."""
    members = [each for each in instance.jobs if link.name in each.links]
    hyperperiod = math.lcm(*(each.period for each in members))
    around = hyperperiod if hyperperiod < 72 else 72
    patterns = []
    for each in members:
        once = np.zeros(each.period, dtype=np.int64)
        for phase in each.phases:
            once[phase.start : phase.end] = phase.rate * each.links[link.name]
        if each.fixed_offset is None:
            arc = Fraction(each.period, hyperperiod)  # the whole circle through r
            angles = [angle for k in range(around) if (angle := Fraction(k, around)) < arc]
            offsets = [math.floor(angle * hyperperiod) for angle in angles]
        else:
            offsets = [each.fixed_offset]
        circle = np.tile(once, hyperperiod // each.period)
        patterns.append(np.array([np.roll(circle, offset) for offset in offsets]))
    *outer, last = patterns
    minimum = min(
        np.maximum(0, sum(chosen) + last - link.capacity).sum(axis=1).min()
        for chosen in itertools.product(*outer)
    )
    return Fraction(int(minimum), hyperperiod)


# ---------------------------------------------------------------- one link


@st.composite
def scaled(draw: st.DrawFn) -> Instance:
    """Draw an instance of one link with a circle of 72 slots and more, mostly not multiples."""
    factor = draw(st.sampled_from((12, 13, 20, 36)))
    members = []
    for index in range(draw(st.integers(2, 3))):
        each = draw(jobs(f"job-{index}", [], max_period=3, max_phases=1))
        moved = None if each.fixed_offset is None else each.fixed_offset * factor + 1
        length = draw(st.integers(1, each.phases[0].length * factor))
        burst = each.phases[0].model_copy(
            update={"start": each.phases[0].start * factor, "length": length}
        )
        changes = {"period": each.period * factor, "phases": (burst,), "links": {"link": 1}}
        members.append(
            each.model_copy(update={**changes, "fixed_offset": moved, "current_offset": None})
        )
    return network(*members, capacity=draw(st.sampled_from((70, 100))))


@given(st.one_of(instances(max_jobs=4, max_links=1, max_period=8), scaled()))
@examples(80)
def test_single_link_gets_best_rotations(instance: Instance) -> None:
    result = solved(instance)
    for link, report in zip(instance.links, evaluation_of(result).links, strict=True):
        if report.jobs > 1:
            assert report.unserved == best_on_circle(instance, link)


# ---------------------------------------------------------------- the affinity graph


@st.composite
def trees(draw: st.DrawFn) -> Instance:
    """Draw an instance whose links and jobs form a tree, at most one of the jobs fixed."""
    uses: list[set[str]] = [set()]
    names = [f"link-{index}" for index in range(draw(st.integers(2, 4)))]
    for name in names:
        uses[draw(st.integers(0, len(uses) - 1))].add(name)
        uses += [{name} for _ in range(draw(st.integers(1, 2)))]
    held = draw(st.none() | st.integers(0, len(uses) - 1))
    members = []
    for index, used in enumerate(uses):
        each = draw(jobs(f"job-{index}", [], fixed=index == held, max_period=6))
        flows = {name: draw(st.integers(1, 2)) for name in sorted(used)}
        members.append(each.model_copy(update={"links": flows}))
    order = draw(st.permutations(members))
    links = tuple(Link(name=name, capacity=draw(st.sampled_from((50, 70, 100)))) for name in names)
    return Instance(name="tree", slot_ms=5, links=links, jobs=tuple(order))


@given(st.one_of(trees(), instances(max_jobs=4, max_links=3, max_period=6)))
@examples(100)
def test_links_keep_best_rotations_without_cycles(instance: Instance) -> None:
    result = solved(instance)
    cycles = has_note(result, "close a cycle")
    assert not (instance.name == "tree" and cycles)
    for link, report in zip(instance.links, evaluation_of(result).links, strict=True):
        if report.jobs > 1:
            best = best_on_circle(instance, link)
            # The circles are below 72 slots: they have all rotations, nothing beats their best.
            assert report.unserved >= best if cycles else report.unserved == best


@given(instances(max_jobs=6, max_links=5, fixed=False))
def test_edges_outside_spanning_forest_are_left_out(instance: Instance) -> None:
    rotations = {
        link: {instance.jobs[index].name: index for index in users}
        for link, users in instance.jobs_on.items()
        if len(users) > 1
    }
    graph = nx.Graph((link, ("job", name)) for link in rotations for name in rotations[link])
    forest = graph.number_of_nodes() - nx.number_connected_components(graph)
    shifts = _time_shifts(instance, rotations)
    assert shifts.closing == graph.number_of_edges() - forest
    assert evaluate(instance, shifts.offsets)


# ---------------------------------------------------------------- so much effort


@given(instances(max_jobs=4, max_links=3, max_period=6))
@examples(50)
def test_shifts_agree_with_solver(instance: Instance) -> None:
    shifts = shifts_of(instance, 1000)
    assert dict(shifts.offsets) == dict(solved(instance).offsets)
    assert shifts.closing == 0 or has_note(solved(instance), f"{shifts.closing} of")


def test_shifts_do_not_depend_on_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    first = shifts_of(HARD, 2)
    clock = itertools.count(step=1000)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    second = shifts_of(HARD, 2)
    assert first == second
    assert evaluate(HARD, first.offsets)


# ---------------------------------------------------------------- limits


def test_long_search_ends_with_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassini, "_CHUNK", 1)
    monkeypatch.setattr(cassini, "_CHUNKS", 2)
    result = solved(HARD, time_limit=None)
    assert result.stop_reason is StopReason.FINISHED
    assert has_note(result, "4 of 4 shared links may have better rotations")
    assert evaluation_of(result).contention < evaluation_of(solve(HARD, "unshifted")).contention


def test_weights_are_ignored() -> None:
    bursts = {"a": (24, (0, 9, 60)), "b": (36, (0, 20, 60)), "c": (24, (0, 13, 60))}
    equal, unequal = (
        network(*(job(n, *bursts[n], weight=w) for n, w in zip("abc", weights, strict=True)))
        for weights in ((1, 1, 1), (0, 100, 3))
    )
    assert solved(equal).offsets == solved(unequal).offsets
