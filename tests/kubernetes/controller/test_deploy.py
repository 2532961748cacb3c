"""The StatefulSet of docs/deploy fits the controller."""

from __future__ import annotations

import yaml

from metronome_opt.kubernetes.reading.kinds import DEVICE_KINDS, HYPER_NODE, KINDS, POD_GROUP
from tests.transcripts import ROOT


def test_the_controller_may_list_what_constrains_pods_and_counts_devices() -> None:
    text = (ROOT / "docs" / "deploy" / "controller.yaml").read_text(encoding="utf-8")
    (role,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "ClusterRole")
    allowed = {
        (group, plural)
        for rule in role["rules"]
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    read = {
        (kind.group, kind.plural)
        for kind in KINDS.values()
        if kind.kind in (POD_GROUP, HYPER_NODE, *DEVICE_KINDS)
    }
    assert read <= allowed


def test_the_pod_runs_in_restricted_namespaces_from_an_image_on_the_node() -> None:
    text = (ROOT / "docs" / "deploy" / "controller.yaml").read_text(encoding="utf-8")
    items = {item["kind"]: item for item in yaml.safe_load_all(text)}
    spec = items["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    own, of_pod = container["securityContext"], spec["securityContext"]
    # What the Pod Security Standard "restricted" asks of pods with these volumes.
    assert of_pod["runAsNonRoot"]
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
