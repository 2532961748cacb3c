"""Pod by pod: filter, score, normalise and take the best node, as a scheduler of pods does it."""

from __future__ import annotations

from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.filtering import filter_nodes
from metronome_opt.scheduling.option import Option, make_option
from metronome_opt.scheduling.overhead import gang_costs, normalise, normalised
from metronome_opt.scheduling.scoring import score_nodes


def place_greedily(cycle: Cycle) -> Option | None:
    """Place one task after the other, each on the best node for those so far.

    None if there is no room: the filter lets no node pass that leaves none for the others.
    """
    partial = Partial()
    for _ in range(cycle.gang.tasks):
        ranking = rank_nodes(cycle, partial)
        if not ranking:
            return None
        partial = cycle.add(partial, ranking[0])
    return make_option(cycle, partial)


def rank_nodes(cycle: Cycle, partial: Partial) -> list[int]:
    """Return the nodes that can take the next task of a gang, the best first.

    Parameters
    ----------
    partial
        Where the tasks before it are to run.
    """
    nodes = filter_nodes(cycle, partial).nodes
    scores = score_nodes(cycle, partial, nodes).score
    network = normalised(gang_costs(cycle, partial, nodes))
    hosts = cycle.state.cluster.nodes
    order = normalise([hosts[node].name for node in nodes.tolist()], scores, network)
    return [int(nodes[index]) for index in order]
