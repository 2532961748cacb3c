"""Lower bounds by branch and bound on growing groups of links.

The optima of the links, each alone, add up to a lower bound. Two groups that share at least two
jobs may cost more together than that, which branch and bound proves. Groups that share one job add
up exactly if at most one of them has fixed jobs, since the other can be rotated until they agree;
else the sum is a bound. So groups are put together, the small ones first, as long as the proofs
succeed within a budget of nodes that grows from round to round. When everything is one group, its
optimum is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from metronome_opt.errors import describe_error
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError
from metronome_opt.solvers.proof import LINK_NODES, Proof, search_part
from metronome_opt.solvers.run import SolverRun, load_bound

_FIRST_NODES = 2_000  # budget of a proof in the first round
_MORE_NODES = 3  # times that in each further round
_FIRST_JOBS = 7  # in a group, in the first round
_MORE_JOBS = 4  # in each further round


@dataclass(frozen=True)
class _Group:
    """Links whose optimum, as an instance of their own, is known, or at least bounded."""

    links: frozenset[str]
    bound: Fraction
    jobs: frozenset[str]


class LinkGroups:
    """The groups of a block with an incumbent; what they prove is reported to its search.

    `effort` counts expanded nodes; they are `exhausted` if numbers or trees do not fit or memory
    ran out.
    """

    def __init__(self, search: SolverRun) -> None:
        self.search = search
        self._instance = search.instance
        self._groups: list[_Group] = []
        self._proofs: dict[frozenset[str], tuple[SolverRun, Proof]] = {}
        self._round = 0
        self.effort = 0
        self.exhausted = False

    def step(self) -> None:
        """Go one round further: put together all that can be within its limits."""
        if self.search.stopped:
            return
        try:
            self._go_on()
        except (TooLargeError, MemoryError) as error:
            self.search.notes.append(f"no branch and bound: {describe_error(error)}")
            self._proofs.clear()
            self.exhausted = True

    def _go_on(self) -> None:
        nodes = _FIRST_NODES * _MORE_NODES**self._round
        max_jobs = _FIRST_JOBS + _MORE_JOBS * self._round
        self._round += 1
        links = [link.name for link in self.search.compiled.links]
        if len(links) <= 1:
            self._prove(self.search, frozenset(links), nodes)
            return
        self._bound_links(nodes)
        self._report()
        refused: set[frozenset[str]] = set()
        while not self.search.stopped and len(self._groups) > 1:
            pair = self._next(max_jobs, refused)
            if pair is None:
                break
            joined = self._join(*pair, nodes)
            if joined is None:
                refused.add(pair[0].links | pair[1].links)
                continue
            self._groups = [group for group in self._groups if group not in pair] + [joined]
            self._forget()
            self._report()
        self._report()

    def _report(self) -> None:
        """Report the sum of the groups' bounds."""
        total = sum((group.bound for group in self._groups), Fraction(0))
        self.search.raise_bound(total, "clusters")

    def _bound_links(self, nodes: int) -> None:
        """Bound what each link costs alone, or go on with those whose own optimum is not proved."""
        first = not self._groups
        if first:
            for link in self.search.compiled.links:
                jobs = frozenset(self._instance.jobs[index].name for index in link.jobs)
                bound = load_bound(self.search.compiled, link)
                self._groups.append(_Group(frozenset([link.name]), bound, jobs))
        for position, group in enumerate(self._groups):
            if self.search.stopped:
                return
            links, bound = group.links, group.bound
            if first or (len(links) == 1 and links in self._proofs):
                part = self._part(links)
                self._prove(part, links, LINK_NODES if first else nodes)
                self._groups[position] = _Group(links, max(bound, part.bound or bound), group.jobs)

    def _forget(self) -> None:
        """Let go of what was begun of groups that are not there any more."""
        present = [group.links for group in self._groups]
        kept = {*present, *(one | other for one, other in combinations(present, 2))}
        self._proofs = {links: proof for links, proof in self._proofs.items() if links in kept}

    def _next(self, max_jobs: int, refused: set[frozenset[str]]) -> tuple[_Group, _Group] | None:
        """Return the two groups to put together next.

        Those that share several jobs come first, then the fewer jobs in all the better.
        """
        pairs = [
            (len(one.jobs & other.jobs), len(one.jobs | other.jobs), one, other)
            for one, other in combinations(self._groups, 2)
            if one.links | other.links not in refused
        ]
        fitting = [pair for pair in pairs if pair[0] and pair[1] <= max_jobs]
        best = min(fitting, key=lambda pair: (pair[0] == 1, pair[1], -pair[0]), default=None)
        return None if best is None else best[2:]

    def _join(self, one: _Group, other: _Group, nodes: int) -> _Group | None:
        """Return two groups as one, None if its optimum is not proved within the budget."""
        links = one.links | other.links
        jobs = one.jobs | other.jobs
        bound = one.bound + other.bound
        whole = len(self._groups) == 2
        if len(one.jobs & other.jobs) > 1 or whole:
            search = self.search if whole else self._part(links)
            if not self._prove(search, links, nodes):
                return None
            assert search.incumbent is not None  # noqa: S101 (it is proved)
            bound = search.incumbent
        return _Group(links, bound, jobs)

    def _prove(self, search: SolverRun, links: frozenset[str], nodes: int) -> bool:
        """Go on with the proof of a group, of which there may be a beginning."""
        if links not in self._proofs:
            if search.stopped and not search.proved:
                return False
            self._proofs[links] = (search, Proof(search))
        search, proof = self._proofs[links]
        before = proof.nodes
        done = proof.expand(nodes)
        self.effort += proof.nodes - before
        if done or search.proved:
            del self._proofs[links]
        return search.proved

    def _part(self, links: frozenset[str]) -> SolverRun:
        """Return a search on some links alone, with an incumbent."""
        if links in self._proofs:
            return self._proofs[links][0]
        return search_part(self.search, links, self.search.offsets_by_job())
