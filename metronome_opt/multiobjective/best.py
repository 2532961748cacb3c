"""The least of one objective over a group of jobs, with others within limits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from metronome_opt.kernels.tables import CostTooLargeError
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.nondominated import Nondominated
from metronome_opt.multiobjective.wanted import Cheapest
from metronome_opt.multiobjective.weighting import LAYERED, is_layered, weigh
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
    bound
        Units that the objective has at least, None if nothing is known.
    """

    offsets: Offsets | None
    proved: bool
    bound: int | None = None


def least(
    costs: Costs,
    prices: Mapping[str, int],
    most: Mapping[str, int],
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
    most
        The largest units of other objectives, by name.
    cushion
        Slots by which all bursts must be able to grow on links that are not overloaded.
    start
        A schedule within the limits, if one is known. Only a better one is looked for.
    """
    prices = costs.expanded(prices)
    if not most and not cushion and prices and all(map(is_layered, prices)):
        return _by_contention(costs, prices)
    known = None if start is None else _sum(costs, prices, start)
    try:
        first = costs.priced(prices, None if known is None else known - 1)
        held = [costs.priced({name: 1}, limit) for name, limit in most.items()]
        parts = [first, *held]
        networks = [part.network for part in parts]
        searches = [part.search for part in parts]
        limits = [network.limit for network in networks]
        if cushion:
            networks.append(costs.bearing(cushion))
            searches.append(costs.search)
            limits.append(0)
        wanted = Cheapest(limits)
        proved = Nondominated(searches, networks, wanted, len(parts)).run()
    except (ModelTooLargeError, CostTooLargeError, MemoryError):
        return Answer(start, proved=False)
    found = start if wanted.offsets is None else wanted.offsets
    bound = None
    if proved and found is not None:
        bound = _sum(costs, prices, found)
    return Answer(found, proved, bound)


def _by_contention(costs: Costs, prices: Mapping[str, int], *, parts: int = 1) -> Answer:
    """Minimise a sum of layered costs as the contention of other weights.

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
    bound = None if search.bound is None else -int(-search.bound * weighting.scale // 1)
    return Answer(search.best, search.proved, bound)


def _sum(costs: Costs, prices: Mapping[str, int], offsets: Offsets) -> int:
    return sum(price * costs.units(name, offsets) for name, price in prices.items())


def lexicographic(
    costs: Costs,
    names: tuple[str, ...],
    *,
    most: Mapping[str, int] | None = None,
    cushion: int = 0,
    start: Offsets | None = None,
) -> tuple[Offsets | None, bool]:
    """Minimise objectives one after the other, the earlier ones held at what they came to.

    Returns
    -------
    tuple
        The schedule, None if none was found, and whether every step is proved.
    """
    held = dict(most or {})
    offsets, whole = start, True
    both = None
    if set(names[:2]) == set(LAYERED) and not held and not cushion:
        both = _both_layered(costs, names[0], names[1])
    if both is not None and both.offsets is not None:
        offsets, whole = both.offsets, both.proved
        held = {name: costs.units(name, offsets) for name in names[:2]}
    settled = len(held) - len(most or {})
    for position, name in enumerate(names[settled:], start=settled):
        answer = _step(costs, names[: position + 1], held, cushion, offsets)
        whole = whole and answer.proved
        if answer.offsets is None:
            return None, whole
        offsets = answer.offsets
        held[name] = costs.units(name, offsets)
    return offsets, whole


def _both_layered(costs: Costs, first: str, second: str) -> Answer | None:
    """Return the least of one of contention and latency, then of the other.

    It is the least of a sum in which nobody gains a unit of the first by any of the second. None
    without such a sum.
    """
    start = costs.search.below(costs.group)
    greedy.run(start)
    most = None if start.best is None else costs.most_beside(first, second, start.best)
    if most is None:
        return None
    return _by_contention(costs, {first: most + 1, second: 1}, parts=_PARTS)


def _step(
    costs: Costs,
    names: tuple[str, ...],
    held: Mapping[str, int],
    cushion: int,
    start: Offsets | None,
) -> Answer:
    """Minimise the last of some objectives, the earlier ones held at their least."""
    layered = len(names) <= 2 and all(map(is_layered, names))
    if layered and not cushion and set(held) == set(names[:-1]) and start is not None:
        # Nobody gains a unit of the first objective by having so much less of the second.
        prices = {names[-1]: 1}
        if len(names) == 2:
            prices[names[0]] = costs.units(names[1], start) + 1
        answer = _by_contention(costs, prices)
        if answer.offsets is not None and all(
            costs.units(name, answer.offsets) <= limit for name, limit in held.items()
        ):
            return answer
    return least(costs, {names[-1]: 1}, held, cushion=cushion, start=start)
