"""Numbers of stored families of instances, workloads and the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.stored import SUITES
from metronome_opt import load
from metronome_opt.bench.cases import SHIFT_S
from metronome_opt.bench.process import Limits
from metronome_opt.bench.statistics import CONFIDENCE, PENALTY, RESAMPLES
from metronome_opt.bench.suites import read_suite
from metronome_opt.scenario.build import JobTraffic
from metronome_opt.scenario.workload import Workload, data_folder
from paper.shown import Numbers, camel, whole
from paper.solvers import FAMILIES

_SOURCES = {
    "pytorch/vision": "torchvision",
    "huggingface": "transformers",
    "google-research/electra": "ELECTRA",
    "facebookresearch/dlrm": "DLRM",
}
_COUNTED = "counted"


@dataclass(frozen=True)
class Stored:
    """A family as it is stored.

    Attributes
    ----------
    test, tune
        Numbers of instances.
    jobs, links, slots
        The fewest and the most of an instance; the longest hyperperiod of each counts.
    """

    family: str
    test: int
    tune: int
    jobs: tuple[int, int]
    links: tuple[int, int]
    slots: tuple[int, int]


@cache
def stored_families() -> tuple[Stored, ...]:
    """Return the stored families, in the order in which the paper shows them."""
    return tuple(map(_stored, FAMILIES))


def _stored(family: str) -> Stored:
    suite = read_suite(SUITES / family)
    instances = [member.instance for member in suite.members()]
    return Stored(
        family,
        len(suite.entries("test")),
        len(suite.entries("tune")),
        _ends([len(each.jobs) for each in instances]),
        _ends([len(each.links) for each in instances]),
        _ends([max(each.hyperperiods.values()) for each in instances]),
    )


@dataclass(frozen=True)
class Traffic:
    """A workload and what it is in the shipped scenario of all of them.

    Attributes
    ----------
    parameters, forward_flops
        Trained numbers; operations of one forward pass of one sample.
    workers, batch, period_ms, bursts
        In the scenario.
    sources
        Where the first two come from, in a word each.
    """

    model: str
    parameters: int
    forward_flops: int
    workers: int
    batch: int
    period_ms: int
    bursts: int
    sources: tuple[str, ...]


@cache
def workloads() -> tuple[Traffic, ...]:
    """Return the shipped workloads by name, with their traffic in the scenario ``paper-24``."""
    traffic = load(data_folder() / "scenarios" / "paper-24.yaml").traffic
    found = [
        _traffic(entry, entry.job.batch, entry.source)
        for entry in traffic
        if entry.job.batch is not None and isinstance(entry.source, Workload)
    ]
    return tuple(sorted(found, key=lambda each: each.parameters))


def _traffic(entry: JobTraffic, batch: int, workload: Workload) -> Traffic:
    numbers = workload.parameters, workload.forward_flops
    return Traffic(
        model=workload.name,
        parameters=workload.parameters.value,
        forward_flops=workload.forward_flops.value,
        workers=entry.job.workers,
        batch=batch,
        period_ms=entry.rounded.period * entry.rounded.slot_ms,
        bursts=len(entry.rounded.phases),
        sources=tuple(dict.fromkeys(_word(number.source) for number in numbers)),
    )


def _word(source: str | None) -> str:
    if source is None:
        return _COUNTED
    return next(word for part, word in _SOURCES.items() if part in source)


def _ends(values: Sequence[int]) -> tuple[int, int]:
    return min(values), max(values)


def instance_numbers() -> Numbers:
    """Return the numbers of what is stored and of the protocol."""
    families, models = stored_families(), workloads()
    limits = Limits(time_s=100.0)
    shortest, longest = _ends([each.period_ms for each in models])
    found: Numbers = {
        "familiesCount": whole(len(families)),
        "familiesTest": whole(sum(each.test for each in families)),
        "familiesTune": whole(sum(each.tune for each in families)),
        "familiesAll": whole(sum(each.test + each.tune for each in families)),
        "workloadsCount": whole(len(models)),
        "workloadsPeriodLow": whole(shortest),
        "workloadsPeriodHigh": whole(longest),
        "protocolShift": f"{SHIFT_S:g}",
        "protocolPenalty": f"{PENALTY:g}",
        "protocolGrace": f"{limits.grace_s:g}",
        "protocolGraceShare": whole(limits.killed_after_s - limits.grace_s - limits.time_s),
        "protocolResamples": whole(RESAMPLES),
        "protocolConfidence": f"{100 * CONFIDENCE:g}",
    }
    for each in families:
        name = camel(each.family)
        found |= {f"test{name}": whole(each.test), f"tune{name}": whole(each.tune)}
    return found
