"""What a cluster holds of each job, as a table for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.cluster.desired import Desired, JobKey, job_of
from metronome_opt.kubernetes.cluster.kinds import claims_of, kind_of
from metronome_opt.kubernetes.cluster.plan import plan_apply


class Step(StrEnum):
    """Whether a job is in the cluster as it is in an export."""

    SAME = "yes"
    DIFFERENT = "differs"
    MISSING = "not in the cluster"
    FOREIGN = "not in the export"


@dataclass(frozen=True)
class JobStatus:
    """What the claims of one job say.

    Attributes
    ----------
    job
        Which job.
    tasks
        How many claims there are.
    nodes
        Where its tasks run.
    offsets_us, periods_us
        The different offsets and stretched periods of its claims, microseconds; one each, unless
        somebody changed single claims.
    conditions
        For each condition that the cluster observes, on how many claims it is true.
    observed_offsets_us, observed_periods_us
        What the cluster measured, microseconds; empty where nothing was.
    as_exported
        How it compares with an export; None if there was none to compare with.
    """

    job: JobKey
    tasks: int
    nodes: tuple[str, ...]
    offsets_us: tuple[int, ...]
    periods_us: tuple[int, ...]
    conditions: Mapping[str, int]
    observed_offsets_us: tuple[int, ...]
    observed_periods_us: tuple[int, ...]
    as_exported: Step | None

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain values."""
        return {
            "namespace": self.job.namespace,
            "job": self.job.name,
            "tasks": self.tasks,
            "nodes": list(self.nodes),
            "offsets_us": list(self.offsets_us),
            "periods_us": list(self.periods_us),
            "conditions": dict(self.conditions),
            "observed_offsets_us": list(self.observed_offsets_us),
            "observed_periods_us": list(self.observed_periods_us),
            "as_exported": None if self.as_exported is None else self.as_exported.value,
        }


def job_statuses(
    live: Iterable[Manifest], group: str, desired: Desired | None = None
) -> list[JobStatus]:
    """Return the status of each job that the cluster or the export has, in the order of names.

    Parameters
    ----------
    live
        What the cluster holds.
    group
        API group of the claims.
    desired
        An export to compare with.
    """
    objects = list(live)
    claims: dict[JobKey, list[Manifest]] = {}
    for item in objects:
        job = job_of(item, group)
        # A claim without an allocation is a template: a pattern of traffic, nobody's reservation.
        is_claim = kind_of(item, group) == claims_of(group) and "allocation" in item["spec"]
        if job is not None and is_claim:
            claims.setdefault(job, []).append(item)
    steps = {} if desired is None else _steps(objects, desired, set(claims))
    return [_status(job, claims.get(job, []), steps.get(job)) for job in sorted({*claims, *steps})]


def _steps(objects: list[Manifest], desired: Desired, present: set[JobKey]) -> dict[JobKey, Step]:
    # Only claims are compared: not every cluster knows AppGroups.
    kind = claims_of(desired.group)
    plan = plan_apply(desired, objects)
    differing = {
        part.job for part in plan.parts if any(action.kind == kind for action in part.actions)
    }
    steps = dict.fromkeys(present, Step.FOREIGN)
    for job in desired.jobs:
        same = job not in differing
        steps[job] = Step.SAME if same else Step.DIFFERENT if job in present else Step.MISSING
    return steps


def _status(job: JobKey, claims: list[Manifest], as_exported: Step | None) -> JobStatus:
    allocations = [claim["spec"]["allocation"] for claim in claims]
    observed = [claim.get("status") or {} for claim in claims]
    conditions = Counter(
        {one["type"]: 0 for status in observed for one in status.get("conditions") or ()}
    )
    for status in observed:
        conditions.update(
            one["type"] for one in status.get("conditions") or () if one["status"] == "True"
        )
    return JobStatus(
        job=job,
        tasks=len(claims),
        nodes=tuple(sorted({one["node"] for one in allocations})),
        offsets_us=_different(one["offsetMicroseconds"] for one in allocations),
        periods_us=_different(
            claim["spec"]["traffic"]["periodMicroseconds"]
            + claim["spec"]["allocation"]["stretchMicroseconds"]
            for claim in claims
        ),
        conditions=dict(sorted(conditions.items())),
        observed_offsets_us=_different(one.get("observedOffsetMicroseconds") for one in observed),
        observed_periods_us=_different(one.get("observedPeriodMicroseconds") for one in observed),
        as_exported=as_exported,
    )


def _different(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({value for value in values if value is not None}))
