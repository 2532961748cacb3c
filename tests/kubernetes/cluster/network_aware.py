"""Definitions of AppGroup and NetworkTopology with the fields and limits that upstream gives them.

Those of the scheduler plugins come with what runs them; a server that is asked whether it takes our
objects needs no more than these. They are written apart from the schemas in
`metronome_opt.kubernetes.diktyo`, so that each is a test of the other.
"""

from __future__ import annotations

from typing import Any

from metronome_opt.kubernetes.check import Manifest

QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": True,
}
TEXT = {"type": "string"}
SORTINGS = ["KahnSort", "TarjanSort", "ReverseKahn", "ReverseTarjan"]
SORTINGS += ["AlternateKahn", "AlternateTarjan"]


def members(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


WORKLOAD = members(
    ["kind", "name", "selector"],
    kind=TEXT,
    name=TEXT,
    selector=TEXT,
    apiVersion=TEXT,
    namespace=TEXT,
)
DEPENDENCY = members(
    ["workload"],
    workload=WORKLOAD,
    minBandwidth=QUANTITY,
    maxNetworkCost={"type": "integer", "format": "int64", "minimum": 0, "maximum": 10_000},
)
APP_GROUP = members(
    ["numMembers", "topologySortingAlgorithm", "workloads"],
    numMembers={"type": "integer", "format": "int32", "minimum": 1},
    topologySortingAlgorithm={"type": "string", "enum": SORTINGS},
    workloads=listed(
        members(["workload"], workload=WORKLOAD, dependencies=listed(DEPENDENCY)),
    ),
)
COST = members(
    ["destination", "networkCost"],
    destination=TEXT,
    networkCost={"type": "integer", "format": "int64", "minimum": 0},
    bandwidthCapacity=QUANTITY,
    bandwidthAllocated=QUANTITY,
)
LEVEL = members(
    ["topologyKey", "originList"],
    topologyKey=TEXT,
    originList=listed(members(["origin"], origin=TEXT, costList=listed(COST))),
)
TOPOLOGY = members(
    ["configmapName", "weights"],
    configmapName=TEXT,
    weights=listed(members(["name", "topologyList"], name=TEXT, topologyList=listed(LEVEL))),
)


def definition(group: str, kind: str, plural: str, spec: dict[str, Any]) -> Manifest:
    schema = members(
        [], apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, spec=spec, status=members([])
    )
    del schema["required"]
    del schema["properties"]["status"]["required"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The server asks for it where a group belongs to Kubernetes.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


DEFINITIONS = (
    definition("appgroup.diktyo.x-k8s.io", "AppGroup", "appgroups", APP_GROUP),
    definition("networktopology.diktyo.x-k8s.io", "NetworkTopology", "networktopologies", TOPOLOGY),
)
