"""The controller and the simulator decide equally where jobs run, and which of them wait."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from benchmarks.clusters import make_cluster
from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.kubernetes.controller.reconcile import Controller
from metronome_opt.kubernetes.state.placement import LATE
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario import Scenario
from metronome_opt.simulation.policies.metronome import Metronome
from metronome_opt.simulation.state import RunningJob, SimState, TrainingJob, training_jobs
from tests.kubernetes.controller.fake import GPUS, FakeCluster
from tests.simulation.studies import traffic_of

# Bursts at the rates that links leave to tasks are whole numbers of slots.
SPEC = make_cluster([3, 3], gpus=8, interface=120_000, uplink=240_000, hyperperiod=25_200)
SLOT_MS = SPEC.slot_ms
EVENTS = 24
Places = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Story:
    """Jobs, and what happens at some times in s: arrivals of jobs, and departures."""

    scenario: Scenario
    events: list[tuple[int, str, str]]
    lengths_known: bool


def story(seed: int) -> Story:
    draw = random.Random(seed)
    jobs: list[dict[str, object]] = []
    events: list[tuple[int, str, str]] = []
    there: list[str] = []
    now = 0
    for index in range(EVENTS):
        now += draw.randint(30, 90)
        if there and draw.random() < 0.45:
            events.append((now, "leaves", there.pop(draw.randrange(len(there)))))
            continue
        name, period = f"j{index:02}", draw.choice((40, 60, 80))
        length = draw.choice((12, 24, 36))
        burst = {
            "start_ms": (period - length) * SLOT_MS,
            "length_ms": length * SLOT_MS,
            "rate_mbps": draw.choice((80_000, 120_000)),
        }
        jobs.append(
            {
                "name": name,
                "workers": draw.choice((2, 2, 3, 3, 4, 5)),
                "each": {"gpus": GPUS},
                "priority": draw.choice((1, 2, 8)),
                "arrival_s": now,
                "iterations": draw.choice((200, 500, 5000)),
                "traffic": {"period_ms": period * SLOT_MS, "phases": [burst]},
            }
        )
        there.append(name)
        events.append((now, "comes", name))
    cluster = {field: getattr(SPEC, field) for field in ("nodes", "racks", "links")}
    document = {
        "format": "metronome-scenario/1",
        "name": "story",
        "slot_ms": SLOT_MS,
        "cluster": {
            "topology": "listed",
            **{key: [item.model_dump() for item in value] for key, value in cluster.items()},
        },
        "jobs": jobs,
    }
    return Story(Scenario.from_dict(document), events, draw.random() < 0.7)


class Known(SimState):
    """A simulation that knows of jobs what a controller knows."""

    lengths_known: bool
    began: dict[int, float]

    def left_ms(self, index: int) -> float:
        placed = self.running[index]
        length = placed.job.iterations * placed.profile.isolated_ms
        ran = self.now - self.began[index]
        left = max(length - ran, LATE * ran)
        return left if self.lengths_known else None  # type: ignore[return-value]


def simulated(day: Story) -> Iterator[Places]:
    """Yield the placements after each event, as the policy of the simulator chooses them."""
    policy, jobs = Metronome(0), training_jobs(day.scenario)
    state = Known(CandidatePlacements(SPEC), engine=None)  # type: ignore[arg-type]
    state.lengths_known, state.began = day.lengths_known, {}
    by_name = {job.name: job for job in jobs}
    queue: list[TrainingJob] = []
    for now, event, name in day.events:
        state.now, job = 1000.0 * now, by_name[name]
        if event == "comes":
            if not day.lengths_known:
                job = by_name[name] = replace(job, length_ms=None)
            queue.append(job)
        elif job in queue:
            queue.remove(job)
        else:
            state.remove(job.index)
        queue.sort(key=lambda job: (-job.spec.priority, job.index))
        for started, placement in policy.choose_starts(tuple(queue), state):
            state.add(RunningJob(started, placement))
            state.began[started.index] = state.now
            queue.remove(started)
        yield {running.job.name: running.placement.nodes for running in state.running.values()}


def controlled(day: Story) -> Iterator[Places]:
    """Yield the same, as the controller chooses them."""
    state, cluster = ClusterState(SPEC), FakeCluster(len(SPEC.nodes))
    begin = cluster.now_s
    clock = lambda: float(cluster.now_s)  # noqa: E731
    controller = Controller(state, cluster, clock=clock, unix_clock=clock)
    jobs = {job.name: job for job in day.scenario.jobs}
    for now, event, name in day.events:
        cluster.now_s = begin + now
        if event == "comes":
            cluster.submit(name, jobs[name].workers, **stated(day, name))
        else:
            cluster.remove(name)
        controller.reconcile(cluster.pods(), cluster.nodes())
        yield {job.removeprefix("default/"): held.nodes for job, held in state.reservations.items()}


def stated(day: Story, name: str) -> dict[str, str]:
    job = next(job for job in day.scenario.jobs if job.name == name)
    bursts = traffic_of(job)
    phases = [
        {
            "startMicroseconds": int(1000 * phase.start_ms),
            "lengthMicroseconds": int(1000 * phase.length_ms),
            "rate": f"{phase.rate}M",
        }
        for phase in bursts.phases
    ]
    traffic = {"periodMicroseconds": int(1000 * bursts.period_ms), "phases": phases}
    known = {"traffic": json.dumps(traffic), "priority": str(job.priority)}
    return known | ({"iterations": str(job.iterations)} if day.lengths_known else {})


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 200), marks=pytest.mark.slow)])
def test_same_jobs_run_at_same_places(seeds: range) -> None:
    chosen = 0
    for seed in seeds:
        day = story(seed)
        for step, (mine, its) in enumerate(zip(simulated(day), controlled(day), strict=True)):
            assert its == mine, (seed, step)
            chosen += len(mine)
    assert chosen > 50 * len(seeds)
