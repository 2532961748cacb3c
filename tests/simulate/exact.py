"""A simulation in exact arithmetic, for small systems: all rates anew at every event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tests.simulate.systems import Loop, System, classes


def exact_ends(system: System) -> dict[str, list[Fraction]]:
    """Return for each job when its iterations end, in ms."""
    runners = [_Runner(loop) for loop in system.loops]
    now = Fraction(0)
    while any(not runner.done for runner in runners):
        sending = {runner.loop.name: runner.rate for runner in runners if runner.sends(now)}
        rates = exact_rates(system, sending)
        for runner in runners:
            runner.speed = Fraction(
                0 if now < runner.loop.start else rates.get(runner.loop.name, Fraction(1))
            )
        step = min(runner.next_event(now) for runner in runners if not runner.done)
        now += step
        for runner in runners:
            runner.advance(step, now)
    return {runner.loop.name: runner.ends for runner in runners}


@dataclass
class _Runner:
    """Where a loop is: what is left of its segment, in ms of computing or in volume."""

    loop: Loop
    segment: int = 0
    speed: Fraction = Fraction(0)
    ends: list[Fraction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self._whole()

    @property
    def done(self) -> bool:
        return len(self.ends) == self.loop.iterations

    @property
    def rate(self) -> int:
        return self.loop.segments[self.segment].rate

    def sends(self, now: Fraction) -> bool:
        return not self.done and now >= self.loop.start and self.rate > 0

    def next_event(self, now: Fraction) -> Fraction:
        """Return in how many ms the segment ends or the loop starts."""
        if now < self.loop.start:
            return self.loop.start - now
        # Starved for now: the event of another job will change that.
        return self.left / self.speed if self.speed else Fraction(10**12)

    def advance(self, step: Fraction, now: Fraction) -> None:
        if self.done:
            return
        self.left -= step * self.speed
        if self.left > 0:
            return
        self.segment += 1
        if self.segment == len(self.loop.segments):
            self.segment = 0
            self.ends.append(now)
        self.left = self._whole()

    def _whole(self) -> Fraction:
        segment = self.loop.segments[self.segment]
        return segment.volume if segment.rate else segment.length


def exact_rates(system: System, sending: Mapping[str, int]) -> dict[str, Fraction]:
    """Return the flow rates of the jobs that send, given the own rate of each.

    Water-filling: the level of all open jobs rises until one reaches its own rate or a link is
    full; these jobs stay where they are, the others rise on.
    """
    free = {link: Fraction(capacity) for link, capacity in system.capacities.items()}
    rates: dict[str, Fraction] = {}
    for group in classes([loop for loop in system.loops if loop.name in sending], system.sharing):
        speeds = {
            loop.name: max(loop.weight, 1) if system.sharing == "weighted" else 1 for loop in group
        }
        rates.update(dict.fromkeys(speeds, Fraction(0)))
        rising = group
        while rising:
            pull = {
                link: sum(speeds[loop.name] * loop.flows.get(link, 0) for loop in rising)
                for link in free
            }
            rise = min(
                *((sending[loop.name] - rates[loop.name]) / speeds[loop.name] for loop in rising),
                *(free[link] / pull[link] for link in free if pull[link]),
                Fraction(10**12),
            )
            for loop in rising:
                rates[loop.name] += rise * speeds[loop.name]
            for link in free:
                free[link] -= rise * pull[link]
            rising = [
                loop
                for loop in rising
                if rates[loop.name] < sending[loop.name]
                and all(free[link] > 0 for link in loop.flows)
            ]
    return rates
