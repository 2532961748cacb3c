"""The two custom resources: what a node's links carry, and what a pod may put on them when.

No schema of them is published upstream; this one is provisional and belongs to version v1alpha1.
"""

from __future__ import annotations

from typing import Any

from metronome_opt.kubernetes.names import (
    MANAGER,
    SUBDOMAIN_LENGTH,
    SUBDOMAIN_PATTERN,
)
from metronome_opt.kubernetes.schema import (
    LARGEST_INTEGER,
    Schema,
    array,
    bandwidth,
    boolean,
    conditions,
    integer,
    record,
    resource,
    text,
)

VERSION = "v1alpha1"
CLAIM = "STBandwidthClaim"
CAPACITY = "STBandwidthCapacity"
CLAIMS = "stbandwidthclaims"
CAPACITIES = "stbandwidthcapacities"

_NAME_LENGTH = 253  # of a job or a link, as instances limit it
_PHASES = 1024
_LINKS = 1024


def custom_resource_definitions(group: str) -> list[dict[str, Any]]:
    """Return the definitions of STBandwidthCapacity and STBandwidthClaim in `group`."""
    return [
        _definition(
            group,
            kind=CAPACITY,
            plural=CAPACITIES,
            short="stbcap",
            scope="Cluster",
            columns=[
                _column("Interface", "string", ".spec.links[0].name", "The node's own link."),
                _column("Capacity", "string", ".spec.links[0].capacity", "What it carries, bit/s."),
                _column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
            ],
            schema=_capacity_schema(),
        ),
        _definition(
            group,
            kind=CLAIM,
            plural=CLAIMS,
            short="stbc",
            scope="Namespaced",
            columns=[
                _column("Job", "string", ".spec.job", "The training job."),
                _column("Node", "string", ".spec.allocation.node", "Where the pod runs."),
                _column("Link", "string", ".spec.allocation.link", "The link it bursts on."),
                _column(
                    "Period",
                    "integer",
                    ".spec.traffic.periodMicroseconds",
                    "Length of one iteration, microseconds.",
                ),
                _column(
                    "Offset",
                    "integer",
                    ".spec.allocation.offsetMicroseconds",
                    "Start of the pattern, microseconds.",
                ),
                _column(
                    "Cushion",
                    "integer",
                    ".spec.allocation.cushionMicroseconds",
                    "By how much bursts may grow, microseconds.",
                    priority=1,
                ),
                _column(
                    "Priority", "integer", ".spec.traffic.priority", "Larger is more important.", 1
                ),
                _column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
            ],
            schema=_claim_schema(),
        ),
    ]


def _definition(
    group: str,
    *,
    kind: str,
    plural: str,
    short: str,
    scope: str,
    columns: list[dict[str, Any]],
    schema: Schema,
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "labels": {"app.kubernetes.io/managed-by": MANAGER},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["metronome"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, description: str, priority: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "jsonPath": path,
        "description": description,
        **({"priority": priority} if priority else {}),
    }


# ------------------------------------------------------------------ capacity


def _capacity_schema() -> Schema:
    link = record(
        "One link.",
        {
            "name": _link_name("Name of the link, unique in the cluster."),
            "capacity": bandwidth("What the link carries in each direction, in bit/s."),
            "scope": text(
                "Node if only this node's traffic crosses the link (its interface), Shared if that "
                "of other nodes does too.",
                enum=["Node", "Shared"],
            ),
        },
        required=["name", "capacity", "scope"],
    )
    observed = record(
        "What was seen of one link.",
        {
            "name": _link_name("Name of the link."),
            "peakRate": bandwidth("The largest rate seen, in bit/s."),
        },
        required=["name"],
    )
    return resource(
        "STBandwidthCapacity says which links the traffic of one node crosses and what they carry. "
        "It is called like the node.",
        record(
            "The links of the node.",
            {
                "links": array(
                    "Every link that traffic of the node may cross, its own interface first.",
                    link,
                    maximum=_LINKS,
                    keys=["name"],
                )
            },
            required=["links"],
        ),
        record(
            "What the cluster observes.",
            {
                "observedGeneration": integer("The metadata.generation that was observed."),
                "links": array(
                    "What was seen of the links.", observed, maximum=_LINKS, keys=["name"]
                ),
                "conditions": conditions(),
            },
        ),
    )


# ------------------------------------------------------------------ claim


def _claim_schema() -> Schema:
    return resource(
        "STBandwidthClaim says what periodic traffic one pod needs and when it may burst. It is "
        "called like the pod.",
        record(
            "The pod's need and what was decided for it.",
            {
                "job": text(
                    "Name of the training job that the pod works for.",
                    minLength=1,
                    maxLength=_NAME_LENGTH,
                ),
                "task": integer(
                    "Index of the pod among the tasks of its job.", 0, 2**31 - 1, "int32"
                ),
                "traffic": _traffic_schema(),
                "allocation": _allocation_schema(),
            },
            required=["job", "task", "traffic"],
        ),
        record(
            "What the cluster observes.",
            {
                "observedGeneration": integer("The metadata.generation that was observed."),
                "observedPeriodMicroseconds": integer("Measured length of one iteration.", 1),
                "observedOffsetMicroseconds": integer("Measured start of the pattern."),
                "observedPeakRate": bandwidth("The largest rate seen, in bit/s."),
                "conditions": conditions(),
            },
        ),
    )


def _traffic_schema() -> Schema:
    phase = record(
        "One burst of an iteration.",
        {
            "startMicroseconds": integer("When it starts, counted from the iteration's start."),
            "lengthMicroseconds": integer("How long it lasts.", 1),
            "rate": bandwidth("Its rate, in bit/s."),
        },
        required=["startMicroseconds", "lengthMicroseconds", "rate"],
    )
    return record(
        "What the pod needs: a pattern of bursts that repeats itself.",
        {
            "periodMicroseconds": integer("Length of one iteration, nothing stretched.", 1),
            "phases": array(
                "The bursts of one iteration, in order; they do not overlap.",
                phase,
                minimum=1,
                maximum=_PHASES,
            ),
            "priority": integer("Weight of the job; larger is more important."),
        },
        required=["periodMicroseconds", "phases", "priority"],
    )


def _allocation_schema() -> Schema:
    return record(
        "What was decided: where the pod runs and how its pattern is shifted. Left out in a claim "
        "that is a pattern for workloads to name.",
        {
            "node": text(
                "The node, by the name of its STBandwidthCapacity.",
                maxLength=SUBDOMAIN_LENGTH,
                pattern=SUBDOMAIN_PATTERN,
            ),
            "link": _link_name(
                "The node's link that the pod bursts on; left out for a pod whose traffic stays "
                "inside its node."
            ),
            "offsetMicroseconds": integer(
                "When the pattern starts: the iteration counts from here, modulo the stretched "
                "period, on a clock that all pods of the cluster share."
            ),
            "stretchMicroseconds": integer("Idle time added at the end of each iteration."),
            "cushionMicroseconds": integer(
                "By how much every burst on the link may grow before the link is overloaded; left "
                "out where it is overloaded already or never can be."
            ),
            "reservedCushionMicroseconds": integer(
                "By how much every burst was taken to be longer than it is when the offsets were "
                "chosen; left out where no cushion was reserved."
            ),
            "hyperperiodMicroseconds": integer(
                "When the traffic on the link repeats itself: the least common multiple of the "
                "stretched periods on it.",
                1,
                LARGEST_INTEGER,
            ),
            "gated": boolean(
                "Whether bursts wait for their slots; left out where they do. Without slots a job "
                "runs freely."
            ),
        },
        required=["node", "offsetMicroseconds", "stretchMicroseconds", "hyperperiodMicroseconds"],
    )


def _link_name(description: str) -> Schema:
    return text(description, minLength=1, maxLength=_NAME_LENGTH)
