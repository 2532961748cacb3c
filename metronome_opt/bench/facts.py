"""The circumstances of a campaign, as its records state them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from metronome_opt.bench.records import Record
from metronome_opt.bench.references import References
from metronome_opt.errors import InputError, show


@dataclass(frozen=True)
class Facts:
    """What was run, where, when and with what; every list is sorted or in the order of the records.

    Attributes
    ----------
    machines, cores
        Of the machines in words; their numbers of cores as far as they are known.
    at_once
        The largest number of cases that certainly ran at the same time on one machine.
    seeds
        The numbers of different seeds of each solver.
    open_instances, zero_instances
        Instances whose best value is not proved; instances whose best value is 0.
    """

    records: int
    instances: int
    open_instances: int
    zero_instances: int
    suites: tuple[str, ...]
    splits: tuple[str, ...]
    solvers: tuple[str, ...]
    seeds: dict[str, tuple[int, ...]]
    time_limits: tuple[float, ...]
    memory_limits: tuple[int | None, ...]
    workers: tuple[int, ...]
    machines: tuple[str, ...]
    cores: tuple[int, ...]
    at_once: int
    versions: dict[str, tuple[str, ...]]
    commits: tuple[str, ...]
    first: str
    last: str


def facts_of(records: Sequence[Record], references: References) -> Facts:
    """Gather the circumstances of a campaign."""
    instances = {record.instance_sha256 for record in records}
    values, bounds = references.values, references.bounds
    zero = {checksum for checksum in instances if values.get(checksum) == 0}
    proved = {
        checksum
        for checksum in instances
        if checksum in values and values[checksum] == bounds.get(checksum)
    }
    packages = sorted({package for record in records for package in record.versions})
    cores = {record.machine.get("cores") for record in records}
    return Facts(
        records=len(records),
        instances=len(instances),
        open_instances=len(instances - zero - proved),
        zero_instances=len(zero),
        suites=_distinct(record.suite for record in records),
        splits=_distinct(record.split for record in records),
        solvers=_distinct(record.solver for record in records),
        seeds={
            solver: tuple(sorted({record.seed for record in records if record.solver == solver}))
            for solver in _distinct(record.solver for record in records)
        },
        time_limits=tuple(sorted({record.time_limit_s for record in records})),
        memory_limits=tuple(
            sorted(
                {record.memory_limit_mb for record in records},
                key=lambda limit: (limit is None, limit or 0),
            )
        ),
        workers=tuple(sorted({record.workers for record in records})),
        machines=_distinct(_machine(record) for record in records),
        cores=tuple(sorted(number for number in cores if isinstance(number, int))),
        at_once=max(
            _at_once([record for record in records if _machine(record) == machine])
            for machine in {_machine(record) for record in records}
        ),
        versions={
            package: _distinct(
                record.versions[package] for record in records if package in record.versions
            )
            for package in packages
        },
        commits=_distinct(record.commit or "unknown" for record in records),
        first=min(record.started for record in records),
        last=max(record.started for record in records),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _machine(record: Record) -> str:
    machine = record.machine
    memory = machine.get("memory_mb")
    parts = (
        machine.get("processor"),
        None if machine.get("cores") is None else f"{machine['cores']} cores",
        f"{memory:,} MB" if isinstance(memory, int) else None,
        machine.get("system"),
    )
    return ", ".join(str(part) for part in parts if part is not None) or "unknown machine"


def _started(record: Record) -> datetime:
    try:
        moment = datetime.fromisoformat(record.started)
    except ValueError:
        raise InputError(
            f"{record.instance}: started: must be a time such as 2026-01-31T12:00:00Z, "
            f"got {show(record.started)}"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _at_once(records: Sequence[Record]) -> int:
    """Return how many cases overlapped, not counting what the rounding of `started` leaves open."""
    second = timedelta(seconds=1)
    changes = []
    for record in records:
        begin = _started(record)
        end = begin + timedelta(seconds=record.wall_s)
        if begin + second < end:
            changes += [(begin + second, 1), (end, -1)]
    running, most = 0, 1
    # An end sorts before a beginning at the same moment.
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most
