"""The traffic of one job of a scenario: stated or computed, and rounded to slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Phase
from metronome_opt.scenario.machines import Gpu
from metronome_opt.scenario.model import Scenario, Work
from metronome_opt.scenario.rounding import Rounded, to_slots
from metronome_opt.scenario.topology import Network
from metronome_opt.scenario.traffic import Iteration, Setting, iteration
from metronome_opt.scenario.workload import Workload

# Models whose traffic is that of rings through all workers.
_RINGS = ("data-parallel", "tensor-parallel")


@dataclass(frozen=True)
class JobTraffic:
    """How the traffic of one job came about.

    Attributes
    ----------
    job, workers
        Who it is.
    model, parallelism
        What it trains; both ``stated`` where the scenario states its traffic.
    setting
        GPUs, batch, throughput and rate that went in; None where nothing was computed.
    exact
        The iteration before rounding.
    rounded
        The iteration in slots, with its errors.
    assumptions
        What was assumed on the way, a line each.
    traffic
        Where the numbers come from: ``computed``, never measured, or ``stated`` by the scenario.
    """

    job: str
    workers: int
    model: str
    parallelism: str
    setting: Setting | None
    exact: Iteration
    rounded: Rounded
    assumptions: tuple[str, ...]
    traffic: str = "computed"

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The bursts in slots and Mbit/s."""
        return self.rounded.phases

    @property
    def rate(self) -> int:
        """The fastest that one worker may send, in Mbit/s."""
        if self.setting is not None:
            return self.setting.rate
        return max(burst.rate for burst in self.exact.bursts)


def setting_of(job: Work, workload: Workload, gpu: Gpu | None, rate: int) -> Setting:
    """Return the conditions under which a job by model is trained.

    A ring visits the GPUs of a worker one after the other, so that a worker with several of them
    sends and receives what one of them would; other exchanges are not of that kind.

    Parameters
    ----------
    gpu
        What computes; None if that is not known.
    rate
        The fastest that one worker may send, in Mbit/s.

    Raises
    ------
    InputError
        If the job cannot be computed; the place is inside the job.
    """
    if gpu is None:
        raise InputError(
            f"model: {show(job.model)}: the cluster does not say how fast its GPUs are "
            "(cluster.gpu); add it, or state the traffic"
        )
    if job.each.gpus > 1 and workload.kind not in _RINGS:
        raise InputError(
            f"each.gpus: {job.each.gpus}: what {show(job.model)} sends can be computed for workers "
            "of one GPU only; state the traffic"
        )
    return Setting(job.gpus, job.batch or 1, gpu.flops, rate)


def traffic_of(
    scenario: Scenario,
    index: int,
    workload: Workload | None,
    network: Network,
    counts: Mapping[str, int],
) -> JobTraffic:
    """Take or compute the traffic of one job, and round it.

    Parameters
    ----------
    scenario, index
        Which job of which scenario.
    workload
        Of its model; None where it states its traffic.
    network
        The links.
    counts
        How many of its tasks cross each link.

    Raises
    ------
    InputError
        If it cannot be computed, or does not fit the hyperperiod.
    """
    job = scenario.jobs[index]
    try:
        if workload is None:
            entry = _stated(job, scenario)
        else:
            entry = _computed(job, workload, scenario, network, counts)
    except InputError as error:
        raise InputError(f"jobs[{index}].{error}") from None
    return entry


def _stated(job: Work, scenario: Scenario) -> JobTraffic:
    if job.traffic is None:
        raise InputError("traffic: missing; state it, or name a model")
    exact = job.traffic.iteration(job.traffic.fastest)
    place = f"traffic.period_ms: {float(job.traffic.period_ms):g}"
    rounded = _round(exact, scenario, place, "raise hyperperiod_ms")
    return JobTraffic(job.name, job.workers, "stated", "stated", None, exact, rounded, (), "stated")


def _computed(
    job: Work, workload: Workload, scenario: Scenario, network: Network, counts: Mapping[str, int]
) -> JobTraffic:
    gpu, nic = scenario.cluster.gpu, scenario.cluster.nic
    rate, link = min(
        ((network.capacities[link] // count, link) for link, count in counts.items()),
        default=(nic, None),
    )
    if not rate:
        raise InputError(f"workers: {job.workers}: {link} has less than 1 Mbit/s for each")
    setting = setting_of(job, workload, gpu, rate)
    exact = iteration(workload, setting)
    remedy = "raise hyperperiod_ms or lower the batch"
    rounded = _round(exact, scenario, f"batch: {job.batch}", remedy)
    assumptions = list(workload.assumptions)
    if gpu is not None and gpu.sustained_tflops.assumed:
        assumptions.append(
            f"sustained_tflops = {float(gpu.sustained_tflops.value):g}: "
            f"{gpu.sustained_tflops.assumed}"
        )
    if link is None:
        assumptions.append("all tasks share a node, so that no link carries anything")
    elif rate < nic:
        assumptions.append(f"each task sends at most {rate} Mbit/s, its share of {link}")
    name, kind = workload.name, workload.kind
    return JobTraffic(
        job.name, job.workers, name, kind, setting, exact, rounded, tuple(assumptions)
    )


def _round(exact: Iteration, scenario: Scenario, place: str, remedy: str) -> Rounded:
    """Round an iteration to slots and to a divisor of the hyperperiod."""
    try:
        return to_slots(exact, scenario.slot_ms, scenario.hyperperiod_slots)
    except ValueError:
        raise InputError(
            f"{place}: an iteration takes {float(exact.duration):.0f} ms, more than the "
            f"hyperperiod of {scenario.hyperperiod_ms} ms; {remedy}"
        ) from None
