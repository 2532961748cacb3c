"""Rollouts: choices for a waiting job, compared by simulation with random jobs to come.

Jobs to come are drawn from those seen so far. Jobs progress as a fluid: at a rate of 1 / (1 +
loss), with the losses of pairs that share links added up. A job that comes starts at its nearest
place as soon as it fits, the most important ones first. All choices are simulated with one sample
of jobs to come, so that their difference is known much better than their values.

References
----------
D. Bertsekas, J. Tsitsiklis, C. Wu, "Rollout algorithms for combinatorial optimization", Journal of
Heuristics 3, 1997 (a choice followed by a base policy is no worse than the base policy).
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, stdev

from metronome_opt.allocation.occupancy import Occupancy, StartOption
from metronome_opt.allocation.request import UNKNOWN_MS, JobRequest, PlacedJob
from metronome_opt.scenario.flows import Placement

MIN_SAVING = 0.005
"""Smaller gains, as a share of the weighted length of the job, do not count."""

_STAGES = {6: 2.015, 12: 1.796, 24: 1.714}  # samples: quantile 0.95 of Student's t
_MAX_SEEN = 256  # jobs, the last ones
_MAX_ARRIVALS = 12  # of a sample
_MAX_EVENTS = 100  # of a sample, departures included
_FIRST_TO_LEAVE = 16  # jobs whose losses count from the beginning, beside those on its links
_ANY = ""  # departure


class Arrivals:
    """Jobs as they came, from which jobs to come are drawn."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, JobRequest]] = deque(maxlen=_MAX_SEEN)
        self._names: set[str] = set()

    def note(self, job: JobRequest, at_ms: float) -> None:
        """Record that a job came at a time, the first time that it is noted."""
        if job.name not in self._names:
            if len(self._seen) == _MAX_SEEN:
                self._names.discard(self._seen[0][1].name)
            self._names.add(job.name)
            self._seen.append((at_ms, job))

    @property
    def expected_ms(self) -> float:
        """The length of a job that does not state it: the mean of those that do."""
        stated = [job.length_ms for _, job in self._seen if job.length_ms is not None]
        return fmean(stated) if stated else UNKNOWN_MS

    def length_ms(self, job: JobRequest) -> float:
        """Return how long a job is expected to run."""
        return self.expected_ms if job.length_ms is None else job.length_ms

    def sample(self, seed: object, until_ms: float, gpus: int) -> list[tuple[float, JobRequest]]:
        """Draw jobs to come and the times until then, in order.

        Jobs and times between two of them are drawn with replacement; none from fewer than two.
        The mean time is as uncertain as one of random arrivals, and no shorter than the GPUs need
        for what jobs ask.
        """
        draw = random.Random(f"{seed} {len(self._seen)}")  # noqa: S311 (nothing is kept secret)
        times = sorted(at for at, _ in self._seen)
        gaps = [after - before for before, after in pairwise(times)]
        if not gaps:
            return []
        asked = fmean(job.gpus * self.length_ms(job) for _, job in self._seen)
        rate = draw.gammavariate(len(gaps), 1) / len(gaps)  # a mean of few gaps is uncertain
        mean = max(fmean(gaps) / rate, asked / max(1, gpus))
        factor = mean / fmean(gaps) if sum(gaps) else 0.0
        found, now = list[tuple[float, JobRequest]](), 0.0
        while len(found) < _MAX_ARRIVALS:
            now += factor * draw.choice(gaps) if factor else mean
            if now > until_ms:
                break
            _, job = draw.choice(self._seen)
            found.append((now, replace(job, name=f"sample {len(found)}")))
        return found


def best_start(
    choices: Sequence[StartOption],
    job: JobRequest,
    occupancy: Occupancy,
    others: tuple[Sequence[JobRequest], Sequence[JobRequest]],
    arrivals: Arrivals,
    seed: int,
    *,
    may_wait: bool,
) -> StartOption:
    """Return the best start of a waiting job: the first, unless another one is surely better.

    It has to gain more than `MIN_SAVING`, by a one-sided limit of 95 %. Starts that gain nothing in
    the mean are dropped after a few samples. `others` wait, too: by choice until the next
    departure, or after the job in the queue; `may_wait` says whether these wait for better nodes.
    """
    begin = _FluidCluster(occupancy, arrivals.expected_ms, may_wait=may_wait)
    begin.add_losses(
        {
            placed.job.name
            for choice in choices
            for placed in occupancy.sharing_links(choice.placement)
        }
    )
    length, gpus = arrivals.length_ms(job), int(occupancy.resources.total[:, 0].sum())

    def value(choice: StartOption, number: int) -> float:
        """Return the weighted sum of the ends of all jobs under a choice in one sample."""
        cluster = begin.copy()
        waiting = [_Queued(held, _ANY) for held in others[0]]
        if choice.waits_for is None:
            cluster.place(PlacedJob(job, choice.placement))
        else:
            waiting.append(_Queued(job, choice.waits_for, choice.placement))
        cluster.queue = [*waiting, *(_Queued(later) for later in others[1])]
        return cluster.run(arrivals.sample(f"{seed} {number}", length, gpus))

    least = MIN_SAVING * job.cost_weight * length
    gains: dict[int, list[float]] = {index: [] for index in range(1, len(choices))}
    base = list[float]()
    for samples, quantile in _STAGES.items():
        for number in range(len(base), samples):
            base.append(value(choices[0], number))
            for index, gained in gains.items():
                gained.append(base[number] - value(choices[index], number))
        means = {index: fmean(gained) for index, gained in gains.items()}
        sure = [
            index
            for index, gained in gains.items()
            if means[index] > least + quantile * stdev(gained) / math.sqrt(samples)
        ]
        if sure:
            return choices[max(sure, key=lambda index: means[index])]
        gains = {index: gained for index, gained in gains.items() if means[index] > least}
        if not gains:
            break
    return choices[0]


@dataclass
class _Queued:
    """A waiting job."""

    job: JobRequest
    waits_for: str | None = None  # the job whose departure it waits for; None to start once it fits
    # where it starts then, if there is still room; its nearest placement otherwise
    placement: Placement | None = None
    fits_since_ms: float | None = None  # since when it could have started


@dataclass
class _Progress:
    """How long a job still runs by itself, as of a time, and its loss since then."""

    left_ms: float
    since_ms: float
    loss: float
    pairs: dict[str, float] = field(default_factory=dict)  # losses of others that it causes

    @property
    def end_ms(self) -> float:
        return self.since_ms + self.left_ms * (1 + self.loss)


class _FluidCluster:
    """A cluster whose jobs progress as a fluid."""

    def __init__(self, occupancy: Occupancy, unknown_ms: float, *, may_wait: bool) -> None:
        self.occupancy = occupancy
        self._unknown_ms, self._may_wait = unknown_ms, may_wait
        self.queue: list[_Queued] = []
        self._now = self._total = 0.0
        self._progress = {
            name: _Progress(self._length(placed.job), 0.0, placed.loss)
            for name, placed in occupancy.placed.items()
        }
        self._ends = [(progress.end_ms, name) for name, progress in self._progress.items()]
        heapq.heapify(self._ends)

    def copy(self) -> _FluidCluster:
        """Return an independent copy."""
        other = object.__new__(_FluidCluster)
        other.__dict__ |= self.__dict__
        other.occupancy = self.occupancy.copy()
        other._progress = {
            name: _Progress(
                progress.left_ms, progress.since_ms, progress.loss, progress.pairs.copy()
            )
            for name, progress in self._progress.items()
        }
        other._ends = self._ends.copy()
        return other

    def add_losses(self, names: set[str]) -> None:
        """Add the losses of some running jobs and of those that leave first."""
        soon = {name for _, name in heapq.nsmallest(_FIRST_TO_LEAVE, self._ends)}
        for name in names | soon:
            placed = self.occupancy.placed[name]
            for other, (mine, _) in self.occupancy.losses_of(placed).items():
                if mine:
                    self._progress[other].pairs[name] = mine
                    self._progress[name].loss += mine
        self._ends = [(progress.end_ms, name) for name, progress in self._progress.items()]
        heapq.heapify(self._ends)

    def place(
        self, placed: PlacedJob, losses: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        """Start a job; its losses and those of others are computed if they are not given."""
        job = placed.job
        mine = _Progress(self._length(job), self._now, placed.loss)
        if losses is None:
            losses = self.occupancy.losses_of(placed)
        for name, (own, others) in losses.items():
            mine.loss += own
            if own:
                self._progress[name].pairs[job.name] = own
            if others:
                mine.pairs[name] = others
                self._slow(name, others)
        self.occupancy.add(placed)
        self._progress[job.name] = mine
        heapq.heappush(self._ends, (mine.end_ms, job.name))

    def run(self, arrivals: Sequence[tuple[float, JobRequest]]) -> float:
        """Return the sum of weight times end over all jobs."""
        self._start_queued()
        coming = deque(arrivals)
        for _ in range(_MAX_EVENTS):
            end = self._next_end()
            if coming and coming[0][0] <= end:
                self._now, job = coming.popleft()
                self.queue.append(_Queued(job))
                self.queue.sort(key=lambda queued: -queued.job.weight)
                self._start_queued(job)
            elif math.isfinite(end):
                self._leave()
            else:
                break
        running = (
            self.occupancy.placed[name].job.cost_weight * progress.end_ms
            for name, progress in self._progress.items()
        )
        waiting = (
            queued.job.cost_weight * (self._now + self._length(queued.job)) for queued in self.queue
        )
        return self._total + sum(running) + sum(waiting)

    def _length(self, job: JobRequest) -> float:
        return self._unknown_ms if job.length_ms is None else job.length_ms

    def _next_end(self) -> float:
        """Return when the next job leaves; entries that no longer hold are dropped."""
        while self._ends:
            end, name = self._ends[0]
            if name in self._progress and self._progress[name].end_ms == end:
                return end
            heapq.heappop(self._ends)
        return math.inf

    def _leave(self) -> None:
        self._now, name = heapq.heappop(self._ends)
        leaving = self._progress.pop(name)
        job = self.occupancy.remove(name).job
        self._total += job.cost_weight * self._now
        for other, loss in leaving.pairs.items():
            if other in self._progress:
                self._slow(other, -loss)
        for queued in self.queue:
            if queued.waits_for in (_ANY, name):
                queued.waits_for = None
        self._start_queued()

    def _slow(self, name: str, by: float) -> None:
        """Add to the loss of a job from now on."""
        progress = self._progress[name]
        progress.left_ms -= (self._now - progress.since_ms) / (1 + progress.loss)
        progress.since_ms = self._now
        progress.loss += by
        heapq.heappush(self._ends, (progress.end_ms, name))

    def _start_queued(self, only: JobRequest | None = None) -> None:
        """Start waiting jobs at their nearest placements, where waiting does not cost less."""
        waiting = []
        for queued in self.queue:
            is_free = queued.waits_for is None and only in (None, queued.job)
            if not (is_free and self._start(queued)):
                waiting.append(queued)
        self.queue = waiting

    def _start(self, queued: _Queued) -> bool:
        """Start a job if it fits and has waited long enough for a better placement.

        It waits until the next departure for as long as the start costs: without knowledge of the
        future that costs at most twice the optimum ("ski rental").
        """
        job, room, placement = queued.job, self.occupancy.resources, queued.placement
        if placement is not None and room.holds(placement.nodes, job.task_resources):
            self.place(PlacedJob(job, placement))
            return True
        placement = room.nearest(job) if room.may_hold(job) else None
        if placement is None:
            return False
        if queued.fits_since_ms is None:
            queued.fits_since_ms = self._now
        placed = PlacedJob(job, placement)
        losses, length = self.occupancy.losses_of(placed), self._length(job)
        cost = job.cost_weight * length * placed.loss
        for name, (own, others) in losses.items():
            together = min(length, self._progress[name].end_ms - self._now)
            cost += together * (
                job.cost_weight * own + self.occupancy.placed[name].job.cost_weight * others
            )
        if self._may_wait and job.cost_weight * (self._next_end() - queued.fits_since_ms) < cost:
            return False
        self.place(placed, losses)
        return True
