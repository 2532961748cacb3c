"""Periods that have short common multiples: the least weighted stretch within a limit.

Each job may lengthen its period by a few idle slots. A link repeats itself after the least common
multiple of the periods on it, its hyperperiod; periods that divide one another keep it short, and
let bursts interleave at all. Which stretches cost least, so that no link's hyperperiod exceeds a
limit?

Jobs are decided one after the other. What has been decided matters to the rest only through the
common multiples of the links that further jobs use, so of all choices that lead to the same
multiples the cheapest one is kept: dynamic programming over those multiples, exact unless there
are more of them than memory is meant for. A first pass that keeps few of them tells the second how
much is too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance, Job
from metronome_opt.presolve.components import components

_FEW_STEPS = 10_000  # from the multiples that are kept, with each stretch of the next job
_MOST_STEPS = 1_000_000

Multiples = tuple[int, ...]


@dataclass(frozen=True)
class Periods:
    """A choice of stretches.

    Attributes
    ----------
    stretch
        Idle slots per job name.
    price
        Their weighted sum, the objective ``stretch``.
    proved
        Whether no cheaper choice keeps to the limit.
    """

    stretch: Mapping[str, int]
    price: Fraction
    proved: bool


def choose_periods(instance: Instance, *, limit: int | None = None) -> Periods:
    """Return the cheapest stretches with which no link's hyperperiod exceeds a limit.

    Of choices that cost the same the one with less idle time is taken.

    Parameters
    ----------
    instance
        Its jobs say how far they may be stretched.
    limit
        Slots; that of the instance if left out.

    Raises
    ------
    InputError
        If no choice of stretches keeps to the limit, or none is found.
    """
    limit = instance.hyperperiod_limit if limit is None else limit
    stretch = {job.name: 0 for job in instance.jobs}
    proved = True
    for part in components(instance):
        if part.links and max(part.hyperperiods.values()) > limit:
            chosen, whole = _choose(part, limit)
            stretch |= chosen
            proved = proved and whole
    return Periods(stretch, price_of(instance, stretch), proved)


def count_choices(instance: Instance) -> int:
    """Return how many choices of stretches there are."""
    return math.prod(job.max_stretch + 1 for job in instance.jobs)


def price_of(instance: Instance, stretch: Mapping[str, int]) -> Fraction:
    """Return the objective ``stretch``: the sum of ``weight * stretch / period``."""
    return sum(
        (Fraction(job.weight * stretch[job.name], job.period) for job in instance.jobs), Fraction(0)
    )


def stretched(instance: Instance, stretch: Mapping[str, int]) -> Instance:
    """Return the instance with its jobs stretched for good.

    They may not be stretched further, but for a job that runs now at an offset beyond its new
    period: it keeps as much stretch as makes that offset one of its own. It has to move, and this
    has to count.

    Raises
    ------
    InputError
        If a link's hyperperiod is above the limit of the instance then.
    """
    return instance.replace(jobs=tuple(_stretched(job, stretch[job.name]) for job in instance.jobs))


def _stretched(job: Job, stretch: int) -> Job:
    period = job.period + stretch
    beyond = 0 if job.current_offset is None else max(0, job.current_offset + 1 - period)
    return job.model_copy(update={"period": period, "max_stretch": beyond})


# ------------------------------------------------------------------ the cheapest choice


@dataclass(frozen=True)
class _Way:
    """The cheapest way to some multiples, back from its last job.

    Attributes
    ----------
    price, idle
        Of all stretches so far: the weighted sum, scaled, and the plain one.
    """

    price: int
    idle: int
    job: str = ""
    stretch: int = 0
    before: _Way | None = None

    @property
    def rank(self) -> tuple[int, int]:
        return self.price, self.idle

    def then(self, job: Job, stretch: int, price: int) -> _Way:
        """Return the way with a further job, each of whose idle slots costs so much."""
        return _Way(self.price + stretch * price, self.idle + stretch, job.name, stretch, self)

    def stretches(self) -> dict[str, int]:
        """Return what was decided on the way."""
        decided: dict[str, int] = {}
        way: _Way | None = self
        while way is not None and way.job:
            decided[way.job] = way.stretch
            way = way.before
        return decided


def _choose(part: Instance, limit: int) -> tuple[dict[str, int], bool]:
    """Return the cheapest stretches of jobs that share links, and whether that is proved."""
    jobs = _in_order(part.jobs)
    best, proved = _best_way(jobs, limit, None, _FEW_STEPS)
    if not proved:
        other, proved = _best_way(jobs, limit, best, _MOST_STEPS)
        best = other or best
    if best is None:
        longest = max(part.hyperperiods, key=part.hyperperiods.__getitem__)
        raise InputError(
            f"max_stretch: {'no' if proved else 'found no'} stretches of the "
            f"{len(jobs)} jobs around link {show(longest)} that give every link a hyperperiod of "
            f"at most {limit} slots; allow more stretch, coarsen the slots or raise the limit"
        )
    return best.stretches(), proved


def _in_order(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs such that few links are begun and not finished at a time."""
    left = list(jobs)
    order: list[Job] = []
    begun: set[str] = set()
    while left:
        job = min(left, key=lambda job: len(set(job.links) - begun))
        left.remove(job)
        order.append(job)
        begun |= set(job.links)
    return order


def _best_way(
    jobs: Sequence[Job], limit: int, known: _Way | None, most_steps: int
) -> tuple[_Way | None, bool]:
    """Return the cheapest way through all jobs that is better than a known one, if there is any.

    Also whether that is proved; it is not if there were more multiples than may be kept.
    """
    scale = math.lcm(*(job.period for job in jobs))
    ways: dict[Multiples, _Way] = {(): _Way(0, 0)}
    begun: tuple[str, ...] = ()
    proved = True
    for at, job in enumerate(jobs):
        links = tuple(dict.fromkeys((*begun, *job.links)))
        needed = {link for later in jobs[at + 1 :] for link in later.links}
        kept = [place for place, link in enumerate(links) if link in needed]
        used = [link in job.links for link in links]
        following: dict[Multiples, _Way] = {}
        for multiples, way in ways.items():
            padded = (*multiples, *[1] * (len(links) - len(multiples)))
            for new in _steps(way, job, scale, known):
                joint = _joint(padded, used, job.period + new.stretch)
                if max(joint) <= limit:
                    left = tuple(joint[place] for place in kept)
                    if left not in following or new.rank < following[left].rank:
                        following[left] = new
        most = max(1, most_steps // (jobs[min(at + 1, len(jobs) - 1)].max_stretch + 1))
        if len(following) > most:
            proved = False
            ranked = sorted(following, key=lambda left: (following[left].rank, left))
            following = {left: following[left] for left in ranked[:most]}
        ways = following
        begun = tuple(links[place] for place in kept)
    return min(ways.values(), key=lambda way: way.rank, default=None), proved


def _steps(way: _Way, job: Job, scale: int, known: _Way | None) -> Iterator[_Way]:
    """Yield a way with each stretch of a further job, as long as it is better than a known one."""
    price = job.weight * scale // job.period
    for stretch in range(job.max_stretch + 1):
        new = way.then(job, stretch, price)
        if known is not None and new.rank >= known.rank:
            return
        yield new


def _joint(multiples: Multiples, used: Sequence[bool], period: int) -> Multiples:
    """Return the multiples of the links after a job of some period has joined those it uses."""
    return tuple(
        math.lcm(multiple, period) if mine else multiple
        for multiple, mine in zip(multiples, used, strict=True)
    )
