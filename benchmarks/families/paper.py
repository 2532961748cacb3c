"""`paper`: the thirteen models on 24 nodes, as in the shipped scenario, placed anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from benchmarks.families.family import Case, Family, cases
from metronome_opt.files.documents import read_document
from metronome_opt.files.records import read_record
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario import Scenario, build_scenario, locate, read_scenario
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import UniformCluster
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.workload import Workload, find_files
from metronome_opt.simulation.generators.batches import Setting, batches_around, suitable_batches
from metronome_opt.simulation.generators.jobs import take_fragment

_EXAMPLE = locate("paper-24")
WORKERS = (2, 3, 4)
GPT3_WORKERS = (4, 8)  # one or two replicas of four
PRIORITIES = (1, 2, 4)
BATCHES = (0.5, 4)  # least and most, as a multiple of the batch in the shipped scenario
PERIODS = {"any": (), "harmonic": (15, 25, 75, 150, 300)}  # slots; empty: any divisor


def generate(
    name: str, seed: int, *, gpus: int, racks: int, oversubscription: int, periods: str
) -> Instance:
    """Return the 13 models of the shipped scenario on its cluster, placed in random fragments.

    The jobs come in random order. Each draws its workers, its priority and up to `racks` racks,
    and puts its tasks on random nodes with a free GPU there, one a node; it takes further racks as
    long as it does not fit. Its batch comes last, since the length of an iteration depends on the
    placement. If a job has no room or no batch that fits, everything is drawn anew.

    Parameters
    ----------
    name, seed
        The same seed gives the same instance.
    gpus
        Per node. One is too few: 13 jobs of two workers and more need 26.
    racks
        The most a job asks for.
    oversubscription
        Of the racks' uplinks.
    periods
        ``harmonic`` for batches that give periods that divide one another, mostly: the bursts of
        such jobs can be interleaved; ``any`` for any divisor of the hyperperiod.
    """
    draw = random.Random(seed)
    example = _example()
    written = read_document(_EXAMPLE)["cluster"]
    cluster = UniformCluster.model_validate(
        {**written, "gpus": gpus, "oversubscription": oversubscription}
    ).listed
    jobs = None
    while jobs is None:
        jobs = _jobs(draw, example, cluster, racks, PERIODS[periods])
    return _instance(name, example, cluster, jobs)


def shipped(name: str, seed: None) -> Instance:  # noqa: ARG001 (nothing is drawn)
    """Return the shipped scenario itself, under another name."""
    example = _example()
    return _instance(name, example, example.cluster, example.jobs)


def _example() -> Scenario:
    return read_scenario(_EXAMPLE)


def _instance(name: str, example: Scenario, cluster: Cluster, jobs: Iterable[JobSpec]) -> Instance:
    """Return an instance in which all workers send at once, and slowdowns are over periods."""
    scenario = Scenario(
        name=name,
        slot_ms=example.slot_ms,
        hyperperiod_ms=example.hyperperiod_ms,
        cluster=cluster,
        jobs=tuple(job.model_copy(update={"allreduce": "tasks"}) for job in jobs),
    )
    instance = build_scenario(scenario).instance
    return instance.replace(
        jobs=tuple(job.model_copy(update={"best_ms": None}) for job in instance.jobs)
    )


def _jobs(
    draw: random.Random,
    example: Scenario,
    cluster: Cluster,
    racks: int,
    periods: Sequence[int],
) -> list[JobSpec] | None:
    """Return the jobs of the example with all that is drawn; None if one does not fit."""
    free = Counter(cluster.gpus_of)
    placed = {}
    for job in draw.sample(example.jobs, len(example.jobs)):
        workers = draw.choice(GPT3_WORKERS if job.model == "GPT3" else WORKERS)
        nodes = take_fragment(draw, cluster, free, workers, draw.randint(1, racks))
        if nodes is None:
            return None
        work = JobSpec(
            name=job.name,
            model=job.model,
            batch=job.batch,
            workers=workers,
            priority=draw.choice(PRIORITIES),
            nodes=nodes,
        )
        batch = _batch(draw, example, cluster, work, periods)
        if batch is None:
            return None
        placed[job.name] = work.model_copy(update={"batch": batch})
    return [placed[job.name] for job in example.jobs]


def _batch(
    draw: random.Random,
    example: Scenario,
    cluster: Cluster,
    job: JobSpec,
    periods: Sequence[int],
) -> int | None:
    """Return a random one of the suitable batches; None if there is none."""
    usual = job.batch or 1
    batches = batches_around(usual, *BATCHES)
    gpu, transport = cluster.gpu, compute_placement(cluster, job.nodes or ()).transport
    assert gpu is not None
    assert gpu.flops is not None
    suitable = suitable_batches(
        _workload(job.model or ""),
        Setting(job.workers, gpu.flops, transport),
        batches,
        example.slot_ms,
        example.hyperperiod_slots,
        tuple(periods),
    )
    order = draw.sample(batches, len(batches))
    return next((batch for batch in order if batch in suitable), None)


@cache
def _workload(model: str) -> Workload:
    return read_record(Workload, find_files("workloads")[model.lower()])


_SETTINGS = [
    {"gpus": gpus, "racks": racks, "oversubscription": oversubscription, "periods": periods}
    for gpus, racks, oversubscription in ((2, 1, 2), (2, 2, 2), (4, 1, 1), (4, 2, 2), (4, 4, 2))
    for periods in PERIODS
]
_TEST = [("", setting) for setting in _SETTINGS for _ in range(2)]
_TUNE = [("", setting) for setting in _SETTINGS[:4:3] + _SETTINGS[4:6] + _SETTINGS[7:9]]

FAMILY = Family(
    name="paper",
    about="the 13 models of the shipped paper-24 on 24 nodes, in random fragments",
    version=1,
    time_limit_s=60,
    cases=(
        *cases("paper", generate, test=_TEST, tune=_TUNE),
        Case("paper-tune-shipped", "tune", shipped, {}, None),
    ),
)
