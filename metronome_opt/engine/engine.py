"""Simulation engine: the compiled event loop, and results of jobs and links by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.engine.conditions import TCP, Conditions, Growth, TcpShares
from metronome_opt.engine.fluid import loop, state
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.problem.instance import Sharing
from metronome_opt.scenario.iteration import Iteration

if TYPE_CHECKING:
    import pandas as pd

_KEPT = 4096  # iteration times of each job, from the first on
_ALL_KEPT = 2**25  # the same, of all jobs together
_TRACE = 1 << 16  # records until the trace is flushed
_CHUNK = 1_000_000  # events between two checks for Ctrl-C


class Engine:
    """A network with jobs on it.

    Parameters
    ----------
    capacities
        Mbit/s per link.
    runners
        All jobs that may ever enter.
    sharing
        How links are shared.
    conditions
        Disturbances.
    seed
        Seed of all random numbers.
    watched
        Links whose rates are traced.
    contends
        Whether links carry no more than their capacity; otherwise no job delays another.
    tcp
        Distribution of TCP shares.
    growth
        Growth of the shares of bursts, whatever they are; None if they do not grow.

    Attributes
    ----------
    runners, links, capacities
        The jobs, and names and capacities of the links.
    contends
        As given.
    """

    def __init__(
        self,
        capacities: Mapping[str, float],
        runners: Sequence[EngineJob],
        *,
        sharing: Sharing = "fair",
        conditions: Conditions | None = None,
        seed: int = 0,
        watched: Sequence[str] = (),
        contends: bool = True,
        tcp: TcpShares = TCP,
        growth: Growth | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        self.runners = tuple(runners)
        self.contends = contends
        self.links = tuple(capacities)
        self._index = {name: index for index, name in enumerate(self.links)}
        self.capacities = np.array(list(capacities.values()), dtype=np.float64)
        self._world = _make_world(self.runners, len(capacities), traced=bool(watched))
        self._world.links["capacity"] = self.capacities if contends else math.inf
        self._nominal = self._world.links["capacity"].copy()
        self._world.links["watched"] = [name in set(watched) for name in capacities]
        stated = any(runner.pattern.jitter for runner in self.runners)
        if stated or conditions.random or sharing == "tcp":
            self._set_disturbances(conditions, seed)
        clock = self._world.clock
        clock["tcp"], clock["spread"], clock["newcomer"] = sharing == "tcp", *tcp
        clock["slope"], clock["intercept"] = growth or Growth(0.0, 1.0)
        self._set_shares(sharing)
        self._groups = 0
        self._traces: list[tuple[NDArray[Any], ...]] = []  # time, link, job, rate
        self._carried = np.zeros(len(capacities))  # by jobs before they were moved
        self._room = 2 * len(self._world.uses) if watched else 0  # no event writes more

    # ------------------------------------------------------------------ arrivals and departures

    def enter(
        self,
        job: int,
        links: Mapping[str, int],
        *,
        at: float | None = None,
        pattern: Iteration | None = None,
        slot: WindowSchedule | None = None,
    ) -> None:
        """Let a job begin its first iteration.

        Parameters
        ----------
        job
            Its index among the runners.
        links
            Flows per link. A flow is never faster than its share of a link that the job has to
            itself.
        at
            When, in ms; now if None.
        pattern
            If it is not that of the runner, but with as many bursts.
        slot
            When its iterations are to begin; None for a job that is never held back.
        """
        self._route(job, links, pattern)
        start = self.now if at is None else at
        loop.enter(self._world, job, start)
        self.assign(job, slot, start)
        self._world.jobs[job]["retry"] = 0.0  # it begins in its slot

    def move(
        self,
        job: int,
        links: Mapping[str, int],
        *,
        at: float,
        pattern: Iteration | None = None,
    ) -> None:
        """Interrupt a job, which goes on across other links, with no slot, from a time on.

        It begins the iteration anew in which it is, with the same chance.
        """
        self._flush_trace()
        loop.interrupt(self._world, job, at)
        self._leave(job)
        self._route(job, links, pattern)
        self.assign(job, None)

    def reroute(self, job: int, links: Mapping[str, int], pattern: Iteration) -> None:
        """Let the flows of a job take other links from now on, in whatever it does."""
        self._flush_trace()
        left = loop.leave_links(self._world, job)
        self._leave(job)
        self._route(job, links, pattern)
        if left >= 0:
            loop.resume(self._world, job, left)

    def _leave(self, job: int) -> None:
        """Take down what a job that sends nothing has sent on its links."""
        self._flush_trace()  # as long as it is known which links its uses were
        row = self._world.jobs[job]
        for use in self._world.uses[row["first_use"] : row["first_use"] + row["uses"]]:
            self._carried[use["link"]] += use["flows"] * row["sent"]
        row["sent"] = 0.0

    def is_gated(self, job: int) -> bool:
        """Return whether a job has a slot."""
        return bool(self._world.jobs[job]["period"])

    def assign(self, job: int, slot: WindowSchedule | None, start: float = 0.0) -> None:
        """Let the next iteration of a job, and those after it, begin in a slot.

        Parameters
        ----------
        slot
            None to hold it back no longer.
        start
            When the next iteration is planned to begin, in ms.
        """
        row = self._world.jobs[job]
        is_held = row["stage"] == state.HELD
        if slot is None:
            row["period"] = 0.0
            if is_held:
                loop.wait_for(self._world, job, self.now)
            return
        row["period"] = slot.period_ms
        waits = row["stage"] == state.WAITING
        # The end of an iteration will move the plan on by a period.
        row["due"] = row["planned"] = start if waits else start - slot.period_ms
        row["cushion"] = slot.cushion_ms
        row["paced"] = bool(slot.bursts_ms)
        first = int(row["first_segment"])
        for segment, due in enumerate(slot.bursts_ms, start=first):
            self._world.segments[segment]["due"] = due
        row["lateness"] = slot.lateness
        row["group"] = slot.group
        row["seen"] = self._world.shifts[slot.group]
        row["retry"] = -1.0
        if waits:
            loop.wait_for(self._world, job, max(self.now, start))
        if is_held:
            self._hold(job)

    def _hold(self, job: int) -> None:
        """Let a burst that waits begin in the first of new slots that it is not late for."""
        row = self._world.jobs[job]
        segment = self._world.segments[int(row["first_segment"] + row["segment"])]
        begin = float(row["due"] + (segment["due"] if row["paced"] else 0.0))
        missed = math.ceil((self.now - row["cushion"] - begin) / row["period"])
        passed = max(0, missed) * float(row["period"])
        row["due"] += passed
        row["planned"] += passed
        row["retry"] = 0.0
        loop.wait_for(self._world, job, max(self.now, begin + passed))

    def classify(self, job: int, traffic_class: int) -> None:
        """Let a job send in a traffic class from its next burst on."""
        row = self._world.jobs[job]
        row["next_rank"] = traffic_class * self._orders + row["next_rank"] % self._orders

    def end(self, job: int) -> None:
        """Let a job leave at the end of its current or next iteration."""
        row = self._world.jobs[job]
        row["total"] = row["done"] + 1

    def new_group(self) -> int:
        """Return the group that was returned longest ago; it has few members, if any."""
        self._groups = (self._groups + 1) % len(self._world.shifts)
        return self._groups

    def will_start(self, job: int) -> float:
        """Return when a job begins its next iteration as planned, in ms.

        Now, for a job that has not entered.
        """
        row = self._world.jobs[job]
        ready = self.can_start(job)
        if row["stage"] in (state.AWAY, state.WAITING) or not row["period"]:
            return ready
        return max(ready, float(row["planned"] + row["period"]))

    def can_start(self, job: int) -> float:
        """Return when a job could begin its next iteration without waiting for a slot, in ms.

        Its planned start, for a job that waits already.
        """
        row = self._world.jobs[job]
        if row["stage"] == state.AWAY:
            return self.now
        if row["stage"] == state.WAITING:
            return float(row["key"])
        first, count = int(row["first_segment"]), int(row["segments"])
        rest = self._world.segments[first + int(row["segment"]) : first + count]
        bursts = rest["volume"] > 0
        left = float(rest["compute"].sum())
        left += float((rest["volume"][bursts] / rest["rate"][bursts]).sum())
        if row["stage"] == state.COMPUTING:
            return float(row["key"]) + left - float(rest["compute"][0])
        if row["stage"] == state.HELD:
            return self.now + left - float(rest["compute"][0])
        left -= float(rest["compute"][0] + rest["volume"][0] / rest["rate"][0])
        under_way = row["left"] - max(row["rate"], 0.0) * (self.now - row["since"])
        return self.now + left + float(under_way / rest["rate"][0])

    def count_rephasing(self, job: int) -> None:
        """Count a stop of a job that waits for a new slot."""
        self._world.jobs[job]["rephasings"] += 1

    # ------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        """The time, in ms."""
        return float(self._world.clock["now"][0])

    @property
    def events(self) -> int:
        """The number of events so far."""
        return int(self._world.clock["events"][0])

    def run(self, until: float) -> int | None:
        """Go on until a job has run all its iterations, and return it; None if `until` comes first.

        Parameters
        ----------
        until
            In ms; may be infinite if some job has an end.
        """
        while True:
            why = loop.run(self._world, until, _CHUNK, self._room)
            if why == loop.FINISHED:
                return int(self._world.clock["finished"][0])
            if why == loop.REACHED:
                return None
            if why == loop.FULL:
                self._flush_trace()

    # ------------------------------------------------------------------ results

    def done(self, job: int) -> int:
        """Return the number of iterations that a job has ended."""
        return int(self._world.jobs[job]["done"])

    def times(self, job: int) -> Floats:
        """Return the iteration times of a job in ms, the first ones if there are very many."""
        count = min(int(self._world.jobs[job]["timed"]), self._world.times.shape[1])
        return self._world.times[job, :count].copy()

    def mean_time(self, job: int) -> float:
        """Return the mean of all iteration times of a job in ms; NaN if there is none."""
        row = self._world.jobs[job]
        return float(row["spent"] / row["timed"]) if row["timed"] else math.nan

    def ended(self) -> tuple[Floats, Floats]:
        """Return for each job the time of all its ended iterations, in ms, and their number."""
        jobs = self._world.jobs
        return jobs["spent"].copy(), jobs["timed"].astype(np.float64)

    def extremes(self, job: int) -> tuple[float, float]:
        """Return the shortest and the longest iteration of a job in ms; NaN if there is none."""
        row = self._world.jobs[job]
        if not row["timed"]:
            return math.nan, math.nan
        return float(row["shortest"]), float(row["longest"])

    def rephasings(self, job: int) -> int:
        """Return the number of times that a job was re-phased."""
        return int(self._world.jobs[job]["rephasings"])

    def carried(self) -> Floats:
        """Return the volume that each link has carried, in Mbit/s * ms."""
        sent = np.zeros(len(self._world.jobs))
        loop.add_sent(self._world, sent)
        uses = self._world.uses
        volumes = uses["flows"] * sent[uses["job"]]
        total = self._carried.copy()
        np.add.at(total, uses["link"], volumes)
        return total

    def trace(self) -> pd.DataFrame:
        """Return the rates on the watched links: time_ms, link, job, rate_mbps."""
        import pandas as pd

        return pd.DataFrame(self.traced())

    def traced(self) -> dict[str, NDArray[Any]]:
        """Return the columns of `trace`."""
        self._flush_trace()
        time, link, job, rate = map(np.concatenate, zip(*self._traces, strict=True))
        names = np.array([runner.name for runner in self.runners], dtype=object)
        return {
            "time_ms": time,
            "link": np.array(self.links, dtype=object)[link],
            "job": names[job],
            "rate_mbps": rate,
        }

    # ------------------------------------------------------------------ setup

    def _flush_trace(self) -> None:
        """Move the records of the trace to `_traces`."""
        count = int(self._world.clock["traced"][0])
        records = self._world.trace[:count]
        uses = self._world.uses[records["use"]]
        rates = records["rate"] * uses["flows"]
        self._traces.append((records["time"].copy(), uses["link"], uses["job"], rates))
        self._world.clock["traced"] = 0

    def _route(self, job: int, links: Mapping[str, int], pattern: Iteration | None) -> None:
        """Let a job that sends nothing cross some links from now on."""
        row = self._world.jobs[job]
        self._set_segments(job, pattern or self.runners[job].pattern, links)
        first = int(row["first_use"])
        self._world.uses[first : first + int(row["uses"])] = (0, job, 0, -1, -1)
        row["uses"] = len(links)
        for use, (link, flows) in enumerate(links.items(), start=first):
            self._world.uses[use] = (self._index[link], job, flows, -1, -1)

    def _set_segments(self, job: int, pattern: Iteration, links: Mapping[str, int]) -> None:
        first = int(self._world.jobs[job]["first_segment"])
        limit = min(
            (self._nominal[self._index[link]] / flows for link, flows in links.items()),
            default=math.inf,
        )
        volumes = [float(1000 * burst.volume) for burst in pattern.bursts]
        sent = list(accumulate(volumes, initial=0.0))
        for segment, compute in enumerate(pattern.pauses):
            row = self._world.segments[first + segment]
            row["compute"] = float(compute)
            row["before"] = sent[segment]
            if segment < len(volumes):
                row["volume"] = volumes[segment]
                row["rate"] = min(float(pattern.bursts[segment].rate), limit)

    def _set_disturbances(self, conditions: Conditions, seed: int) -> None:
        """Seed every job separately, so that its random numbers do not depend on other jobs."""
        jobs = self._world.jobs
        for job, runner in enumerate(self.runners):
            own = runner.pattern.jitter
            jobs[job]["jitter"] = conditions.jitter if own is None else own
            jobs[job]["chance"], wrong = _drawn(seed, job)
            jobs[job]["speed"] = 1.0 + 1e-6 * conditions.drift_ppm * wrong

    def _set_shares(self, sharing: Sharing) -> None:
        jobs = self._world.jobs
        weights = [runner.weight for runner in self.runners]
        within = {"strict": weights, "weighted": [int(weight > 0) for weight in weights]}
        ordered = within.get(sharing, [0] * len(weights))
        orders = {weight: order for order, weight in enumerate(sorted(set(ordered)))}
        self._orders = max(1, len(orders))  # within a traffic class
        jobs["next_rank"] = [orders[weight] for weight in ordered]
        for job, runner in enumerate(self.runners):
            self.classify(job, runner.traffic_class)
        jobs["base"] = [float(w or 1) if sharing == "weighted" else 1.0 for w in weights]


@lru_cache(maxsize=1 << 12)
def _drawn(seed: int, job: int) -> tuple[np.uint64, float]:
    """Return the state of the random numbers of a job, and how wrong its clock is, -1 to 1."""
    (state,) = np.random.SeedSequence([seed, job]).generate_state(1, np.uint64)
    return state, np.random.default_rng([seed, job]).uniform(-1.0, 1.0)


def _make_world(runners: Sequence[EngineJob], links: int, *, traced: bool) -> state.EngineState:
    uses = sum(runner.max_links for runner in runners)
    made = state.empty_world(
        jobs=len(runners),
        links=links,
        uses=uses,
        segments=sum(len(runner.pattern.pauses) for runner in runners),
        kept=max(1, min(_KEPT, _ALL_KEPT // max(1, len(runners)))),
        trace=_TRACE + 4 * uses if traced else 1,
    )
    segment, use = 0, 0
    for row, runner in zip(made.jobs, runners, strict=True):
        row["first_segment"], row["segments"] = segment, len(runner.pattern.pauses)
        row["first_use"] = use
        row["total"] = -1 if runner.iterations is None else runner.iterations
        segment += len(runner.pattern.pauses)
        use += runner.max_links
    return made
