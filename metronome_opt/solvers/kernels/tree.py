"""State of a branch-and-bound tree over the offsets of some jobs.

`branch_bound` searches it, in a form that can be left and resumed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metronome_opt.solvers.kernels.compiled_instance import (
    CompiledInstance,
    DemandState,
    Ints,
    Rows,
    TooLargeError,
)
from metronome_opt.solvers.kernels.contacts import Contacts
from metronome_opt.solvers.kernels.jobs import link_sums, put_job, score_use

Bools = NDArray[np.bool_]
Marks = NDArray[np.int8]
Floats = NDArray[np.float64]

TO_EXPAND = -1  # as `following` of a depth
ABUTS, CLOSED = 1, 2  # in `Tree.mark`
NONE = 2**62

_MAX_ENTRIES = 2**25  # of 8 bytes, 256 MiB


class Pseudocosts(NamedTuple):
    """Increase of the bound by placing a job, beyond the expected one, as shares of the gap."""

    gain: Floats
    tries: Floats


_COUNTERS = np.dtype(
    [
        ("depth", np.int64),
        ("nodes", np.int64),  # expanded
        ("done", np.int64),
        ("incumbent", np.int64),  # its scaled value
        ("fixed", np.int64),  # how many jobs are not free
        ("sharpness", np.float64),  # how much the share of the gap that is closed counts
    ]
)
_JOB = np.dtype(
    [
        ("best", np.int64),  # offset of the incumbent
        ("position", np.int64),  # its number among the placed ones, -1 if it is not placed
        ("alike", np.int64),  # the one before it that it could change places with, -1 for none
        ("alone", np.int64),  # whether all that it shares links with is placed
        ("first_sharing", np.int64),  # the jobs that share a link with it
        ("end_sharing", np.int64),
    ]
)
_PLACED = np.dtype([("job", np.int64), ("offset", np.int64)])
_DEPTH = np.dtype(
    [
        ("added", np.int64),  # scaled contention of what is placed
        ("bound", np.int64),  # of the node
        ("children", np.int64),  # how many
        ("following", np.int64),  # which comes next; `TO_EXPAND` before they are made
        ("rotation", np.int64),  # least common multiple of the periods of what is placed
        ("top", np.int64),  # of the stack of vectors
    ]
)


class Tree(NamedTuple):
    """State of the search: at a node of some depth, where that many jobs are placed.

    Placed jobs are numbered in the order of placement; those that are not free come first.
    """

    counters: Rows  # shape (1,)
    jobs: Rows
    placed: Rows  # by number
    depths: Rows
    child_job: Ints  # per depth the children, most promising first, shape (depths, longest period)
    child_offset: Ints
    child_bound: Ints
    since: Ints  # per depth and job, the first placed job it may abut on
    rank: Ints  # its rank among the others
    touched: Ints  # per depth and component of contacts, how many of its jobs are placed
    vector: Ints  # a stack of what a job adds to a link by offset, shape (many, longest period)
    where: Ints  # per depth and use, which vector is its
    cost: Ints  # scratch per job: what it adds at each offset
    mark: Marks  # which offsets are contacts or closed
    at: Ints  # scratch per job: its best offset
    minimum: Ints  # what it adds there
    abutting: Ints  # and how many contacts it has
    order: Ints  # scratch for sorting
    spare: Ints
    sharing: Ints  # jobs
    pseudocosts: Pseudocosts


class TreeSearch(NamedTuple):
    """A branch and bound: what is searched, what is known of it, and where it stands."""

    state: DemandState
    contacts: Contacts
    tree: Tree


def start_tree(
    compiled: CompiledInstance,
    contacts: Contacts,
    offsets: Ints,
    value: int,
    free: Bools,
    sharpness: float,
    pseudocosts: Pseudocosts,
) -> TreeSearch:
    """Return a search at its root.

    Parameters
    ----------
    compiled
        With `common_scale`.
    offsets, value
        A complete schedule and its scaled contention: the incumbent.
    free
        Per job, whether it is to be placed; the others stay where `offsets` has them.
    pseudocosts
        An opinion, which is updated.

    Raises
    ------
    TooLargeError
        If it would take more than 256 MiB.
    """
    tables = compiled.tables
    jobs, links, uses = len(free), len(compiled.links), len(tables.uses)
    fixed = np.flatnonzero(~free)
    depths = int(free.sum()) + 1
    longest = int(tables.jobs["period"].max())
    sharing = np.bincount(tables.uses["link"], minlength=links)
    vectors = uses + int((sharing * sharing).sum())
    entries = (vectors + 3 * depths + jobs) * longest + depths * (uses + 2 * jobs)
    if entries > _MAX_ENTRIES:
        raise TooLargeError(
            f"{compiled.instance.name}: a search tree of {depths - 1} jobs on {links} links takes "
            f"{entries} numbers, more than {_MAX_ENTRIES}"
        )
    around = compiled.sharing()
    state = compiled.empty()
    for job in fixed:
        put_job(state, int(job), int(offsets[job]), 1)

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    tree = Tree(
        counters=np.array([(0, 0, 0, value, len(fixed), sharpness)], dtype=_COUNTERS),
        jobs=np.zeros(jobs, dtype=_JOB),
        placed=np.zeros(len(fixed) + depths, dtype=_PLACED),
        depths=np.zeros(depths, dtype=_DEPTH),
        child_job=table(depths, longest),
        child_offset=table(depths, longest),
        child_bound=table(depths, longest),
        since=table(depths, jobs),
        rank=table(depths, jobs),
        touched=table(depths, int(contacts.component.max()) + 1),
        vector=table(vectors, longest),
        where=table(depths, uses),
        cost=table(jobs, longest),
        mark=np.zeros((jobs, longest), dtype=np.int8),
        at=table(jobs),
        minimum=table(jobs),
        abutting=table(jobs),
        order=table(max(jobs, longest)),
        spare=table(max(jobs, longest)),
        sharing=np.array([other for others in around for other in others], dtype=np.int64),
        pseudocosts=pseudocosts,
    )
    tree.jobs["best"] = offsets
    tree.jobs["alike"] = _interchangeable(compiled, free)
    tree.jobs["end_sharing"] = np.cumsum([len(others) for others in around])
    tree.jobs["first_sharing"][1:] = tree.jobs["end_sharing"][:-1]
    tree.jobs["position"] = -1
    tree.jobs["position"][fixed] = np.arange(len(fixed))
    tree.placed["job"][: len(fixed)], tree.placed["offset"][: len(fixed)] = fixed, offsets[fixed]
    tree.depths["following"] = TO_EXPAND
    tree.depths["rotation"], tree.depths["top"][0] = 1, uses
    for job in fixed:
        tree.touched[0, contacts.component[job]] += 1
        if tables.jobs["first_use"][job] < tables.jobs["end_use"][job]:
            tree.depths["rotation"][0] = math.lcm(
                tree.depths["rotation"][0], tables.jobs["period"][job]
            )
    sums = table(links)
    link_sums(state, sums)
    sums *= tables.jobs["scale"][0] // tables.links["hyperperiod"]
    tree.depths["added"][0] = sums.sum()
    for job in np.flatnonzero(free):
        for use in range(tables.jobs["first_use"][job], tables.jobs["end_use"][job]):
            tree.where[0, use] = use
            score_use(state, int(job), use, tree.vector[use, : tables.jobs["period"][job]])
    return TreeSearch(state, contacts, tree)


def _interchangeable(compiled: CompiledInstance, free: Bools) -> Ints:
    """Return, per job, the free one before it with the same bursts, weight and links, or -1."""
    alike = np.full(len(free), -1, dtype=np.int64)
    before: dict[tuple[object, ...], int] = {}
    uses: list[list[tuple[int, int]]] = [[] for _ in free]
    for number, link in enumerate(compiled.links):
        for job, flows in zip(link.jobs, link.flows, strict=True):
            uses[job].append((number, flows))
    for index, record in enumerate(compiled.instance.jobs):
        kind = (record.period, record.phases, record.weight, tuple(uses[index]))
        if free[index]:
            alike[index] = before.get(kind, -1)
            before[kind] = index
    return alike


def is_done(tree: Tree) -> bool:
    """Return whether the incumbent is proved."""
    return bool(tree.counters["done"][0])


def incumbent(tree: Tree) -> int:
    """Return the scaled value of the incumbent."""
    return int(tree.counters["incumbent"][0])


def set_cutoff(tree: Tree, value: int) -> None:
    """Take the scaled value of a schedule that another search found; `best` stays behind."""
    tree.counters["incumbent"] = min(incumbent(tree), value)


def dual_bound(tree: Tree) -> int:
    """Return a scaled lower bound of every schedule that has not been looked at, or is the best."""
    bound = incumbent(tree)
    if is_done(tree):
        return bound
    for depth in range(int(tree.counters["depth"][0]) + 1):
        following = int(tree.depths["following"][depth])
        if following == TO_EXPAND:
            above = depth - 1
            here = (
                int(tree.child_bound[above, tree.depths["following"][above] - 1])
                if depth
                else int(tree.depths["added"][0])
            )
            bound = min(bound, here)
        elif following < tree.depths["children"][depth]:
            bound = min(bound, int(tree.child_bound[depth, following]))
    return bound
