"""Branch and bound on a search: from its incumbent to a proof, a slice at a time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from metronome_opt.kernels.conditional import users_of
from metronome_opt.kernels.contacts import contacts_of
from metronome_opt.kernels.grow import grow
from metronome_opt.kernels.jobs import workspace
from metronome_opt.kernels.tables import Compiled, Ints, compile_instance
from metronome_opt.kernels.tree import (
    Experience,
    Groups,
    cut_off,
    dual_bound,
    incumbent,
    is_done,
    nodes,
    start_tree,
)
from metronome_opt.solvers.search import Search

SOURCE = "branch-bound"
_CHUNK = 1000  # nodes between two looks at the clock
# What is learned of the jobs decides how to branch, most of all near the root: so begin anew after
# that many nodes, with what has been learned.
_RESTARTS = tuple(1_000 * 4**step for step in range(12))
_OPINION = 0.2
_FIRST_TRIES = 5.0  # nodes that the opinion counts for
_LATER_TRIES = 20.0  # nodes that what was learned before a new start counts for


@dataclass(frozen=True)
class Known:
    """A lower bound of some links, and of the two parts that they were put together from."""

    links: frozenset[str]
    bound: Fraction
    parts: tuple[Known, Known] | tuple[()] = ()


class Proof:
    """A tree that grows from the incumbent of a search, in slices.

    Parameters
    ----------
    search
        Has an incumbent. Better ones and bounds are reported to it, and taken from it.
    known
        Lower bounds of disjoint groups of its links.

    Raises
    ------
    CostTooLargeError, TreeTooLargeError
        If the instance is too large.
    """

    def __init__(self, search: Search, known: tuple[Known, ...] = ()) -> None:
        self._search = search
        self._compiled: Compiled = compile_instance(search.instance, common_scale=True)
        self._unit = Fraction(self._compiled.unit, int(self._compiled.tables.scale[0]))
        self._contacts = contacts_of(self._compiled)
        self._users = users_of(self._compiled, self._contacts)
        self._groups = _groups(self._compiled, known, self._unit)
        self._work = workspace(self._compiled)
        self._free = np.array([job.fixed_offset is None for job in search.instance.jobs])
        self._experience = _opinion(search)
        self._nodes = 0
        self._start()

    @property
    def done(self) -> bool:
        """Whether the incumbent is proved."""
        return is_done(self._tree)

    @property
    def nodes(self) -> int:
        """How many nodes have been expanded."""
        return self._nodes

    def grow(self, most_nodes: int | None = None) -> bool:
        """Go on until done, stopped or `most_nodes` nodes further; return whether it is done."""
        target = None if most_nodes is None else self._nodes + most_nodes
        search = self._search
        while not self.done and not search.stopped and (target is None or self._nodes < target):
            self._slice()
            if not self.done and self._nodes in _RESTARTS:
                self._start_again()
        return self.done

    def _slice(self) -> None:
        search, tree = self._search, self._tree
        assert search.incumbent is not None  # noqa: S101 (it had one from the start)
        cut_off(tree, int(search.incumbent / self._unit))
        value = incumbent(tree)
        before = nodes(tree)
        grow(
            self._compiled.tables,
            self._contacts,
            self._users,
            self._groups,
            self._demand,
            tree,
            self._work,
            _CHUNK,
        )
        # A slice of the last few nodes counts as a whole one, so that restarts come on time.
        self._nodes += _CHUNK if nodes(tree) - before <= _CHUNK else nodes(tree) - before
        if incumbent(tree) < value:
            search.offer(tree.best, SOURCE)
        search.raise_bound(dual_bound(tree) * self._unit, SOURCE)

    def _start(self) -> None:
        search = self._search
        assert search.best is not None  # noqa: S101 (the caller's business)
        assert search.incumbent is not None  # noqa: S101
        self._tree, self._demand = start_tree(
            self._compiled,
            self._contacts,
            np.array(search.best, dtype=np.int64),
            int(search.incumbent / self._unit),
            self._free,
            self._experience,
        )

    def _start_again(self) -> None:
        learned = self._experience.gain / self._experience.tries
        tries = np.full(len(learned), _LATER_TRIES)
        self._experience = Experience(learned * tries, tries)
        self._start()


def _opinion(search: Search) -> Experience:
    """Return what is thought of the jobs beforehand: those with the most traffic matter most."""
    traffic = np.array(
        [
            float(Fraction(job.weight * job.volume * sum(job.links.values()), job.period))
            for job in search.instance.jobs
        ]
    )
    tries = np.full(len(traffic), _FIRST_TRIES)
    return Experience(_OPINION * tries * traffic / max(1.0, traffic.max()), tries)


def _groups(compiled: Compiled, known: tuple[Known, ...], unit: Fraction) -> Groups:
    """Return lower bounds as the kernels want them; links of which nothing is known have 0."""
    position = {link.name: index for index, link in enumerate(compiled.links)}
    bound = [0] * len(position)
    first, second = [-1] * len(position), [-1] * len(position)

    def add(group: Known) -> int:
        scaled = -int(-group.bound // unit)  # rounded up: the optimum is a whole number of units
        if not group.parts:
            (name,) = group.links
            bound[position[name]] = scaled
            return position[name]
        one, other = (add(part) for part in group.parts)
        bound.append(scaled)
        first.append(one)
        second.append(other)
        return len(bound) - 1

    top = [add(group) for group in known]
    covered = {position[name] for group in known for name in group.links}
    top += sorted(set(position.values()) - covered)
    return Groups(*(_ints(column) for column in (bound, first, second, top)))


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)
