"""A place for a job: the best nodes and the best rotation that a search finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from metronome_opt.errors import InputError, show
from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cycle import Cycle, First
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.gangs.beam import place_by_beam
from metronome_opt.scheduling.gangs.cpsat import place_exactly
from metronome_opt.scheduling.gangs.greedy import place_greedily
from metronome_opt.scheduling.gangs.tree import place_on_tree
from metronome_opt.scheduling.option import Option, make_option
from metronome_opt.scheduling.scoring import score_of
from metronome_opt.scheduling.state import ClusterState

_TIME_LIMIT = 60.0

SEARCHES: Mapping[str, str] = {
    "tree": "the best place there is, by dynamic programming over nodes and racks",
    "beam": "task by task, with several partial places side by side",
    "greedy": "task by task, each on the node of the best score, as a scheduler of pods does",
    "cpsat": "one model of placement and rotation; for small clusters",
}


FIRST: tuple[First, ...] = get_args(First)
"""What places may be compared by first, the default first."""


@dataclass(frozen=True)
class Decision:
    """Where a job is to run, and in which rotation.

    Attributes
    ----------
    claim
        What to reserve.
    conflicts
        Links on which it and others ask for more than there is.
    contention
        What it adds, in weight * Mbit/s.
    score
        100 if nothing is late, 0 if all that the job sends were; see `Scores`.
    cushion
        Free slots on either side of every burst; 0 where something is late.
    racks, fragments
        As in `Option`.
    """

    claim: Claim
    conflicts: int
    contention: Fraction
    score: int
    cushion: int
    racks: int
    fragments: int


def place_job(
    state: ClusterState, gang: Gang, *, search: str = "tree", first: First = "compatibility"
) -> Decision | None:
    """Find a place for all tasks of a job together; nothing is reserved yet.

    Parameters
    ----------
    state
        The cluster.
    gang
        The job.
    search
        One of `SEARCHES`.
    first
        Whether the best place is one with the fewest conflicts, or one of least contention.

    Returns
    -------
    Decision or None
        None if there is no room; `reasons.why_not` says why.

    Raises
    ------
    InputError
        If the job does not fit the cluster's hyperperiod, runs already, or the search or what comes
        first is not known.
    """
    if search not in SEARCHES:
        raise InputError(f"search: must be one of {', '.join(SEARCHES)}, got {show(search)}")
    if first not in FIRST:
        raise InputError(f"first: must be {' or '.join(FIRST)}, got {show(first)}")
    if gang.name in state.claims:
        raise InputError(f"{gang.name}: runs already; unreserve it first, or rename it")
    cycle = Cycle(state, gang, first=first)
    option = _FIND[search](cycle)
    if option is None:
        return None
    return Decision(
        claim=option.claim(cycle),
        conflicts=option.conflicts,
        contention=option.contention(cycle),
        score=score_of(cycle, option.conflicts, option.cost, cycle.partial(option.nodes)),
        cushion=option.cushion,
        racks=option.racks,
        fragments=option.fragments,
    )


def place_all(
    state: ClusterState,
    placed: Iterable[tuple[Gang, Sequence[str], int | None]],
    *,
    first: First = "compatibility",
) -> None:
    """Reserve for jobs the nodes that they have, one after the other, each in its best rotation.

    Parameters
    ----------
    placed
        Jobs, the node of each task, and the offset if it is not to be chosen.
    first
        As in `place_job`.

    Raises
    ------
    InputError
        If there is no room for one of them; those before it stay.
    """
    for gang, nodes, offset in placed:
        cycle = Cycle(state, gang, first=first)
        there = cycle.partial([state.node_index(node) for node in nodes])
        claim = make_option(cycle, there).claim(cycle)
        state.reserve(claim if offset is None else claim.model_copy(update={"offset": offset}))


def _by_cpsat(cycle: Cycle) -> Option | None:
    return place_exactly(cycle, time_limit=_TIME_LIMIT)[0]


_FIND: Mapping[str, Callable[[Cycle], Option | None]] = {
    "tree": place_on_tree,
    "beam": place_by_beam,
    "greedy": place_greedily,
    "cpsat": _by_cpsat,
}
