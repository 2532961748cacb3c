"""The claims of a cluster's state as the monitor takes them, and its decisions carried out there.

Offsets count from the Unix epoch: all clocks of a cluster agree on it, within their error.
"""

from __future__ import annotations

from collections.abc import Mapping

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Kind
from metronome_opt.control.monitor import Decision
from metronome_opt.instance import Instance
from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.views import instance_of
from metronome_opt.verify import evaluate


def claims_of(state: ClusterState) -> Claims | None:
    """Return the claims in force of all jobs that use links; None if there are none."""
    jobs = [job for job in state.claims if state.flows(job)]
    if not jobs:
        return None
    instance = instance_of(state, jobs)
    stretch = {job: state.claims[job].stretch for job in jobs}
    return Claims(
        instance,
        stretch=stretch,
        cushions=_cushions(instance, stretch),
        hyperperiod=state.cluster.hyperperiod,
    )


def _cushions(instance: Instance, stretch: Mapping[str, int]) -> dict[str, int]:
    """Return by how many slots each job may be off, early or late, while others are as well.

    Between any two bursts there is the cushion of their link; each of the two may use half of it.
    Where something is late already, there is none.
    """
    offsets = {job.name: job.current_offset or 0 for job in instance.jobs}
    limits = {
        link.name: 0 if link.late else link.cushion
        for link in evaluate(instance, offsets, stretch).links
    }
    cushions = {}
    for job in instance.jobs:
        known = [limit for link in job.links if (limit := limits[link]) is not None]
        cushions[job.name] = min(known, default=job.period) // 2
    return cushions


def carry_out(state: ClusterState, decision: Decision) -> bool:
    """Keep in a state what was decided: jobs that are gone, capacities, claims put right, moves.

    In an exclusive cluster bandwidth is given to a job when it is placed. One that sends faster
    than that keeps the claim that it has.

    Returns
    -------
    bool
        Whether anything is new.
    """
    after, changed = decision.claims, False
    if decision.contention is None and after is not None:
        return changed  # nothing is believed yet
    for finding in decision.findings:
        if finding.kind is Kind.GONE:
            changed |= state.unreserve(finding.name)
    if after is None:
        return changed
    right = {link.name: link.capacity for link in after.instance.links}
    for finding in decision.findings:
        if finding.kind is Kind.CAPACITY and finding.measured is not None:
            measured = round(finding.measured)
            # A finding that is not believed yet left the link as it was; one that carries nothing
            # has 1 Mbit/s in an instance, which is not to become its capacity.
            if right.get(finding.name) == max(1, measured):
                changed |= state.set_capacity(finding.name, measured)
    claims = [_claim(state.claims[name], after) for name in after.offsets]
    changed |= state.revise(claim for claim in claims if _is_granted(state, claim))
    return changed


def _is_granted(state: ClusterState, claim: Claim) -> bool:
    return state.mode == "shared" or claim.gang.peak <= state.claims[claim.job].gang.peak


def _claim(before: Claim, after: Claims) -> Claim:
    """Return the claim of a job as it is to be."""
    job = after.instance.job(before.job)
    stretch = after.stretch.get(job.name, 0)
    changes = {
        "period": job.period,
        "phases": job.phases,
        "max_stretch": max(before.gang.max_stretch, stretch),
    }
    gang = Gang.model_validate(before.gang.model_copy(update=changes).model_dump())
    return Claim(gang=gang, nodes=before.nodes, offset=after.offsets[job.name], stretch=stretch)
