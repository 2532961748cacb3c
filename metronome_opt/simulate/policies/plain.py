"""Schedulers that do not look at time: Kubernetes' own, one that reserves bandwidth, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metronome_opt.simulate.cluster import Placement, candidates, spread
from metronome_opt.simulate.conditions import Sharing
from metronome_opt.simulate.state import Order, Placed, State, TrainingJob

CANDIDATES = 12
"""Placements that policies look at which ask what a place brings."""

_MANY = 64  # of which the bandwidth is asked only


class Default:
    """Spreads tasks by free GPUs, knows of no network, and shifts nobody; the base of all others.

    Attributes
    ----------
    sharing
        How it asks the network to share links.
    contends
        Whether its jobs share links at all.
    """

    sharing: Sharing = "fair"
    contends = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def place(self, job: TrainingJob, state: State) -> Placement | None:
        """Return where a waiting job is to run, None to let it wait: where most GPUs are free."""
        return spread(state.machines, job.work.workers, job.work.each.gpus)

    def admits(self, job: TrainingJob, placement: Placement, state: State) -> bool:  # noqa: ARG002
        """Whether a waiting job may run where the scenario says; there are GPUs for it."""
        return True

    def plan(self, state: State, came: Sequence[int], left: Sequence[Placed]) -> list[Order]:  # noqa: ARG002
        """Return what jobs are to do now that some came, which run already, and some left.

        A job that came and is not named begins at once; who is not named goes on as before.
        """
        return []


class Ideal(Default):
    """The same with a network that is never in the way: no policy can do better."""

    contends = False


class Exclusive(Default):
    """Reserves the bandwidth of every burst for as long as its job runs.

    A job waits until its peak fits on all links that it crosses. Of the placements where it does,
    the one of least network cost is taken: few racks, then few nodes.
    """

    def place(self, job: TrainingJob, state: State) -> Placement | None:
        """Take the nearest placement whose bandwidth is free."""
        load, each = state.load(), job.work.each.gpus
        places = candidates(state.machines, job.work.workers, _MANY, each)
        fitting = [place for place in places if _fits(job, place, state, load)]
        return min(fitting, key=network_cost, default=None)

    def admits(self, job: TrainingJob, placement: Placement, state: State) -> bool:
        """Let it in if its bandwidth is free."""
        return _fits(job, placement, state, state.load())


def _fits(job: TrainingJob, placement: Placement, state: State, load: Mapping[str, int]) -> bool:
    peak = Placed(job, placement).peak
    return all(
        load.get(link, 0) + flows * peak <= state.machines.capacities[link]
        for link, flows in placement.links.items()
    )


def network_cost(placement: Placement) -> tuple[int, int]:
    """Return how far apart the tasks are: racks, then nodes.

    Diktyo's costs of a pair of pods, 0 on a node, 1 in a rack, more between racks, order placements
    of one job in this way.
    """
    return placement.racks, len(set(placement.nodes))
