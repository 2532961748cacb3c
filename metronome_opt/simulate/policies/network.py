"""Baseline policies that choose no places: hosts or links decide which job sends first."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from metronome_opt.engine.conditions import Growth
from metronome_opt.simulate.policies.plain import Nearest
from metronome_opt.simulate.state import Order, Running, SimState

GROWTH = Growth(slope=1.75, intercept=0.25)
_CLASSES = 8  # of traffic that interfaces and switches tell apart


class Mltcp(Nearest):
    """Lets the share of a burst grow with what its iteration has sent, so that jobs come apart.

    A job that is ahead gets further ahead. Congestion control is left out: rates follow the growth
    of windows at once, in proportion, as the paper's own analysis has it, and in 16 steps over an
    iteration. A burst that meets no other sends as under the other policies.

    Source: MLTCP (arXiv 2402.09589, HotNets 2024); slope and intercept are our choice.
    """

    growth = GROWTH


class Crux(Nearest):
    """Gives jobs of higher GPU intensity higher traffic classes, whenever jobs come or leave.

    The intensity is the computing of an iteration, on all GPUs of the job, over the time that its
    traffic needs on its slowest link. Of jobs that share a link each is in a lower class than those
    of higher intensity, as far as there are eight classes; the rest share the lowest one.

    Source: Crux (SIGCOMM 2024, doi 10.1145/3651890.3672239). Left out: paths, since there is one;
    the factor that corrects intensities for iteration times and overlap; the search for the cut of
    least loss where classes do not suffice; and profiling.
    """

    def plan(self, state: SimState, came: Sequence[int], left: Sequence[Running]) -> list[Order]:  # noqa: ARG002
        """Classify all jobs anew."""
        taken: dict[str, int] = {}  # by link: the lowest class of those of higher intensity
        orders = []
        for index in sorted(state.running, key=lambda i: (-_intensity(state, i), i)):
            links = state.running[index].placement.links
            free = min((taken.get(link, _CLASSES) for link in links), default=_CLASSES) - 1
            taken |= dict.fromkeys(links, max(0, free))
            orders.append(Order(index, None, state.can_start(index), max(0, free)))
        return orders


def _intensity(state: SimState, index: int) -> Fraction:
    """Return the GPUs that a job keeps busy for as long as its traffic takes; 0 without traffic."""
    job, placement = state.running[index].job, state.running[index].placement
    pattern = state.running[index].pattern
    capacities = state.room.cluster.capacities
    slowest = max(
        (Fraction(flows, capacities[link]) for link, flows in placement.links.items()),
        default=Fraction(0),
    )
    sending = slowest * sum(pattern.volume)
    return job.work.gpus * sum(pattern.compute) / sending if sending else Fraction(0)
