"""Moves of running jobs of a cluster's state, as `allocation` decides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metronome_opt.allocation import moves as allocation
from metronome_opt.allocation.moves import Move
from metronome_opt.allocation.occupancy import Outlook
from metronome_opt.cluster.placing import at_rate, occupancy_of, undelayed
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import restore, snapshot_of


def decide_moves(state: ClusterState, cost_s: float, now_s: float) -> list[Move]:
    """Decide which jobs move, if a move costs so many seconds; nothing is changed yet.

    Parameters
    ----------
    now_s
        Unix time, by which it is known how long jobs still run.
    """
    claims = {name: state.claims[name] for name in undelayed(state)}
    kept = {name: claim.stretch / claim.gang.period for name, claim in claims.items()}
    none_come = Outlook(exposure=0.0, rack=0.0)  # what is sure has to pay for a move
    occupancy = occupancy_of(state, now_s, none_come)
    for name, each in occupancy.placed.items():
        min_rate = state.claims[name].gang.min_rate(state.cluster.hyperperiod)
        occupancy.placed[name] = replace(each, job=replace(each.job, min_rate=min_rate))
    return allocation.decide_moves(occupancy, 1000 * cost_s, kept)


def moved(state: ClusterState, places: Mapping[str, Sequence[str]]) -> ClusterState:
    """Return a copy of a state whose jobs are at some places; what does not run is passed over.

    A job sends there as fast as links allow, and keeps its slots otherwise. An `InputError` if
    there is no room.
    """
    there, claims = restore(snapshot_of(state)), []
    for job, nodes in places.items():
        claim = state.claims.get(job)
        if claim is None or claim.nodes == tuple(nodes):
            continue
        claim = claim.model_copy(update={"nodes": tuple(nodes)})
        gang = at_rate(state, claim.gang, state.placement(claim))
        if gang != claim.gang:
            stretch = gang.stretch_for(state.cluster.hyperperiod)
            offset = claim.offset % (gang.period + stretch)
            changes = {"gang": gang, "stretch": stretch, "offset": offset}
            claim = claim.model_copy(update=changes)
        claims.append(claim)
    there.revise(claims)
    return there
