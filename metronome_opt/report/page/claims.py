"""The claims of a problem with their allocation left open, for a page to fill in.

Turning a job changes four numbers of its claims and nothing else, so the page holds each claim as
text once, however many schedules it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.kubernetes import build_manifests, check_manifests
from metronome_opt.kubernetes.dump import dump_objects
from metronome_opt.scenario import Problem
from metronome_opt.schedule import Schedule

_FILE = "claims.yaml"
_OPEN = ("Microseconds", "gated")  # how the fields of an allocation end that a schedule decides


@dataclass(frozen=True)
class OpenClaim:
    """A claim without what a schedule decides.

    Attributes
    ----------
    job, link
        Indices in the instance; the link is None where the task crosses none.
    text
        YAML that ends inside ``spec.allocation``.
    """

    job: int
    link: int | None
    text: str


def open_claims(
    problem: Problem, schedule: Schedule, *, group: str, namespace: str
) -> tuple[tuple[OpenClaim, ...], str | None]:
    """Return the claims of a problem, and why there are none.

    Parameters
    ----------
    schedule
        Any true schedule of the problem: which one makes no difference to what is returned.
    group, namespace
        Of the claims.
    """
    instance = problem.instance
    try:
        manifests = build_manifests(
            instance, schedule, problem.deployment, group=group, namespace=namespace
        )
        claims = manifests.get(_FILE, [])
        check_manifests(manifests)
    except InputError as error:
        return (), str(error)
    if not claims:
        return (), "no job has a task on a node"
    return tuple(_open(instance, claim) for claim in claims), None


def _open(instance: Instance, claim: Mapping[str, Any]) -> OpenClaim:
    spec = claim["spec"]
    kept = {key: value for key, value in spec["allocation"].items() if not key.endswith(_OPEN)}
    jobs = {job.name: index for index, job in enumerate(instance.jobs)}
    links = {link.name: index for index, link in enumerate(instance.links)}
    return OpenClaim(
        job=jobs[spec["job"]],
        link=links[kept["link"]] if "link" in kept else None,
        text=dump_objects([{**claim, "spec": {**spec, "allocation": kept}}]),
    )
