"""Jobs with gates on few links, in a simulation of its own: what a controller sees of a cluster.

Jobs compute, wait for their slots by the rules of the gate, and share links fairly. Their gates'
counters are scraped every five seconds. No code of the package's own simulator is used.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.gates import GateCounter
from metronome_opt.cluster.state import ClusterState
from metronome_opt.gate.plan import Claim as GateClaim
from metronome_opt.gate.plan import SlotPlan
from metronome_opt.instance import Phase
from metronome_opt.kubernetes.controller.rephase import THREAD, Rephasing
from tests.kubernetes.controller.fake import spec_of

LINK_MBPS = 50_000
SLOT_MS = 5
_SCRAPE_S = 5.0
_LOOK_S = 1.0
_MBIT = 8e-6  # per byte
_EACH = 16


@dataclass
class Worker:
    """A job with a burst at the end of each iteration; times in ms."""

    name: str
    compute_ms: float
    burst_ms: float  # at its own rate
    rate: float  # Mbit/s
    weight: int = 1
    claim: GateClaim | None = None
    plan: SlotPlan | None = None
    ready_ms: float = 0.0
    slot_ms: float | None = None
    began_ms: float | None = None
    left: float = 0.0  # of its burst, Mbit/s * ms
    before_ms: float | None = None
    fastest_s: float = 1e9
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    ended: list[tuple[float, float]] = field(default_factory=list)  # when, iteration in ms

    def gang(self, hyperperiod: int) -> Gang:
        """Return what it says of itself, with a period that is rounded up to a divisor."""
        compute, burst = round(self.compute_ms / SLOT_MS), round(self.burst_ms / SLOT_MS)
        period = next(p for p in range(compute + burst, 1000) if hyperperiod % p == 0)
        return Gang(
            name=self.name,
            tasks=2,
            period=compute + burst,
            max_stretch=period - compute - burst,
            phases=(Phase(start=compute, length=burst, rate=round(self.rate)),),
            weight=self.weight,
        )


class Fleet:
    """Jobs on links, and perhaps a controller of their slots.

    Links are the interfaces of nodes n0, n1 and so on; `slowed` says what is left of them.
    """

    def __init__(
        self,
        *,
        measured: bool,
        seed: int = 0,
        jitter: float = 0.01,
        nodes: int = 2,
        hyperperiod: int = 240,
    ) -> None:
        self.state = ClusterState(spec_of(nodes, gpus=64, hyperperiod=hyperperiod))
        self.slowed = dict.fromkeys(self.state.cluster.capacities, 1.0)
        self.now_ms = 0.0
        self.workers: dict[str, Worker] = {}
        self.rephasings: list[str] = []
        self._draw = random.Random(seed)
        self._jitter = jitter
        self._events: list[tuple[float, int, str, str]] = []
        self._count = 0
        self._scraped: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self._next_scrape_s = self._next_look_s = 0.0
        self._rephasing: Rephasing | None = None
        if measured:
            self._rephasing = Rephasing(self.state, self.read, clock=lambda: self.now_ms / 1000)

    def come(
        self,
        worker: Worker,
        offset: int,
        *,
        gated: bool = True,
        nodes: tuple[str, ...] = ("n0", "n1"),
    ) -> None:
        """Let a job begin, with a reservation at an offset in slots."""
        self.workers[worker.name] = worker
        gang = worker.gang(self.state.cluster.hyperperiod)
        stretch = gang.stretch_for(self.state.cluster.hyperperiod)
        self.state.reserve(
            Reservation(gang=gang, nodes=nodes, offset=offset, stretch=stretch, gated=gated)
        )
        self._tell()
        self._compute(worker)

    def leave(self, name: str) -> None:
        """Let a job end."""
        del self.workers[name]
        self.state.unreserve(name)

    def mean_ms(self, name: str, last_s: float) -> float:
        """Return the mean iteration time of a job over the last seconds."""
        since = self.now_ms - 1000 * last_s
        times = [length for at, length in self.workers[name].ended if at >= since]
        return sum(times) / len(times)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now_ms + 1000 * seconds
        while self.now_ms < end:
            rates = self._rates()
            done = {n: self.now_ms + self.workers[n].left / r for n, r in rates.items()}
            soonest = min(done.values(), default=end)
            at = min(soonest, end, self._events[0][0] if self._events else end)
            at = min(at, 1000 * min(self._next_scrape_s, self._next_look_s))
            for name, rate in rates.items():
                worker = self.workers[name]
                worker.left -= rate * (at - self.now_ms)
                worker.counts["sent_bytes"] += rate * (at - self.now_ms) / 1000 / _MBIT
            self.now_ms = at
            for name in [n for n in rates if self.workers[n].left <= 1e-2]:
                self._end_burst(self.workers[name])
            while self._events and self._events[0][0] <= self.now_ms:
                self._happen()
            if self.now_ms >= 1000 * self._next_scrape_s:
                self._scrape()
            if self.now_ms >= 1000 * self._next_look_s:
                self._next_look_s += _LOOK_S
                self._look()

    # ------------------------------------------------------------------ jobs

    def _rates(self) -> dict[str, float]:
        """Return what each burst gets: shares that are fair, none more than it can send."""
        asking = {n: w.rate for n, w in self.workers.items() if w.began_ms is not None}
        crossed = {name: self.state.flows(name) for name in asking}
        left = {link: LINK_MBPS * share for link, share in self.slowed.items()}
        rates: dict[str, float] = {}
        while asking:
            users = Counter(link for name in asking for link in crossed[name])
            ways = {
                name: min([most, *(left[link] / users[link] for link in crossed[name])])
                for name, most in asking.items()
            }
            name = min(ways, key=ways.__getitem__)
            rates[name] = ways[name]
            del asking[name]
            for link in crossed[name]:
                left[link] -= rates[name]
        return rates

    def _at(self, when_ms: float, what: str, name: str) -> None:
        self._count += 1
        heapq.heappush(self._events, (when_ms, self._count, what, name))

    def _compute(self, worker: Worker) -> None:
        length = worker.compute_ms * max(0.1, self._draw.gauss(1, self._jitter))
        self._at(self.now_ms + length, "ready", worker.name)

    def _happen(self) -> None:
        _, _, what, name = heapq.heappop(self._events)
        worker = self.workers.get(name)
        if worker is None:
            return
        if what == "ready":
            worker.ready_ms = self.now_ms
            begin, worker.slot_ms = self._slot(worker)
            self._at(begin, "begin", name)
            return
        worker.began_ms, worker.left = self.now_ms, worker.burst_ms * worker.rate
        worker.counts["waited_seconds"] += (self.now_ms - worker.ready_ms) / 1000
        if worker.slot_ms is not None:
            worker.counts["late_seconds"] += max(0.0, self.now_ms - worker.slot_ms) / 1000
        if worker.before_ms is not None:
            length = self.now_ms - worker.before_ms
            worker.counts["iterations"] += 1
            worker.counts["iteration_seconds"] += length / 1000
            worker.ended.append((self.now_ms, length))
        worker.before_ms = self.now_ms

    def _slot(self, worker: Worker) -> tuple[float, float | None]:
        """Return when a burst begins that is ready, as the gate has it, and its slot."""
        claim = worker.claim
        if claim is None or not claim.gated:
            worker.plan = None
            return self.now_ms, None
        if worker.plan is None:
            worker.plan = SlotPlan(claim)
        elif worker.plan.claim != claim:
            worker.plan.follow(claim)
        begin, slot = worker.plan.take(round(1e6 * self.now_ms))
        return max(self.now_ms, begin / 1e6), slot / 1e6

    def _end_burst(self, worker: Worker) -> None:
        assert worker.began_ms is not None
        worker.counts["bursts"] += 1
        length_s = (self.now_ms - worker.began_ms) / 1000
        worker.counts["burst_seconds"] += length_s
        worker.fastest_s = min(worker.fastest_s, length_s)
        if worker.counts["bursts"] % _EACH == 0:
            worker.counts["fastest_seconds"] += worker.fastest_s
            worker.counts["fastest_bytes"] += worker.burst_ms * worker.rate / 1000 / _MBIT
            worker.fastest_s = 1e9
        worker.began_ms = None
        self._compute(worker)

    # ------------------------------------------------------------------ the controller

    def _tell(self) -> None:
        slot_ns = SLOT_MS * 1_000_000
        for name, claim in self.state.claims.items():
            starts = tuple(slot_ns * phase.start for phase in claim.gang.phases)
            self.workers[name].claim = GateClaim(
                slot_ns * claim.offset, slot_ns * claim.period, starts, gated=claim.gated
            )

    def _scrape(self) -> None:
        self._next_scrape_s += _SCRAPE_S
        for name, worker in self.workers.items():
            for counter, value in worker.counts.items():
                points = self._scraped.setdefault((name, counter), [])
                points.append((self.now_ms / 1000, value))

    def read(self, begin_s: float, end_s: float) -> list[GateCounter]:
        """Return what was scraped, as Prometheus does."""
        found = []
        for (name, counter), points in self._scraped.items():
            inside = np.array([point for point in points if begin_s <= point[0] <= end_s])
            if len(inside):
                found.append(GateCounter(name, counter, inside[:, 0], inside[:, 1]))
        return found

    def _look(self) -> None:
        if self._rephasing is None:
            return
        done = self._rephasing.step()
        for thread in threading.enumerate():
            if thread.name == THREAD:
                thread.join()
        if done is not None and done.gangs:
            self.rephasings.append(f"{self.now_ms / 1000:.0f} s: {done.line}")
            self._tell()
