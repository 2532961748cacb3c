"""Jobs with gates on few links, in a simulation of its own, and the monitor that watches them.

Jobs compute, wait for their windows by the rules of the gate, and share links fairly. Their gates'
counters are scraped every five seconds. No code of the package's own simulator is used.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from metronome_opt.gate.windows import Claim, WindowTracker
from metronome_opt.kubernetes.state.monitor import Monitor
from metronome_opt.kubernetes.state.observations import GateCounter
from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Phase
from tests.kubernetes.state.states import spec

LINK_MBPS = 50_000
SLOT_MS = 5
_SCRAPE_MS = 5000.0
_CHECK_MS = 1000.0
_MBIT = 8e-6  # per byte
_EACH = 16  # bursts of which a gate counts the fastest


@dataclass
class Worker:
    """A job with a burst at the end of each iteration; times in ms.

    Attributes
    ----------
    until_ms
        When it has computed, or waited for its window.
    left
        What is left of its burst, in Mbit/s * ms; None if it sends nothing.
    iterations
        When each ended, and its length.
    """

    name: str
    compute_ms: float
    burst_ms: float  # with a link of its own
    weight: int = 1
    claim: Claim | None = None
    plan: WindowTracker | None = None
    until_ms: float = 0.0
    ended_ms: float | None = None  # its last burst
    computed_ms: float | None = None  # before its last burst
    ready_ms: float | None = None  # while it waits
    slot_ms: float | None = None
    began_ms: float | None = None  # its last burst
    left: float | None = None
    fastest_s: float = 1e9
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    iterations: list[tuple[float, float]] = field(default_factory=list)

    def gang(self, hyperperiod: int) -> Gang:
        """Return what it says of itself, with a period that is rounded up to a divisor."""
        compute, burst = round(self.compute_ms / SLOT_MS), round(self.burst_ms / SLOT_MS)
        period = next(p for p in range(compute + burst, 1000) if hyperperiod % p == 0)
        return Gang(
            name=self.name,
            tasks=2,
            period=compute + burst,
            max_stretch=period - compute - burst,
            phases=(Phase(start=compute, length=burst, rate=LINK_MBPS),),
            weight=self.weight,
        )

    def wait(self, now_ms: float) -> None:
        """Wait for a window by the rules of the gate; for none if it is not gated."""
        self.ready_ms, self.until_ms, self.slot_ms = now_ms, now_ms, None
        if self.ended_ms is not None:
            before_ms, self.computed_ms = self.computed_ms, now_ms - self.ended_ms
            if before_ms is not None:
                self.counts["computing_products"] += before_ms * self.computed_ms / 1e6
                self.counts["computing_differences"] += (before_ms - self.computed_ms) ** 2 / 1e6
        if self.claim is None or not self.claim.gated:
            self.plan = None
            return
        if self.plan is None:
            self.plan = WindowTracker(self.claim)
        elif self.plan.claim != self.claim:
            self.plan.set_claim(self.claim)
        begin_ns, slot_ns = self.plan.take(round(1e6 * now_ms))
        self.until_ms = max(now_ms, begin_ns / 1e6)
        self.slot_ms = None if slot_ns is None else slot_ns / 1e6

    def begin(self, now_ms: float) -> None:
        """Begin a burst, and with it an iteration."""
        assert self.ready_ms is not None
        self.counts["waited_seconds"] += (now_ms - self.ready_ms) / 1000
        if self.slot_ms is not None:
            self.counts["late_seconds"] += max(0.0, now_ms - self.slot_ms) / 1000
        if self.began_ms is not None:
            length = now_ms - self.began_ms
            self.counts["iterations"] += 1
            self.counts["iteration_seconds"] += length / 1000
            self.iterations.append((now_ms, length))
        self.ready_ms, self.began_ms, self.left = None, now_ms, self.burst_ms * LINK_MBPS

    def end(self, now_ms: float) -> None:
        """End a burst."""
        assert self.began_ms is not None
        length_s = (now_ms - self.began_ms) / 1000
        self.left, self.ended_ms = None, now_ms
        self.counts["bursts"] += 1
        self.counts["burst_seconds"] += length_s
        self.fastest_s = min(self.fastest_s, length_s)
        if self.counts["bursts"] % _EACH == 0:
            self.counts["fastest_seconds"] += self.fastest_s
            self.counts["fastest_bytes"] += self.burst_ms * LINK_MBPS / 1000 / _MBIT
            self.fastest_s = 1e9


class Fleet:
    """Jobs on links, and perhaps a monitor that changes their windows.

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
        self.state = ClusterState(spec(nodes, LINK_MBPS, hyperperiod))
        self.slowed = dict.fromkeys(self.state.cluster.capacities, 1.0)
        self.now_ms = 0.0
        self.workers: dict[str, Worker] = {}
        self.rephasings: list[str] = []
        self._random = random.Random(seed)
        self._jitter = jitter
        self._scraped: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self._scrape_ms = self._check_ms = 0.0  # when the next is due
        self._monitor = None
        if measured:
            self._monitor = Monitor(self.read, clock=lambda: self.now_ms / 1000)
            self._monitor.follow(self.state)

    def come(self, worker: Worker, offset: int, nodes: tuple[str, ...] = ("n0", "n1")) -> None:
        """Let a job begin, with a reservation at an offset in slots."""
        self.workers[worker.name] = worker
        gang = worker.gang(self.state.cluster.hyperperiod)
        stretch = gang.stretch_for(self.state.cluster.hyperperiod)
        self.state.reserve(Reservation(gang=gang, nodes=nodes, offset=offset, stretch=stretch))
        self._notify()
        self._compute(worker)

    def leave(self, name: str) -> None:
        """Let a job end."""
        del self.workers[name]
        self.state.unreserve(name)

    def mean_ms(self, name: str, last_s: float) -> float:
        """Return the mean iteration time of a job over the last seconds."""
        since = self.now_ms - 1000 * last_s
        times = [length for at, length in self.workers[name].iterations if at >= since]
        return sum(times) / len(times)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now_ms + 1000 * seconds
        while self.now_ms < end:
            rates = self._rates()
            times = [
                worker.until_ms if worker.left is None else self.now_ms + worker.left / rates[name]
                for name, worker in self.workers.items()
            ]
            before_ms, self.now_ms = self.now_ms, min(end, self._scrape_ms, self._check_ms, *times)
            for name, rate in rates.items():
                sent = rate * (self.now_ms - before_ms)
                self.workers[name].left -= sent  # type: ignore[operator]
                self.workers[name].counts["sent_bytes"] += sent / 1000 / _MBIT
            for worker in self.workers.values():
                self._step(worker)
            if self.now_ms >= self._scrape_ms:
                self._scrape()
            if self.now_ms >= self._check_ms:
                self._check()

    # ------------------------------------------------------------------ jobs

    def _step(self, worker: Worker) -> None:
        """Let a job go on if it has sent, computed or waited for long enough."""
        if worker.left is not None:
            if worker.left <= 1e-2:
                worker.end(self.now_ms)
                self._compute(worker)
            return
        if self.now_ms >= worker.until_ms and worker.ready_ms is None:
            worker.wait(self.now_ms)
        if self.now_ms >= worker.until_ms:
            worker.begin(self.now_ms)

    def _compute(self, worker: Worker) -> None:
        length = worker.compute_ms * max(0.1, self._random.gauss(1, self._jitter))
        worker.until_ms = self.now_ms + length

    def _rates(self) -> dict[str, float]:
        """Return the rate of each burst: fair shares of the links that it crosses."""
        crossed = {
            name: self.state.flows[name]
            for name, worker in self.workers.items()
            if worker.left is not None
        }
        left = {link: LINK_MBPS * share for link, share in self.slowed.items()}
        rates: dict[str, float] = {}
        while crossed:
            users = Counter(link for links in crossed.values() for link in links)
            shares = {
                name: min(left[link] / users[link] for link in links)
                for name, links in crossed.items()
            }
            name = min(shares, key=shares.__getitem__)
            rates[name] = shares[name]
            for link in crossed.pop(name):
                left[link] -= rates[name]
        return rates

    # ------------------------------------------------------------------ the monitor

    def _notify(self) -> None:
        slot_ns = SLOT_MS * 1_000_000
        for name, held in self.state.reservations.items():
            starts = tuple(slot_ns * phase.start for phase in held.gang.phases)
            self.workers[name].claim = Claim(
                slot_ns * held.offset, slot_ns * held.period, starts, gated=held.gated
            )

    def _scrape(self) -> None:
        self._scrape_ms += _SCRAPE_MS
        for name, worker in self.workers.items():
            for counter, value in worker.counts.items():
                self._scraped[name, counter].append((self.now_ms / 1000, value))

    def read(self, begin_s: float, end_s: float) -> list[GateCounter]:
        """Return what was scraped, as Prometheus does."""
        result = []
        for (name, counter), points in self._scraped.items():
            inside = np.array([point for point in points if begin_s <= point[0] <= end_s])
            if len(inside):
                result.append(GateCounter(name, counter, inside[:, 0], inside[:, 1]))
        return result

    def _check(self) -> None:
        self._check_ms += _CHECK_MS
        if self._monitor is None:
            return
        review = self._monitor.next(self.state)
        if review is None:
            return
        decision = self._monitor.decide(review)
        if self._monitor.apply(self.state, review, decision):
            self.rephasings.append(f"{self.now_ms / 1000:.0f} s: {decision.reason}")
            self._notify()
