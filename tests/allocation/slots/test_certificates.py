"""Proofs of refutations in files: replayed by the judge, and refused where they are wrong.

What is true is found by trying all offsets. What proves it is read here a second time, at the
jobs' own periods and without a table of what they share.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations, groupby, product
from random import Random
from typing import Any

import numpy as np
import pytest

from metronome_opt.allocation.slots.certificates import _search_tree, prove
from metronome_opt.allocation.slots.feasibility_problem import Conflict as Reasoned
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
)
from metronome_opt.allocation.slots.job_selection import check_feasibility
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import Refutation, Schedule, Status
from metronome_opt.verify import refutations, verify_schedule
from tests.allocation.slots.feasibility_cases import fits, lightest, rates_of, tiny_instance
from tests.builders import job, network
from tests.builders import schedule as feasible

SLOW = pytest.mark.slow


def stated(instance: Instance, cushion: int, *proofs: Refutation, **others: Any) -> Schedule:
    fields = {"status": Status.INFEASIBLE, "cushion_slots": cushion, "refutations": proofs}
    return feasible(instance.name, **{"offsets": {}, **fields, **others})


def load(instance: Instance, link: str, periods: Mapping[str, int], cushion: int) -> Fraction:
    users = [job for job in instance.jobs if job.name in periods and link in job.links]
    sent = {job.name: int(rates_of(job, job.period, cushion).sum()) for job in users}
    parts = (Fraction(job.links[link] * sent[job.name], job.period) for job in users)
    return sum(parts, Fraction(0))


def lacks_gaps(instance: Instance, link: str, periods: Mapping[str, int], cushion: int) -> bool:
    """Return whether gaps on a link hold too few of the bursts that take more than half of it."""
    (capacity,) = (each.capacity for each in instance.links if each.name == link)
    users = [job for job in instance.jobs if job.name in periods and link in job.links]
    bursts = []
    for each in users:
        long = rates_of(each, each.period, cushion) * each.links[link] * 2 > capacity
        turned = np.roll(long, -int(np.argmin(long)))  # no run reaches beyond the end
        bursts += [(each.period, len(list(run))) for is_long, run in groupby(turned) if is_long]
    for window, size in product({p for p, _ in bursts}, {m for _, m in bursts}):
        rest = window - sum(Fraction(window * m, p) for p, m in bursts if window % p == 0)
        longer = [(window / p, m) for p, m in bursts if p in range(2 * window, 999, window)]
        room = rest // size
        beside = [share for share, m in longer if m < size and (rest - m) // size < room]
        wanted = sum(share for share, m in longer if m >= size) + max([0.0, *beside])
        if rest < window and wanted > room + 1e-9:
            return True
    return False


def is_overloaded(instance: Instance, offsets: Mapping[str, int], cushion: int) -> bool:
    """Return whether jobs at offsets overload a link in some slot of its hyperperiod."""
    for link in instance.links:
        users = [job for job in instance.jobs if job.name in offsets and link.name in job.links]
        demand = np.zeros(math.lcm(*(job.period for job in users)))
        for each in users:
            turned = np.roll(rates_of(each, each.period, cushion), offsets[each.name])
            demand += each.links[link.name] * np.resize(turned, demand.shape)
        if demand.max() > link.capacity:
            return True
    return False


def is_tree(
    instance: Instance, periods: Mapping[str, int], tree: tuple[int, ...], cushion: int
) -> bool:
    """Return whether a tree in preorder leaves out no slot, and ends without one everywhere."""
    jobs = [job for job in instance.jobs if job.name in periods]
    nodes = list(tree)

    def slots(job: Job, *, first: bool) -> list[int]:
        if job.fixed_offset is None and first and all(each.fixed_offset is None for each in jobs):
            return [0]
        shared = [
            math.gcd(job.period, other.period)
            for other in jobs
            if other is not job and set(job.links) & set(other.links)
        ]
        fixed = job.fixed_offset
        return list(range(math.lcm(*shared))) if fixed is None else [fixed]

    def is_closed(offsets: Mapping[str, int]) -> bool:
        if not nodes or (index := nodes.pop(0)) >= len(jobs) or jobs[index].name in offsets:
            return False
        choices = [
            {**offsets, jobs[index].name: slot} for slot in slots(jobs[index], first=not offsets)
        ]
        return all(
            is_closed(each) for each in choices if not is_overloaded(instance, each, cushion)
        )

    return is_closed({}) and not nodes


def is_proof(instance: Instance, proof: Refutation, cushion: int) -> bool:
    """Return whether each proof that a refutation states is one."""
    own = {job.name: job.period for job in instance.jobs}
    if not proof.is_proved or not proof.periods.items() <= own.items():
        return False
    capacity = {link.name: link.capacity for link in instance.links}
    if proof.link is not None and (
        proof.link not in capacity
        or (
            load(instance, proof.link, proof.periods, cushion) <= capacity[proof.link]
            and not lacks_gaps(instance, proof.link, proof.periods, cushion)
        )
    ):
        return False
    tree = proof.branching
    return tree is None or is_tree(instance, proof.periods, tree, cushion)


def least_left_out(instance: Instance, proofs: tuple[Refutation, ...], cushion: int) -> int:
    """Return the weight of the lightest jobs whose omission some refutations allow."""
    names = [job.name for job in instance.jobs]
    capacity = {link.name: link.capacity for link in instance.links}

    def allows(proof: Refutation, out: tuple[str, ...]) -> bool:
        kept = {name: period for name, period in proof.periods.items() if name not in out}
        if proof.link is not None:
            most = capacity[proof.link]
            if load(instance, proof.link, proof.periods, cushion) > most:
                return load(instance, proof.link, kept, cushion) <= most
        return len(kept) < len(proof.periods)

    return min(
        sum(instance.job(name).weight for name in out)
        for size in range(len(names) + 1)
        for out in combinations(names, size)
        if all(allows(each, out) for each in proofs)
    )


def mutations(
    draw: Random, instance: Instance, proof: Refutation, other: tuple[int, ...]
) -> Iterator[Refutation]:
    """Yield changes of a proof; some of them may be proofs as well.

    Parameters
    ----------
    other
        The tree of another instance.
    """
    name, period = draw.choice(list(proof.periods.items()))
    outside = [job for job in instance.jobs if job.name not in proof.periods]
    fewer = {each: p for each, p in proof.periods.items() if each != name}
    changes: list[dict[str, Any]] = [
        {"periods": {**proof.periods, name: period + 1}},
        {"periods": {**proof.periods, "nobody": period}},
        *({"periods": {**proof.periods, each.name: each.period}} for each in outside),
        *([{"periods": fewer}] if fewer else []),
        {"link": None, "branching": None},
        {"link": None, "branching": other},
        *({"link": link} for link in (*(each.name for each in instance.links), "nowhere")),
    ]
    if proof.branching is not None:
        tree = proof.branching
        at, node = draw.randrange(len(tree)), draw.randrange(len(proof.periods) + 1)
        trees = [
            *((), tree[:-1], (*tree, tree[-1]), tree[::-1]),
            *(tree[:at] + tree[at + 1 :], (*tree[:at], node, *tree[at:])),
            (*tree[:at], node, *tree[at + 1 :]),
        ]
        changes += [{"branching": each} for each in trees]
    for change in changes:
        yield Refutation(**{**dict(proof), **change})


class Cases:
    """Cases drawn one after the other, and how many of each kind there were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._tree: tuple[int, ...] = (0, 1)
        self._fits: dict[tuple[str, ...], bool] = {}  # jobs of the present instance

    def check(self, seed: int) -> None:
        """Compare the answers for an instance with enumeration, and try to mislead the judge."""
        draw = Random(seed)
        instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1))
        self._fits = {}
        periods = {job.name: job.period for job in instance.jobs}
        answer = check_feasibility(instance, cushion_slots=cushion, threads=1)
        assert (answer.offsets is not None) == fits(instance, periods, cushion)
        proofs, _ = prove(instance, answer, drop=False, cushion_slots=cushion)
        if answer.offsets is not None:
            self.counts["fit"] += 1
            tree = tuple(draw.randrange(len(periods)) for _ in range(draw.randint(1, 6)))
            proofs = (Refutation(periods=periods, branching=tree),)
        for proof in proofs:
            if answer.offsets is None:
                kind = "load" if proof.link else "pair" if len(proof.periods) == 2 else "more jobs"
                self.counts[kind] += 1
                self._judge(instance, proof, cushion, is_true=True)
            for wrong in mutations(draw, instance, proof, self._tree):
                self._judge(instance, wrong, cushion)
            self._tree = proof.branching or self._tree
        if answer.offsets is None:
            self._check_left_out(draw, instance, cushion)

    def _judge(
        self, instance: Instance, proof: Refutation, cushion: int, *, is_true: bool = False
    ) -> None:
        """Expect of the judge what a second reading says, and a true statement if it passes."""
        passes = verify_schedule(instance, stated(instance, cushion, proof)) == ()
        assert passes == is_proof(instance, proof, cushion), proof
        assert passes or not is_true, proof
        if passes:
            names = tuple(sorted(proof.periods))
            if names not in self._fits:
                self._fits[names] = fits(instance, proof.periods, cushion)
            assert not self._fits[names], proof
        self.counts["changed, still a proof" if passes else "changed, refused"] += not is_true

    def _check_left_out(self, draw: Random, instance: Instance, cushion: int) -> None:
        answer = check_feasibility(instance, drop=True, cushion_slots=cushion, threads=1)
        assert answer.cost == answer.bound == lightest(instance, cushion)
        proofs, bound = prove(instance, answer, drop=True, cushion_slots=cushion)
        assert (bound or 0) == answer.bound
        assert answer.offsets is not None
        fields: dict[str, Any] = {
            "status": Status.FEASIBLE,
            "offsets": {**instance.unshifted, **answer.offsets},
            "gated": {job.name: job.name in answer.offsets for job in instance.jobs},
        }
        whole = stated(instance, cushion, *proofs, **fields, left_out_bound=bound)
        assert verify_schedule(instance, whole) == ()
        if not bound:
            return
        self.counts["bounds"] += 1
        nobody = {**fields, "gated": dict.fromkeys(fields["gated"], False)}
        everybody = {job.name: job.period for job in instance.jobs}
        fewer = draw.sample(proofs, draw.randrange(len(proofs)))
        for some in (proofs, fewer, (*proofs, Refutation(periods=everybody))):
            proved = tuple(each for each in some if each.is_proved)
            least = least_left_out(instance, proved, cushion)
            for claim in {bound, bound + 1, least, least + 1}:
                wrong = stated(instance, cushion, *some, **nobody, left_out_bound=claim)
                passes = verify_schedule(instance, wrong) == ()
                total = sum(job.weight for job in instance.jobs)
                assert passes == (claim <= min(least, total)), wrong
                assert not passes or claim <= bound
                self.counts["bounds changed"] += 1


PARTS = [range(50), *(pytest.param(range(k, k + 500), marks=SLOW) for k in range(0, 5000, 500))]


@pytest.mark.parametrize("seeds", PARTS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_answers_equal_enumeration_and_proofs_alone_pass(seeds: range) -> None:
    cases = Cases()
    for seed in seeds:
        cases.check(seed)
    print(dict(cases.counts))  # noqa: T201
    kinds = ("fit", "load", "pair", "more jobs", "bounds", "changed, still a proof")
    assert all(cases.counts[kind] for kind in kinds)


BURST = (0, 1, 60)
THREE = network(job("a", 6, BURST), job("b", 10, BURST), job("c", 14, BURST))
PERIODS = {"a": 6, "b": 10, "c": 14}
TREE = (0, 1, 2)  # a is in even slots and b in odd ones, so that none is left to c


def places(*proofs: Refutation, instance: Instance = THREE, **others: Any) -> list[str]:
    return [
        str(fault) for fault in verify_schedule(instance, stated(instance, 0, *proofs, **others))
    ]


def test_tree_counts_slots_modulo_what_periods_share() -> None:
    assert _search_tree(FeasibilityProblem(THREE), PERIODS)[0] == TREE
    assert places(Refutation(periods=PERIODS, branching=TREE)) == []


def test_nodes_are_jobs_in_the_order_of_the_instance() -> None:
    """Programs that write JSON anew may sort its keys."""
    burst = (0, 3, 60)
    # The order matters: c alone is fixed.
    pair = network(job("c", 5, burst, fixed_offset=1), job("a", 5, burst), job("b", 9, (0, 1, 1)))
    for periods in ({"a": 5, "b": 9, "c": 5}, {"c": 5, "b": 9, "a": 5}):
        assert places(Refutation(periods=periods, branching=(0, 1)), instance=pair) == []
        tree, _ = _search_tree(FeasibilityProblem(pair), periods)
        assert tree == (0, 1)


def test_no_proof_is_stated_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer and the judge count alike: a proof that takes all steps passes."""
    tree, left = _search_tree(FeasibilityProblem(THREE), PERIODS)
    taken = refutations.MAX_STEPS - left
    assert _search_tree(FeasibilityProblem(THREE), PERIODS, taken) == (tree, 0)
    assert _search_tree(FeasibilityProblem(THREE), PERIODS, taken - 1)[0] is None
    proof = Refutation(periods=PERIODS, branching=tree)
    monkeypatch.setattr(refutations, "MAX_STEPS", taken)
    assert places(proof) == []
    monkeypatch.setattr(refutations, "MAX_STEPS", 2 * taken - 1)  # the limit is that of the file
    (said,) = places(proof, proof)
    assert said.startswith("refutations[1]: stated not together 'a', 'b', 'c', but it takes more")
    assert "status: stated infeasible" in places(Refutation(periods=PERIODS))[0]


def test_jobs_are_not_said_to_fit_badly_if_that_is_not_known() -> None:
    """A common multiple above the limit is no reason."""
    answer = FeasibilityResult(refutations=(Reasoned(Reason.HYPERPERIOD, {"a": 6, "b": 10}),))
    assert prove(THREE, answer, drop=False, cushion_slots=0) == ((), None)
    answer = FeasibilityResult(refutations=(Reasoned(Reason.HYPERPERIOD, PERIODS),), bound=None)
    (proof,), _ = prove(THREE, answer, drop=False, cushion_slots=0)
    assert proof.branching == TREE  # though it can be proved


def test_bound_needs_proofs() -> None:
    """Neither what is not proved, nor a weight that is left out needlessly, supports a bound."""
    gated: dict[str, Any] = {"status": Status.FEASIBLE, "offsets": dict.fromkeys("abc", 0)}
    gated["gated"] = {"a": True, "b": False, "c": False}
    proof, bare = Refutation(periods=PERIODS, branching=TREE), Refutation(periods=PERIODS)
    assert places(proof, **gated, left_out_bound=1) == []
    false = "left_out_bound: stated {}, but {}"
    unproved = "the refutations do not prove it"
    assert places(bare, **gated, left_out_bound=1) == [false.format(1, unproved)]
    assert places(proof, bare, **gated, left_out_bound=2) == [false.format(2, unproved)]
    said = false.format(3, "the weight left out is 2")
    assert places(proof, **gated, left_out_bound=3) == [said]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ((), "branching ends too early"),
        ((0, 1), "branching ends too early"),
        ((0, 0), "branching[1] is 0: no job that is still to be placed"),
        ((0, 1, 10**90), "branching[2] is an integer of 299 bits: no job"),
        ((0, 1, 2, 0), "branching[3] belongs to no slot"),
        ((0,) * 1_000_000, "branching[1] is 0"),
        ((0, 1, 2) * 300_000, "branching[3] belongs to no slot"),
    ],
)
def test_damaged_trees_are_refused(tree: tuple[int, ...], said: str) -> None:
    (fault,) = places(Refutation(periods=PERIODS, branching=tree))
    assert said in fault


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("branching", [0, -1], "branching[1]: must be at least 0, got -1"),
        ("branching", "0 1 2", "branching: must be a list, got '0 1 2'"),
        ("branching", [0, [1]], "branching[1]: must be an integer, got a list of 1"),
        ("periods", {}, "periods: must have at least 1 in it, got a mapping of 0"),
        ("periods", {"a": 0}, "periods.a: must be at least 1, got 0"),
        ("link", ["link"], "link: must be text, got a list of 1"),
    ],
)
def test_what_is_no_proof_is_not_read(field: str, value: Any, said: str) -> None:
    document = stated(THREE, 0, Refutation(periods=PERIODS, branching=TREE)).to_dict()
    assert Schedule.from_dict(document).to_dict() == document
    document["refutations"][0][field] = value
    with pytest.raises(InputError, match=re.escape(f"refutations[0].{said}")):
        Schedule.from_dict(document)


def test_unknown_names_are_refused_in_a_short_line() -> None:
    proof = Refutation(periods={f"job-{index}": 6 for index in range(100_000)}, branching=(0,))
    (fault,) = places(proof)
    assert fault.endswith("'job-0', 'job-1', 'job-2' and 99997 more, but there is no job 'job-0'")


def test_long_tables_are_refused_before_they_are_made() -> None:
    """Pairs share 2 * 3 * 5 * ... slots, all of them together the product of all."""
    primes = (7, 11, 13, 17, 19, 23, 29)
    periods = [a * b * 1000 for a, b in zip(primes, (*primes[1:], primes[0]), strict=True)]
    jobs = [job(f"j{index}", period, BURST) for index, period in enumerate(periods)]
    instance = network(*jobs)
    proof = Refutation(periods={each.name: each.period for each in jobs}, branching=(0,))
    (fault,) = places(proof, instance=instance)
    assert "j2' and 4 more, but it takes more than 20,000,000 steps to see" in fault
