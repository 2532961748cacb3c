"""The tree of branch and bound over the offsets of some jobs: where the search stands.

`grow` searches it, in a form that can be left and resumed; `bounding` bounds a node, `branching`
makes its children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError
from metronome_opt.kernels.compiling import kernel
from metronome_opt.kernels.conditional import Contacts
from metronome_opt.kernels.jobs import put_job, score_use
from metronome_opt.kernels.tables import Compiled, Ints, Tables

Bools = NDArray[np.bool_]
Marks = NDArray[np.int8]
Floats = NDArray[np.float64]

DEPTH, NODES, DONE, INCUMBENT, FIXED = range(5)  # in `Tree.counters`
TO_EXPAND = -1  # in `Tree.following`
ABUTS, CLOSED = 1, 2  # in `Tree.mark`
NONE = 2**62

_MOST_ENTRIES = 2**25  # of 8 bytes, 256 MiB


class TreeTooLargeError(InputError):
    """The tree of an instance would take too much memory."""


class Groups(NamedTuple):
    """Lower bounds of links and of nested groups of links; the first entries are the links.

    Attributes
    ----------
    bound
        Scaled; of a link or a group alone.
    first, second
        The two parts of a group, -1 for links. Parts come before what they are part of.
    top
        The groups and links that are no part of anything.
    """

    bound: Ints
    first: Ints
    second: Ints
    top: Ints


class Pseudocosts(NamedTuple):
    """How much placing a job raised the bound beyond what was foreseen, as shares of the gap."""

    gain: Floats
    tries: Floats


class Tree(NamedTuple):
    """Where the search stands: at a node of some depth, where that many jobs are placed.

    Placed jobs are numbered in the order of placement; those that are not free come first.

    Attributes
    ----------
    counters
        Depth, nodes expanded, whether the tree is done, value of the incumbent, how many jobs are
        not free.
    best
        Offset per job of the incumbent.
    placed, offset
        Per placed job, its index and offset.
    position
        Per job, its number among the placed ones, -1 if it is not placed.
    base, own
        Per depth and link: scaled contention of what is placed; what is known of the link alone.
    bound
        Per depth, the lower bound of the node.
    child_job, child_offset, child_bound
        Per depth the children, most promising first, shape (depths, longest period).
    children, following
        How many children there are per depth, and which comes next; -1 before they are made.
    since, rank
        Per depth and job, the first placed job it may abut on, and its rank among the others.
    turn
        Per depth, the least common multiple of the periods of what is placed.
    touched
        Per depth and component of contacts, how many of its jobs are placed.
    vector, where, top
        What a job adds to one link at each of its offsets, shape (many, longest period): a stack;
        per depth and use of a link by a job, which of them is its; per depth, how many there are.
    cost, reduced, share, mark
        Scratch per job: what it adds at each offset, the same without the links that are taken out,
        what it adds to some of those, and which offsets are contacts or closed.
    alone
        Scratch per job, whether all it shares links with is placed.
    worth, taken, covered
        Scratch per group: its own bound, whether that is better than what its parts add up to, and
        the group taken out that it belongs to, -1 if there is none.
    sharing_ptr, sharing
        Per job, who shares a link with it.
    alike
        Per job, the one before it that it could change places with, -1 if there is none.
    sharpness
        How much the share of the gap that is closed counts, see `branching`.
    pseudocosts
        Per job, see `Pseudocosts`.
    """

    counters: Ints
    best: Ints
    placed: Ints
    offset: Ints
    position: Ints
    base: Ints
    own: Ints
    bound: Ints
    child_job: Ints
    child_offset: Ints
    child_bound: Ints
    children: Ints
    following: Ints
    since: Ints
    rank: Ints
    turn: Ints
    touched: Ints
    vector: Ints
    where: Ints
    top: Ints
    cost: Ints
    reduced: Ints
    share: Ints
    mark: Marks
    alone: Bools
    worth: Ints
    taken: Bools
    covered: Ints
    sharing_ptr: Ints
    sharing: Ints
    alike: Ints
    sharpness: Floats
    pseudocosts: Pseudocosts


def start_tree(
    compiled: Compiled,
    contacts: Contacts,
    offsets: Ints,
    value: int,
    free: Bools,
    sharpness: float,
    pseudocosts: Pseudocosts,
) -> tuple[Tree, Ints]:
    """Return the tree at its root and the demand of the jobs that are not free.

    Parameters
    ----------
    compiled
        With `common_scale`.
    offsets, value
        A complete schedule and its scaled contention: the incumbent.
    free
        Per job, whether it is to be placed; the others stay where `offsets` has them.
    sharpness
        See `branching`.
    pseudocosts
        Of an earlier search of the same jobs, or an opinion; goes on to be updated.

    Raises
    ------
    TreeTooLargeError
        If it would take more than 256 MiB.
    """
    tables = compiled.tables
    jobs, links, uses = len(free), len(compiled.links), len(tables.use_link)
    fixed = np.flatnonzero(~free)
    depths = int(free.sum()) + 1
    longest = int(tables.period.max())
    sharing = np.bincount(tables.use_link, minlength=links)
    vectors = uses + int((sharing * sharing).sum())
    entries = (vectors + 3 * depths + 3 * jobs) * longest + depths * (uses + 2 * jobs)
    if entries > _MOST_ENTRIES:
        raise TreeTooLargeError(
            f"{compiled.instance.name}: a search tree of {depths - 1} jobs on {links} links takes "
            f"{entries} numbers, more than {_MOST_ENTRIES}"
        )
    around = compiled.sharing()
    demand = compiled.empty_demand()
    for job in fixed:
        put_job(tables, demand, int(job), int(offsets[job]), 1)

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    tree = Tree(
        counters=np.array([0, 0, 0, value, len(fixed)], dtype=np.int64),
        best=np.array(offsets, dtype=np.int64),
        placed=np.concatenate((fixed, table(depths))),
        offset=np.concatenate((offsets[fixed], table(depths))),
        position=np.full(jobs, -1, dtype=np.int64),
        base=table(depths, links),
        own=table(depths, links),
        bound=table(depths),
        child_job=table(depths, longest),
        child_offset=table(depths, longest),
        child_bound=table(depths, longest),
        children=table(depths),
        following=np.full(depths, TO_EXPAND, dtype=np.int64),
        since=table(depths, jobs),
        rank=table(depths, jobs),
        turn=np.ones(depths, dtype=np.int64),
        touched=table(depths, int(contacts.component.max()) + 1),
        vector=table(vectors, longest),
        where=table(depths, uses),
        top=table(depths),
        cost=table(jobs, longest),
        reduced=table(jobs, longest),
        share=table(jobs, longest),
        mark=np.zeros((jobs, longest), dtype=np.int8),
        alone=np.zeros(jobs, dtype=np.bool_),
        worth=table(2 * links + 1),
        taken=np.zeros(2 * links + 1, dtype=np.bool_),
        covered=table(2 * links + 1),
        sharing_ptr=np.cumsum([0, *map(len, around)]).astype(np.int64),
        sharing=np.array([other for each in around for other in each], dtype=np.int64),
        alike=_interchangeable(compiled, free),
        sharpness=np.array([sharpness]),
        pseudocosts=pseudocosts,
    )
    tree.position[fixed] = np.arange(len(fixed))
    _fill_root(tables, contacts, demand, tree, np.empty(5 * longest, dtype=np.int64))
    return tree, demand


def _interchangeable(compiled: Compiled, free: Bools) -> Ints:
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


@kernel
def _fill_root(tables: Tables, contacts: Contacts, demand: Ints, tree: Tree, work: Ints) -> None:
    """Fill in the contention and common period of what is not free, and what the others add."""
    for link in range(tables.capacity.shape[0]):
        hyperperiod = tables.hyperperiod[link]
        for layer in range(tables.layer_ptr[link + 1] - tables.layer_ptr[link]):
            begin = tables.base[link] + layer * hyperperiod
            over = np.int64(0)
            for t in range(begin, begin + hyperperiod):
                over += max(demand[t] - tables.capacity[link], 0)
            price = tables.price[tables.layer_ptr[link] + layer]
            tree.base[0, link] += price * over * (tables.scale[0] // hyperperiod)
    tree.top[0] = tables.use_link.shape[0]
    for job in range(tree.position.shape[0]):
        first, last = tables.use_ptr[job], tables.use_ptr[job + 1]
        if tree.position[job] >= 0:
            tree.touched[0, contacts.component[job]] += 1
            if first < last:
                tree.turn[0] = np.lcm(tree.turn[0], tables.period[job])
            continue
        for use in range(first, last):
            tree.where[0, use] = use
            score_use(tables, demand, job, use, tree.vector[use, : tables.period[job]], work)


def is_done(tree: Tree) -> bool:
    """Return whether the incumbent is proved."""
    return bool(tree.counters[DONE])


def incumbent(tree: Tree) -> int:
    """Return the scaled value of the incumbent."""
    return int(tree.counters[INCUMBENT])


def set_cutoff(tree: Tree, value: int) -> None:
    """Take the scaled value of a schedule that somebody else found; `Tree.best` stays behind."""
    tree.counters[INCUMBENT] = min(tree.counters[INCUMBENT], value)


def dual_bound(tree: Tree) -> int:
    """Return a scaled lower bound of every schedule that has not been looked at, or is the best."""
    bound = incumbent(tree)
    if is_done(tree):
        return bound
    for depth in range(int(tree.counters[DEPTH]) + 1):
        following = int(tree.following[depth])
        if following == TO_EXPAND:
            above = depth - 1
            here = (
                int(tree.child_bound[above, tree.following[above] - 1])
                if depth
                else int(tree.base[0].sum())
            )
            bound = min(bound, here)
        elif following < tree.children[depth]:
            bound = min(bound, int(tree.child_bound[depth, following]))
    return bound
