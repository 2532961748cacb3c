"""What a policy sees: the cluster, who runs where, and when each job begins its next iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from metronome_opt.scenario.rounding import Rounded
from metronome_opt.simulate.cluster import Machines, Placement
from metronome_opt.simulate.conditions import Sharing
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.jobs import TrainingJob
from metronome_opt.simulate.runner import Slot

_MOST_AROUND = 24  # jobs that are looked at together


@dataclass
class Placed:
    """A job that runs.

    Attributes
    ----------
    slot
        When its iterations are to begin; None if it is never held back.
    score, elongation_ms
        Compatibility and elongation of an iteration as its policy predicts them; None if it does
        not.
    """

    job: TrainingJob
    placement: Placement
    slot: Slot | None = None
    score: float | None = None
    elongation_ms: float | None = None

    @property
    def claim(self) -> Rounded:
        """What it claims there, in slots."""
        return self.job.claim(self.placement.rate)

    @property
    def slots(self) -> int:
        """How many slots an iteration takes there that nothing holds up, as it claims."""
        return self.job.slots(self.placement.rate)


@dataclass(frozen=True)
class Order:
    """What a job is to do from its next iteration on.

    Attributes
    ----------
    index
        Of the job.
    slot
        None to go on as soon as it can.
    start_ms
        When the next iteration is to begin.
    score, elongation_ms
        As in `Placed`.
    """

    index: int
    slot: Slot | None
    start_ms: float
    score: float | None = None
    elongation_ms: float | None = None


@dataclass
class State:
    """The cluster at a moment.

    Attributes
    ----------
    machines
        Nodes and links.
    engine
        The jobs in motion: to be asked, not to be changed.
    cushions
        Whether cushions are to be reserved.
    sharing
        How links are shared.
    running
        By index.
    users
        Per link, the indices of the jobs that cross it.
    now
        In ms.
    changes
        How often jobs have come or gone for good, or their claims were corrected.
    paced
        Whether every burst is to keep a slot, and not only the iteration.
    spreads
        By job, the standard deviation of its computing time in ms, as far as it was measured.
    """

    machines: Machines
    engine: Engine
    cushions: bool = True
    sharing: Sharing = "fair"
    running: dict[int, Placed] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    now: float = 0.0
    changes: int = 0
    paced: bool = False
    spreads: dict[int, float] = field(default_factory=dict)

    def add(self, placed: Placed) -> None:
        """Take a job in."""
        self.machines.take(placed.placement)
        self.running[placed.job.index] = placed
        for link in placed.placement.links:
            self.users.setdefault(link, []).append(placed.job.index)

    def remove(self, index: int) -> Placed:
        """Let a job go."""
        placed = self.running.pop(index)
        self.spreads.pop(index, None)
        self.machines.release(placed.placement)
        for link in placed.placement.links:
            self.users[link].remove(index)
        return placed

    def is_crowded(self, link: str) -> bool:
        """Whether the bursts of all jobs on a link together need more than it carries."""
        peak = sum(self._peak(index, link) for index in self.users.get(link, ()))
        return peak > self.machines.capacities[link]

    def _peak(self, index: int, link: str) -> int:
        placed = self.running[index]
        return placed.placement.links[link] * peak_rate(placed)

    def next_start(self, index: int) -> tuple[float, Slot | None]:
        """Return when a job is going to begin its next iteration, in ms, and the slot it keeps."""
        return max(self.now, self.engine.will_start(index)), self.running[index].slot

    def can_start(self, index: int) -> float:
        """Return when a job could begin its next iteration, in ms."""
        return max(self.now, self.engine.can_start(index))

    def left_ms(self, index: int) -> float:
        """Return how long a job is going to run if nothing holds it up."""
        job = self.running[index].job
        return (job.iterations - self.engine.done(index)) * job.ideal.alone_ms

    def near(self, index: int) -> list[int]:
        """Return a job and all that cross a crowded link with it."""
        found = {index: None}
        for link in self.running[index].placement.links:
            if self.is_crowded(link):
                found.update(dict.fromkeys(self.users[link]))
        return list(found)

    def neighbours(self, left: Iterable[Placed]) -> list[int]:
        """Return who crosses links that jobs which have left did cross."""
        links = dict.fromkeys(link for placed in left for link in placed.placement.links)
        return list(dict.fromkeys(index for link in links for index in self.users.get(link, ())))

    @contextmanager
    def trying(self, placed: Placed) -> Iterator[None]:
        """Take a job in for a moment, to see what it would be like."""
        self.add(placed)
        try:
            yield
        finally:
            self.remove(placed.job.index)

    def around(self, seed: int) -> list[int]:
        """Return a job and those that may get in its way, directly or through others.

        Of very many only the nearest ones.
        """
        found = {seed: None}
        queue = [seed]
        crowded: dict[str, bool] = {}
        for index in queue:
            for link in self.running[index].placement.links:
                if link not in crowded:
                    crowded[link] = self.is_crowded(link)
                    for other in self.users[link] if crowded[link] else ():
                        if other not in found:
                            if len(found) >= _MOST_AROUND:
                                return list(found)
                            found[other] = None
                            queue.append(other)
        return list(found)

    def changed(self, came: Iterable[int], left: Iterable[Placed]) -> Iterator[list[int]]:
        """Yield the jobs around each that came, and around those that had to do with who left.

        A job that has been among some already is not begun with again.
        """
        seen: set[int] = set()
        for index in [*came, *self.neighbours(left)]:
            if index not in seen:
                members = self.around(index)
                seen.update(members)
                yield members

    def load(self) -> Counter[str]:
        """Return the peak demand of all jobs together by link, in Mbit/s."""
        total: Counter[str] = Counter()
        for placed in self.running.values():
            for link, flows in placed.placement.links.items():
                total[link] += flows * peak_rate(placed)
        return total


def peak_rate(placed: Placed) -> int:
    """Return the fastest that a task of a job sends, in Mbit/s."""
    return max(burst.rate for burst in placed.job.iteration(placed.placement.rate).bursts)
