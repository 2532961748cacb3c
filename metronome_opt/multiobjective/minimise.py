"""The least of one objective over a group of jobs, with others within limits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.nondominated import Archive, Nondominated
from metronome_opt.multiobjective.objectives import LAYERED, is_layered, weigh
from metronome_opt.solvers import auto, greedy
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_PARTS = 3  # of the time that is left, for an end of a front: another end, and what is between


@dataclass(frozen=True)
class Answer:
    """What a group came to.

    Attributes
    ----------
    offsets
        The best schedule that was found, in the order of the jobs; None if none was.
    proved
        Whether there is no better one, or none at all.
    """

    offsets: Offsets | None
    proved: bool


def minimise(
    costs: Costs,
    prices: Mapping[str, int],
    limits: Mapping[str, int],
    *,
    cushion: int = 0,
    start: Offsets | None = None,
) -> Answer:
    """Return the schedule with the least weighted sum of objectives, others within limits.

    Parameters
    ----------
    costs
        Of the group; its search says when to stop.
    prices
        What a unit of each objective costs, by name; none if any schedule will do.
    limits
        The largest units of other objectives, by name.
    cushion
        Slots by which all bursts must be able to grow on links that are not overloaded.
    start
        A schedule within the limits, if one is known. Only a better one is looked for.
    """
    prices = costs.expanded(prices)
    if not limits and not cushion and prices and all(map(is_layered, prices)):
        return _by_contention(costs, prices)
    try:
        known = None if start is None else costs.total(prices, start) - 1
        parts = [costs.priced(prices, known)]
        parts += [costs.priced({name: 1}, limit) for name, limit in limits.items()]
        networks = [part.network for part in parts]
        searches = [part.search for part in parts]
        held = [network.limit for network in networks[1:]]
        if cushion:
            networks.append(costs.bearing(cushion))
            searches.append(costs.search)
            held.append(0)
        archive = Archive([networks[0].limit], held=held)
        proved = Nondominated(searches, networks, archive, len(parts)).run()
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return Answer(start, proved=False)
    return Answer(archive.points[0][1] if archive.points else start, proved)


def _by_contention(costs: Costs, prices: Mapping[str, int], *, parts: int = 1) -> Answer:
    """Minimise a sum of layered objectives as the contention of other weights.

    Parameters
    ----------
    parts
        Of the time that is left, one of so many parts may be taken.
    """
    weighting = weigh(costs.group, costs.per_bandwidth(prices))
    search: Search | None = None
    with suppress(CostTooLargeError):
        search = costs.search.below(weighting.instance)
        search.limit_to(search.remaining, parts)
        auto.run(search)
    if search is None or search.best is None:
        return Answer(None, proved=False)
    return Answer(search.best, search.proved)


def lexicographic(
    costs: Costs, names: tuple[str, ...], *, cushion: int = 0, start: Offsets | None = None
) -> Answer:
    """Minimise objectives one after the other, the earlier ones held at what they came to.

    The answer is proved if every step is; without offsets there is none with the cushion.
    """
    held: dict[str, int] = {}
    answer = Answer(start, proved=True)
    if set(names[:2]) == set(LAYERED) and not cushion:
        both = _both_layered(costs, names[0], names[1])
        if both.offsets is not None:
            answer = both
            held = {name: costs.units(name, both.offsets) for name in names[:2]}
    for name in names[len(held) :]:
        step = minimise(costs, {name: 1}, held, cushion=cushion, start=answer.offsets)
        answer = Answer(step.offsets, answer.proved and step.proved)
        if step.offsets is None:
            break
        held[name] = costs.units(name, step.offsets)
    return answer


def _both_layered(costs: Costs, first: str, second: str) -> Answer:
    """Minimise one of contention and latency, then the other.

    The sum is minimised in which nobody gains a unit of the first by any of the second.
    """
    start = greedy.construct(costs.search.below(costs.group))
    worst = costs.max_beside(first, second, start)
    return _by_contention(costs, {first: worst + 1, second: 1}, parts=_PARTS)
