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
    """A network with jobs on it, whose rates on watched links are traced.

    Capacities are in Mbit/s; `jobs` are all that may ever start. Without contention no job delays
    another. Shares of bursts grow by `growth`, whatever they are, if it is given.
    """

    def __init__(
        self,
        capacities: Mapping[str, float],
        jobs: Sequence[EngineJob],
        *,
        sharing: Sharing = "fair",
        conditions: Conditions | None = None,
        seed: int = 0,
        watched: Sequence[str] = (),
        has_contention: bool = True,
        tcp: TcpShares = TCP,
        growth: Growth | None = None,
    ) -> None:
        conditions = conditions or Conditions()
        self.jobs, self.links = tuple(jobs), tuple(capacities)
        self.has_contention = has_contention
        self._index = {name: index for index, name in enumerate(self.links)}
        self.capacities = np.array(list(capacities.values()), dtype=np.float64)
        self._state = _make_state(self.jobs, len(capacities), traced=bool(watched))
        self._state.links["capacity"] = self.capacities if has_contention else math.inf
        self._state.links["watched"] = [name in set(watched) for name in capacities]
        stated = any(job.pattern.jitter for job in self.jobs)
        if stated or conditions.random or sharing == "tcp":
            self._set_disturbances(conditions, seed)
        clock = self._state.clock
        clock["tcp"], clock["spread"], clock["newcomer"] = sharing == "tcp", *tcp
        clock["slope"], clock["intercept"] = growth or Growth(0.0, 1.0)
        self._set_shares(sharing)
        self._groups = 0
        self._traces: list[tuple[NDArray[Any], ...]] = []  # time, link, job, rate
        self._carried = np.zeros(len(capacities))  # by jobs before they were moved
        self._reserve = 2 * len(self._state.uses) if watched else 0  # no event writes more

    def start_job(
        self,
        job: int,
        links: Mapping[str, int],
        *,
        at: float | None = None,
        pattern: Iteration | None = None,
        windows: WindowSchedule | None = None,
    ) -> None:
        """Start a job's first iteration.

        A flow is never faster than its share of a link that the job has to itself.

        Parameters
        ----------
        job
            Index of the job in `jobs`.
        links
            Number of flows on each link that the job crosses.
        at
            Time in ms; None for now.
        pattern
            Iteration instead of the stated one, with as many bursts.
        windows
            None for a job that never waits.
        """
        self._route(job, links, pattern)
        start = self.now if at is None else at
        loop.start_job(self._state, job, start)
        self.set_windows(job, windows, start)
        self._state.jobs[job]["retry"] = 0.0  # it begins in its window

    def move(
        self, job: int, links: Mapping[str, int], *, at: float, pattern: Iteration | None = None
    ) -> None:
        """Interrupt a job, and start it on other links, without windows.

        The job repeats the iteration that was interrupted, with equal random numbers.

        Parameters
        ----------
        job, links, pattern
            As of `start_job`.
        at
            Time of the new start, in ms.
        """
        self._flush_trace()
        loop.interrupt(self._state, job, at)
        self._leave_links(job)
        self._route(job, links, pattern)
        self.set_windows(job, None)

    def reroute(self, job: int, links: Mapping[str, int], pattern: Iteration) -> None:
        """Move the flows of a job to other links, whatever it does now.

        Parameters
        ----------
        job, links
            As of `start_job`.
        pattern
            Iteration on the new links, with as many bursts.
        """
        self._flush_trace()
        left = loop.leave_links(self._state, job)
        self._leave_links(job)
        self._route(job, links, pattern)
        if left >= 0:
            loop.resume(self._state, job, left)

    def _leave_links(self, job: int) -> None:
        """Record what a job that sends nothing has sent on its links."""
        self._flush_trace()  # as long as it is known which links its uses were
        row = self._state.jobs[job]
        for use in self._state.uses[row["first_use"] : row["first_use"] + row["uses"]]:
            self._carried[use["link"]] += use["flows"] * row["sent"]
        row["sent"] = 0.0

    def is_gated(self, job: int) -> bool:
        """Return whether a job has windows."""
        return bool(self._state.jobs[job]["period"])

    def set_windows(self, job: int, windows: WindowSchedule | None, start: float = 0.0) -> None:
        """Set the windows of a job's next iteration and of the iterations after it.

        Parameters
        ----------
        job
            Index of the job in `jobs`.
        windows
            None for none.
        start
            Planned beginning of the next iteration, in ms.
        """
        row = self._state.jobs[job]
        is_held = row["stage"] == state.HELD
        if windows is None:
            row["period"] = 0.0
            if is_held:
                loop.wait_for(self._state, job, self.now)
            return
        row["period"] = windows.period_ms
        waits = row["stage"] == state.WAITING
        # The end of an iteration will move the plan on by a period.
        row["due"] = row["planned"] = start if waits else start - windows.period_ms
        row["tolerance"] = windows.tolerance_ms
        row["paced"] = bool(windows.bursts_ms)
        for segment, due in enumerate(windows.bursts_ms, start=int(row["first_segment"])):
            self._state.segments[segment]["due"] = due
        row["group"] = windows.group
        row["seen"] = self._state.shifts[windows.group]
        row["retry"] = -1.0
        if waits:
            loop.wait_for(self._state, job, max(self.now, start))
        if is_held:
            self._hold_burst(job)

    def _hold_burst(self, job: int) -> None:
        """Move a burst that waits to the first of new windows that it is not late for."""
        row = self._state.jobs[job]
        segment = self._state.segments[row["first_segment"] + row["segment"]]
        begin = float(row["due"] + segment["due"])
        missed = math.ceil((self.now - row["tolerance"] - begin) / row["period"])
        passed = max(0, missed) * float(row["period"])
        row["due"] += passed
        row["planned"] += passed
        row["retry"] = 0.0
        loop.wait_for(self._state, job, max(self.now, begin + passed))

    def classify(self, job: int, traffic_class: int) -> None:
        """Set the traffic class of a job from its next burst on."""
        row = self._state.jobs[job]
        row["next_rank"] = traffic_class * self._orders + row["next_rank"] % self._orders

    def end(self, job: int) -> None:
        """Let a job leave at the end of its current or next iteration."""
        row = self._state.jobs[job]
        row["total"] = row["done"] + 1

    def new_group(self) -> int:
        """Return the group that was returned longest ago; it has few members, if any."""
        self._groups = (self._groups + 1) % len(self._state.shifts)
        return self._groups

    def planned_start(self, job: int) -> float:
        """Return when a job begins its next iteration as planned, in ms; now before it starts."""
        row = self._state.jobs[job]
        ready = self.earliest_start(job)
        if row["stage"] in (state.AWAY, state.WAITING) or not row["period"]:
            return ready
        return max(ready, float(row["planned"] + row["period"]))

    def earliest_start(self, job: int) -> float:
        """Return when a job could begin its next iteration without windows, in ms.

        Of a job that waits already, this is its planned start.
        """
        row = self._state.jobs[job]
        if row["stage"] == state.AWAY:
            return self.now
        if row["stage"] == state.WAITING:
            return float(row["key"])
        first, count = int(row["first_segment"]), int(row["segments"])
        rest = self._state.segments[first + int(row["segment"]) : first + count]
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
        """Count a stop of a job that waits for a new window."""
        self._state.jobs[job]["rephasings"] += 1

    @property
    def now(self) -> float:
        """The time, in ms."""
        return float(self._state.clock["now"][0])

    @property
    def events(self) -> int:
        """The number of events so far."""
        return int(self._state.clock["events"][0])

    def run(self, until: float) -> int | None:
        """Run until a job has ended all its iterations, and return it; None if `until` comes first.

        That is in ms, and may be infinite if some job has an end.
        """
        while True:
            why = loop.run(self._state, until, _CHUNK, self._reserve)
            if why == loop.FINISHED:
                return int(self._state.clock["finished"][0])
            if why == loop.REACHED:
                return None
            if why == loop.FULL:
                self._flush_trace()

    def done(self, job: int) -> int:
        """Return the number of iterations that a job has ended."""
        return int(self._state.jobs[job]["done"])

    def times(self, job: int) -> Floats:
        """Return the iteration times of a job in ms, the first ones if there are very many."""
        count = min(int(self._state.jobs[job]["timed"]), self._state.times.shape[1])
        return self._state.times[job, :count].copy()

    def iteration_totals(self) -> tuple[Floats, Floats]:
        """Return the time of all ended iterations, in ms, and their number, of shape (jobs,)."""
        jobs = self._state.jobs
        return jobs["spent"].copy(), jobs["timed"].astype(np.float64)

    def mean_times(self, warm_ms: float, until_ms: float, max_events: int = 0) -> Floats:
        """Run on, and return mean iteration times after a warm-up, NaN for none, shape (jobs,).

        It ends when all jobs have left, if they do. While a job has ended no iteration it goes on,
        for about a number of events.
        """
        self.run(warm_ms)
        spent, ended = self.iteration_totals()
        while True:
            for _ in self.jobs:
                if self.run(until_ms) is None:
                    break
            spent_then, ended_then = self.iteration_totals()
            counts = ended_then - ended
            until_ms *= 2
            if counts.all() or 2 * self.events > max_events:
                break
        return np.where(counts > 0, (spent_then - spent) / np.maximum(counts, 1), math.nan)

    def iteration_range(self, job: int) -> tuple[float, float, float]:
        """Return mean, minimum and maximum of a job's iteration times in ms; NaN if there is none.

        All its iterations count.
        """
        row = self._state.jobs[job]
        if not row["timed"]:
            return math.nan, math.nan, math.nan
        return float(row["spent"] / row["timed"]), float(row["shortest"]), float(row["longest"])

    def rephasings(self, job: int) -> int:
        """Return the number of times that a job was re-phased."""
        return int(self._state.jobs[job]["rephasings"])

    def carried(self) -> Floats:
        """Return the volume that each link has carried, in Mbit/s * ms."""
        sent = np.zeros(len(self._state.jobs))
        loop.add_sent(self._state, sent)
        uses = self._state.uses
        volumes = uses["flows"] * sent[uses["job"]]
        total = self._carried.copy()
        np.add.at(total, uses["link"], volumes)
        return total

    def trace(self) -> pd.DataFrame:
        """Return the rates on the watched links: time_ms, link, job, rate_mbps."""
        import pandas as pd

        self._flush_trace()
        time, link, job, rate = map(np.concatenate, zip(*self._traces, strict=True))
        links = np.array(self.links, dtype=object)[link]
        jobs = np.array([job.name for job in self.jobs], dtype=object)[job]
        columns = {"time_ms": time, "link": links, "job": jobs, "rate_mbps": rate}
        return pd.DataFrame(columns)

    def _flush_trace(self) -> None:
        """Move the records of the trace to `_traces`."""
        count = int(self._state.clock["traced"][0])
        records = self._state.trace[:count]
        uses = self._state.uses[records["use"]]
        rates = records["rate"] * uses["flows"]
        self._traces.append((records["time"].copy(), uses["link"], uses["job"], rates))
        self._state.clock["traced"] = 0

    def _route(self, job: int, links: Mapping[str, int], pattern: Iteration | None) -> None:
        """Set the links and the iteration of a job that sends nothing."""
        row = self._state.jobs[job]
        self._set_segments(job, pattern or self.jobs[job].pattern, links)
        first = int(row["first_use"])
        self._state.uses[first : first + int(row["uses"])] = (0, job, 0, -1, -1)
        row["uses"] = len(links)
        for use, (link, flows) in enumerate(links.items(), start=first):
            self._state.uses[use] = (self._index[link], job, flows, -1, -1)

    def _set_segments(self, job: int, pattern: Iteration, links: Mapping[str, int]) -> None:
        first = int(self._state.jobs[job]["first_segment"])
        capacities = self._state.links["capacity"]
        shares = (capacities[self._index[link]] / flows for link, flows in links.items())
        limit = min(shares, default=math.inf)
        pauses, volumes, rates = pattern.segments
        sent = list(accumulate(volumes, initial=0.0))
        for segment, pause in enumerate(pauses):
            row = self._state.segments[first + segment]
            row["compute"] = pause
            row["before"] = sent[segment]
            if segment < len(volumes):
                row["volume"] = volumes[segment]
                row["rate"] = min(rates[segment], limit)

    def _set_disturbances(self, conditions: Conditions, seed: int) -> None:
        """Seed every job separately, so that its random numbers do not depend on other jobs."""
        rows = self._state.jobs
        for index, job in enumerate(self.jobs):
            own = job.pattern.jitter
            rows[index]["jitter"] = conditions.jitter if own is None else own
            rows[index]["chance"], deviation = _draw_disturbances(seed, index)
            rows[index]["speed"] = 1.0 + 1e-6 * conditions.drift_ppm * deviation

    def _set_shares(self, sharing: Sharing) -> None:
        rows = self._state.jobs
        weights = [job.weight for job in self.jobs]
        within = {"strict": weights, "weighted": [int(weight > 0) for weight in weights]}
        ordered = within.get(sharing, [0] * len(weights))
        orders = {weight: order for order, weight in enumerate(sorted(set(ordered)))}
        self._orders = max(1, len(orders))  # within a traffic class
        rows["next_rank"] = [orders[weight] for weight in ordered]
        for index, job in enumerate(self.jobs):
            self.classify(index, job.traffic_class)
        rows["base"] = [float(w or 1) if sharing == "weighted" else 1.0 for w in weights]


@lru_cache(maxsize=1 << 12)
def _draw_disturbances(seed: int, job: int) -> tuple[np.uint64, float]:
    """Return the seed of the random numbers of a job, and how wrong its clock is, -1 to 1."""
    (own,) = np.random.SeedSequence([seed, job]).generate_state(1, np.uint64)
    return own, np.random.default_rng([seed, job]).uniform(-1.0, 1.0)


def _make_state(jobs: Sequence[EngineJob], links: int, *, traced: bool) -> state.EngineState:
    uses = sum(job.max_links for job in jobs)
    made = state.empty_state(
        jobs=len(jobs),
        links=links,
        uses=uses,
        segments=sum(len(job.pattern.pauses) for job in jobs),
        kept=max(1, min(_KEPT, _ALL_KEPT // max(1, len(jobs)))),
        trace=_TRACE + 4 * uses if traced else 1,
    )
    segment, use = 0, 0
    for row, job in zip(made.jobs, jobs, strict=True):
        row["first_segment"], row["segments"] = segment, len(job.pattern.pauses)
        row["first_use"] = use
        row["total"] = -1 if job.iterations is None else job.iterations
        segment += len(job.pattern.pauses)
        use += job.max_links
    return made
