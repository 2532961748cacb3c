"""The default: greedy, local search, then CP-SAT from there for the rest and the proof."""

from __future__ import annotations

from metronome_opt.solvers import cpsat, greedy, local
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_SHARE = 0.25  # of the time, at most, for local search


def run(search: Search) -> None:
    """Offer the greedy schedule, what local search makes of it, and what CP-SAT still finds."""
    greedy.run(search)
    local.improve(search, share=_SHARE)
    if search.stopped:
        return
    try:
        cpsat.run(search, start=search.best)
    except ModelTooLargeError as error:
        search.notes.append(f"local search alone: {error}")
