"""Proofs of refutations in files: replayed by the judge, and refused where they are wrong."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from metronome_opt.compatible.problem import FitTask
from metronome_opt.compatible.proofs import prove, search_tree
from metronome_opt.compatible.solvers import find_fit
from metronome_opt.instance import Instance
from metronome_opt.schedule import Refutation, Schedule, Status
from metronome_opt.verify import check
from tests.builders import job, network
from tests.compatible.cases import fits, lightest, tiny_instance


def stated(instance: Instance, cushion: int, *refutations: Refutation) -> Schedule:
    return Schedule(
        instance=instance.name,
        offsets={},
        stretch={},
        status=Status.INFEASIBLE,
        objectives={},
        lower_bound=None,
        solver="auto",
        seed=0,
        runtime_s=0.0,
        cushion_slots=cushion,
        refutations=refutations,
    )


def mutations(proof: Refutation) -> list[Refutation]:
    """Return changes of a proof after which it is false or proves nothing."""
    name, period = next(iter(proof.periods.items()))
    wrong = [
        proof.model_copy(update={"periods": {**proof.periods, name: period + 1}}),
        proof.model_copy(update={"periods": {**proof.periods, "nobody": period}}),
        proof.model_copy(update={"link": "nowhere"}),
    ]
    if proof.branching is not None:
        tree = proof.branching
        trees = (tree[:-1], (*tree, tree[-1]), (*tree[:-1], len(proof.periods)), ())
        wrong += [proof.model_copy(update={"branching": changed}) for changed in trees]
    return wrong


def check_case(seed: int, counts: Counter[str]) -> None:
    draw = Random(seed)
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1))
    periods = {job.name: job.period for job in instance.jobs}
    answer = find_fit(instance, cushion_slots=cushion, workers=1)
    assert (answer.offsets is not None) == fits(instance, periods, cushion)
    refutations, _ = prove(instance, answer, drop=False, cushion_slots=cushion)
    for proof in refutations:
        assert proof.is_proved
        counts["load" if proof.link else "pair" if len(proof.periods) == 2 else "search"] += 1
        assert check(instance, stated(instance, cushion, proof)) == ()
        for wrong in mutations(proof):
            counts["mutations"] += 1
            assert check(instance, stated(instance, cushion, wrong)), (seed, wrong)
        for size in range(1, len(proof.periods)):  # fewer jobs that do fit
            fewer = dict(list(proof.periods.items())[:size])
            if fits(instance, fewer, cushion):
                counts["mutations"] += 1
                wrong = proof.model_copy(update={"periods": fewer})
                assert check(instance, stated(instance, cushion, wrong)), (seed, wrong)
    if answer.offsets is not None:
        counts["fits"] += 1
        for link in (*(each.name for each in instance.links), None):
            tree = None if link else tuple(range(len(periods)))
            wrong = Refutation(periods=periods, link=link, branching=tree)
            counts["mutations"] += 1
            assert check(instance, stated(instance, cushion, wrong)), (seed, wrong)
        return
    check_bound(instance, cushion, counts)


def check_bound(instance: Instance, cushion: int, counts: Counter[str]) -> None:
    answer = find_fit(instance, drop=True, cushion_slots=cushion, workers=1)
    assert answer.cost == answer.bound == lightest(instance, cushion)
    refutations, bound = prove(instance, answer, drop=True, cushion_slots=cushion)
    assert answer.offsets is not None
    schedule = stated(instance, cushion, *refutations).model_copy(
        update={
            "status": Status.FEASIBLE,
            "offsets": {**instance.unshifted, **answer.offsets},
            "gated": {job.name: job.name in answer.offsets for job in instance.jobs},
            "left_out_bound": bound,
        }
    )
    assert check(instance, schedule) == ()
    if bound:
        counts["bounds"] += 1
        counts["mutations"] += 2
        for change in ({"left_out_bound": bound + 1}, {"refutations": ()}):
            assert check(instance, schedule.model_copy(update=change))


@pytest.mark.parametrize("number", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_answers_equal_enumeration_and_every_proof_is_replayed(number: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(number):
        check_case(seed, counts)
    print(dict(counts))  # noqa: T201
    assert all(counts[kind] for kind in ("load", "pair", "search", "bounds", "fits"))


def test_no_proof_is_stated_beyond_the_limit() -> None:
    burst = (0, 1, 60)
    instance = network(job("a", 6, burst), job("b", 10, burst), job("c", 14, burst))
    periods = {"a": 6, "b": 10, "c": 14}
    assert search_tree(FitTask(instance), periods)[0] is not None
    assert search_tree(FitTask(instance), periods, steps=1)[0] is None
    faults = check(instance, stated(instance, 0, Refutation(periods=periods)))
    assert [fault.place for fault in faults] == ["status"]
