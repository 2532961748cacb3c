"""A place for a job: the best nodes and the best rotation that a search finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

from metronome_opt.errors import InputError, show
from metronome_opt.scheduling.beam import place_by_beam, place_greedily
from metronome_opt.scheduling.cpsat import place_exactly
from metronome_opt.scheduling.cycle import Cycle, Decision, First, decide
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.tree import place_on_tree

_TIME_LIMIT = 60.0

_SEARCHES: Mapping[str, tuple[str, Callable[[Cycle], Decision | None]]] = {
    "tree": (
        "the best place there is, by dynamic programming over nodes and racks",
        place_on_tree,
    ),
    "beam": ("task by task, with several partial places side by side", place_by_beam),
    "greedy": (
        "task by task, each on the node of the best score, as a scheduler of pods does",
        place_greedily,
    ),
    "cpsat": (
        "one model of placement and rotation; for small clusters",
        lambda cycle: place_exactly(cycle, time_limit=_TIME_LIMIT)[0],
    ),
}

SEARCHES: Mapping[str, str] = {name: about for name, (about, _) in _SEARCHES.items()}
"""What each search does."""

FIRST: tuple[First, ...] = get_args(First)
"""What places may be compared by first, the default first."""


def place_job(
    state: ClusterState, gang: Gang, *, search: str = "tree", first: First = "compatibility"
) -> Decision | None:
    """Find a place for all tasks of a job together; nothing is reserved yet.

    Parameters
    ----------
    search
        One of `SEARCHES`.
    first
        Whether the best place is one with the fewest conflicts, or one of least contention.

    Returns
    -------
    Decision or None
        None if there is no room; `why_not` says why.

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
    _, find = _SEARCHES[search]
    return find(Cycle(state, gang, first=first))


def place_all(
    state: ClusterState,
    placed: Iterable[tuple[Gang, Sequence[str], int | None]],
    *,
    first: First = "compatibility",
) -> None:
    """Reserve for jobs the nodes that they have, one after the other, each in its best rotation.

    A job comes with the node of each task, and its offset if that is not to be chosen. If there is
    no room for one of them, that is an `InputError`; those before it stay.
    """
    for gang, nodes, offset in placed:
        cycle = Cycle(state, gang, first=first)
        claim = decide(cycle, cycle.partial([state.node_index(node) for node in nodes])).claim
        state.reserve(claim if offset is None else claim.model_copy(update={"offset": offset}))
