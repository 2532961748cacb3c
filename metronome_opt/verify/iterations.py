"""Verification of the traffic of an instance: flows, bursts in slots, references of slowdowns.

The scenario is a document with the cluster in full and the training step of every job, computing
and collectives, which are not verified. The iteration of a step at a placement is computed from the
definitions; no code is shared with the building of instances.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from metronome_opt.errors import pluralise
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.verify.evaluation import Violation
from metronome_opt.verify.flows import Document, Place, Tree
from metronome_opt.verify.reference import EmptyCluster

_AHEAD = 2  # slots added by rounding that a pause does not give back


def check_instance(
    scenario: Document,
    places: Mapping[str, Sequence[str]],
    instance: Instance,
    paths: Mapping[str, Sequence[Sequence[int]]],
) -> Iterator[Violation]:
    """Yield differences between an instance and the scenario with its jobs at some placements.

    They are differences in links, and in the flows, bursts, period, and shortest iteration in the
    empty cluster of a job.

    Parameters
    ----------
    scenario
        Its document, with ``link_mbps`` of the cluster, and ``step`` and ``algorithm`` of jobs.
    places
        Nodes of tasks, true by `check_places`; other jobs are not in the instance.
    instance
        The instance.
    paths
        The spines of flows, true by `check_paths`; flows of other jobs cross all spines evenly.
    """
    tree = Tree(scenario["cluster"])
    stated = {link.name: link.capacity for link in instance.links}
    known = {name: mbps for name, mbps in tree.capacity.items() if mbps}
    for name in sorted({*known, *stated}):
        if known.get(name) != stated.get(name):
            texts = [_text(mbps.get(name), "Mbit/s") for mbps in (stated, known)]
            yield Violation(f"links.{name}", *texts)
    given = {job.name: job for job in instance.jobs}
    for name in sorted(given.keys() - places.keys()):
        yield Violation(f"jobs.{name}", "a job of the instance", "it has no placement")
    used: Counter[str] = Counter()  # GPUs of earlier tasks by node
    empty = EmptyCluster(tree, scenario["cluster"])
    for job in (job for job in scenario["jobs"] if job["name"] in places):
        name, gpus, algorithm = job["name"], job["each"]["gpus"], job["algorithm"]
        if name not in given:
            yield Violation(f"places.{name}", "its nodes", "the instance has no such job")
            continue
        found = tree.place(places[name], gpus, algorithm, used, paths.get(name, ()))
        if found is None:
            yield Violation(f"places.{name}", "its nodes", "its traffic has too many parts")
            continue
        flows, place = found
        if not place.rate:
            yield Violation(f"places.{name}", "its nodes", "a link between them carries nothing")
            continue
        grid = scenario["slot_ms"], scenario["hyperperiod_ms"]
        iteration = _Iteration(job, tree.link_mbps, *grid)
        yield from _flow_violations(given[name], flows)
        yield from _slot_violations(given[name], iteration.in_slots(place))
        yield from _best_violations(given[name], iteration, [place, *empty.places(job)])


def _flow_violations(job: Job, flows: Mapping[str, int]) -> Iterator[Violation]:
    for link in sorted({*flows, *job.links}):
        numbers = job.links.get(link, 0), flows.get(link, 0)
        if numbers[0] != numbers[1]:
            texts = [pluralise(number, "flow") for number in numbers]
            yield Violation(f"places.{job.name}: {link}", *texts)


def _slot_violations(job: Job, true: _Slots) -> Iterator[Violation]:
    """Yield wrong bursts and a wrong period of a job."""
    stated = [(phase.start, phase.length, phase.rate) for phase in job.phases]
    for index, (one, other) in enumerate(zip_longest(stated, true.phases)):
        if one != other:
            where = f"places.{job.name}: phases[{index}]"
            yield Violation(where, _burst_text(one), _burst_text(other))
    if job.period != true.period:
        texts = [_text(period, "slots") for period in (job.period, true.period)]
        yield Violation(f"places.{job.name}: period", *texts)


def _best_violations(
    job: Job, iteration: _Iteration, places: Sequence[Place]
) -> Iterator[Violation]:
    """Yield a best iteration that is not the shortest one of some placements."""
    times = (iteration.isolated_ms(place) for place in places)
    best = min(time for time in times if time is not None)
    stated = job.period * iteration.slot_ms if job.best_ms is None else job.best_ms
    if stated != best:
        yield Violation(f"places.{job.name}: best_ms", f"{stated} ms", f"{best} ms")


def _text(amount: int | None, unit: str) -> str:
    return "nothing" if amount is None else f"{amount:,} {unit}"


def _burst_text(burst: tuple[int, int, int] | None) -> str:
    if burst is None:
        return "nothing"
    start, length, rate = burst
    return f"{pluralise(length, 'slot')} from {start} on at {rate:,} Mbit/s"


class _Burst(NamedTuple):
    """A burst of a flow: the pause before it in ms, its volume in Mbit, its rate in Mbit/s."""

    after: Fraction
    volume: Fraction
    rate: Fraction

    @property
    def ms(self) -> Fraction:
        return 1000 * self.volume / self.rate


class _Slots(NamedTuple):
    """An iteration in slots: (start, length, rate in Mbit/s) of bursts, and its period, if any."""

    phases: list[tuple[int, int, int]]
    period: int | None


class _Iteration:
    """The iteration of a job by its placement.

    Parameters
    ----------
    job
        Its document.
    link_mbps
        Rate of a GPU to the others of its node.
    slot_ms, hyperperiod_ms
        Length of a slot, and the hyperperiod that periods divide; None for any period.
    """

    def __init__(
        self, job: Document, link_mbps: int, slot_ms: int, hyperperiod_ms: int | None
    ) -> None:
        step = job["step"]
        self._algorithm, self._link_mbps, self.slot_ms = job["algorithm"], link_mbps, slot_ms
        self._hyperperiod = None if hyperperiod_ms is None else hyperperiod_ms // slot_ms
        self._compute, self._is_fine = Fraction(step["compute_ms"]), step["is_fine"]
        exact = ("mbit", "ready_ms", "needed_ms")
        self._transfers = [
            {**transfer, **{field: Fraction(transfer[field]) for field in exact}}
            for transfer in step["transfers"]
        ]
        self._is_stated = all(transfer["kind"] == "stated" for transfer in self._transfers)

    def isolated_ms(self, place: Place) -> Fraction | None:
        """Return its length without other jobs on links; None if it fits no period.

        It is the period, and the delay of bursts that are faster than links.
        """
        phases, period = self.in_slots(place)
        if period is None:
            return None
        slots = Fraction(period)
        for _, length, rate in phases:
            if place.nodes > 1 and rate > place.rate:
                slots += length * rate / place.rate - length
        return slots * self.slot_ms

    def in_slots(self, place: Place) -> _Slots:
        """Return its bursts and its period at a placement.

        On one node its length is rounded to slots, with all bursts together at the end. The period
        is the smallest divisor of the hyperperiod that is long enough.
        """
        bursts, rest = self._bursts(place)
        if place.nodes == 1 and not self._is_stated:
            sending = Fraction(sum(burst.ms for burst in bursts))
            slots = max(1, self._nearest(sum((burst.after for burst in bursts), rest) + sending))
            length = min(slots, max(1, self._nearest(sending)))
            volume = Fraction(sum(burst.volume for burst in bursts))
            phases = [(slots - length, length, self._rate(volume, length))]
        else:
            phases, slots = self._rounded(bursts, rest)
        if self._hyperperiod is None:
            return _Slots(phases, slots)
        divisors = _divisors(self._hyperperiod)
        return _Slots(phases, next((period for period in divisors if period >= slots), None))

    def _rounded(
        self, bursts: Sequence[_Burst], rest: Fraction
    ) -> tuple[list[tuple[int, int, int]], int]:
        """Return bursts in slots, and the slots of the iteration.

        Pauses are rounded to the nearest slot, bursts up to whole slots at the lowest whole rate
        that suffices. In a fine iteration pauses give back slots that rounding has added beyond
        two, and bursts of one rate without a pause between them are joined.
        """
        phases: list[tuple[int, int, int]] = []
        end, exact = 0, Fraction(0)  # of the last burst, in slots and in ms
        lasting = volume = Fraction(0)  # of the last burst
        fastest = None
        for burst in bursts:
            pause = self._pause(burst.after, end, exact)
            if self._is_fine and pause == 0 and burst.rate == fastest:
                start = phases.pop()[0]
                lasting, volume = lasting + burst.after + burst.ms, volume + burst.volume
            else:
                start, lasting, volume = end + pause, burst.ms, burst.volume
            length = math.ceil(lasting / self.slot_ms)
            phases.append((start, length, self._rate(volume, length)))
            end, exact, fastest = start + length, exact + burst.after + burst.ms, burst.rate
        return phases, end + self._pause(rest, end, exact)

    def _pause(self, pause: Fraction, slot: int, exact: Fraction) -> int:
        """Return the slots of a pause that begins at a slot and exactly at a moment in ms."""
        if self._is_fine:
            pause -= max(Fraction(0), (slot - _AHEAD) * self.slot_ms - exact)
        return max(0, self._nearest(pause))

    def _nearest(self, ms: Fraction) -> int:
        return math.floor(ms / self.slot_ms + Fraction(1, 2))

    def _rate(self, volume: Fraction, slots: int) -> int:
        """Return the lowest whole rate that carries a volume in some slots."""
        return math.ceil(1000 * volume / (slots * self.slot_ms))

    def _bursts(self, place: Place) -> tuple[list[_Burst], Fraction]:
        """Return the bursts at a placement, and the time without traffic after the last one.

        Collectives follow one another and begin when they are ready; late ones begin such that they
        end when computing needs them. Collectives of all GPUs that begin at one time are a burst.
        Computing is delayed until the collectives that it needs end. In idle collectives only other
        GPUs send.
        """
        bursts: list[_Burst] = []
        over = sent = Fraction(0)  # when the last collective and the last burst end
        ends: list[tuple[Fraction, Fraction]] = []  # of collectives: needed, and ended
        for index, transfer in enumerate(self._transfers):
            ready, needed = transfer["ready_ms"], transfer["needed_ms"]
            delay = max([Fraction(0), *(end - by for by, end in ends if by <= ready)])
            burst = _Burst(Fraction(0), *self._flow(transfer, place))
            if bursts and index and _begin_together(self._transfers[index - 1], transfer):
                volume, together = bursts[-1].volume + burst.volume, bursts[-1].ms + burst.ms
                bursts[-1] = bursts[-1]._replace(volume=volume, rate=1000 * volume / together)
                over = sent = over + burst.ms
            else:
                begin = max(ready + delay, over)
                if transfer["is_late"]:
                    begin = max(begin, needed + delay - burst.ms)
                over = begin + burst.ms
                if not transfer["is_idle"]:
                    bursts.append(burst._replace(after=begin - sent))
                    sent = over
            ends.append((needed, over))
        delay = max(Fraction(0), *(end - by for by, end in ends))
        return bursts, self._compute + delay - sent

    def _flow(self, transfer: Document, place: Place) -> tuple[Fraction, Fraction]:
        """Return the volume of a flow of a collective in Mbit, and its largest rate in Mbit/s.

        A GPU sends `own`, of which `inside` to the others of its node: that limits the rate in
        rings and trees, where a node sends once for all of its GPUs, and in all-to-alls.
        """
        kind, size, limit = transfer["kind"], transfer["mbit"], transfer["max_mbps"]
        if kind == "stated":
            parts = 1 if place.nodes == 1 else place.parts
            return size / parts, Fraction(limit, parts)
        own = inside = _sent(kind, transfer["group"] or place.gpus) * size
        if place.nodes == 1:
            return own, Fraction(self._link_mbps)
        volume = own / place.parts
        if self._algorithm == "all-to-all" and kind == "all-to-all":
            volume = place.pairs * size / place.gpus
            inside = size * (place.gpus_per_node - 1) / place.gpus
        elif self._algorithm == "all-to-all":
            volume = place.rings * own
        elif self._algorithm == "tree" and kind == "all-reduce":
            volume = _sent(kind, place.nodes) * size / place.parts
        elif self._algorithm == "tasks" and (
            transfer["group"] or kind in ("all-to-all", "point-to-point")
        ):  # all GPUs of a task send, not only the last one of a ring
            volume *= place.per_task
        rates = [Fraction(math.floor(place.rate))]
        if limit is not None:
            rates.append(Fraction(limit, place.parts))
        if self._algorithm != "tasks" and place.gpus_per_node > 1:
            rates.append(self._link_mbps * volume / inside)
        return volume, min(rates)


def _begin_together(one: Document, other: Document) -> bool:
    """Return whether two collectives of all GPUs can begin, and are needed, at the same time."""
    same = ("ready_ms", "needed_ms")
    return all(one[field] == other[field] for field in same) and all(
        transfer["group"] is None and transfer["kind"] != "stated" and not transfer["is_idle"]
        for transfer in (one, other)
    )


@cache
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def _sent(kind: str, members: int) -> Fraction:
    """Return the volume that a GPU sends in a collective, as a multiple of the buffer."""
    if kind == "all-reduce":
        return Fraction(2 * (members - 1), members)
    if kind in ("all-gather", "reduce-scatter", "all-to-all"):
        return Fraction(members - 1, members)
    return Fraction(1)
