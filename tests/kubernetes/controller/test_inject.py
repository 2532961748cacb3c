"""Injected workloads wait for their nodes and find their windows; import reads them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.files import read_manifests
from metronome_opt.kubernetes.controller.inject import inject
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import make_scenario
from tests.kubernetes.reading.manifests import GROUP, TRAFFIC, Object, job, template, train_job
from tests.kubernetes.reading.test_kinds import runtime, runtime_job
from tests.transcripts import ROOT

EXAMPLE = ROOT / "docs" / "example-cluster"
NO_GPUS = {"template": template(0)}
MODEL = {f"{GROUP}/model": "vgg19", f"{GROUP}/batch": "64", "other": "kept"}


def injected(*manifests: Object) -> Any:
    """Return the last of the manifests."""
    documents = [("f", manifest) for manifest in manifests]
    return inject(documents)[0][-1]


def scenario_of(documents: Iterable[tuple[str, Any]]) -> Any:
    objects = Objects()
    objects.add(documents)
    return make_scenario(objects, ImportOptions()).document


def test_pods_of_a_job_wait_and_say_how_many_they_are() -> None:
    made = job("j", pods=3, annotations=MODEL)
    containers = made["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "X", "value": "y"}]
    containers.append({"name": "b"})
    pods = injected(made)["spec"]["template"]
    assert pods["spec"]["schedulingGates"] == [{"name": f"{GROUP}/place"}]
    assert pods["metadata"]["annotations"] == {
        f"{GROUP}/model": "vgg19",
        f"{GROUP}/batch": "64",
        f"{GROUP}/job": "j",
        f"{GROUP}/tasks": "3",
    }
    for container in pods["spec"]["containers"]:
        (mount,) = container["volumeMounts"]
        path = f"{mount['mountPath']}/claim"
        assert container["env"][-1] == {"name": "METRONOME_CLAIM", "value": path}
    assert pods["spec"]["containers"][0]["env"][0] == {"name": "X", "value": "y"}


@pytest.mark.parametrize("manifest", [job(), train_job(4)], ids=["Job", "TrainJob"])
def test_a_second_time_changes_nothing(manifest: Object) -> None:
    once = injected(manifest)
    assert injected(copy.deepcopy(once)) == once


def test_nccl_is_told_the_traffic_class() -> None:
    """Class 3 is the code point CS3, 24, above two bits for congestion."""
    made = injected(job(annotations=TRAFFIC | {f"{GROUP}/traffic-class": "3"}))
    assert injected(copy.deepcopy(made)) == made
    (container,) = made["spec"]["template"]["spec"]["containers"]
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    assert (values["NCCL_IB_TC"], values["NCCL_IB_SL"]) == (str(24 << 2), "3")


def test_nccl_reads_the_class_that_a_pod_gets_with_its_slots() -> None:
    made = job(annotations=TRAFFIC)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "NCCL_IB_SL", "value": "5"}]  # the user's own stays
    (container,) = injected(made)["spec"]["template"]["spec"]["containers"]
    stated = {variable["name"]: variable for variable in container["env"]}
    assert stated["NCCL_IB_SL"] == {"name": "NCCL_IB_SL", "value": "5"}
    field = stated["NCCL_IB_TC"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == f"metadata.annotations['{GROUP}/nccl-ib-tc']"


def test_every_kind_of_the_example_waits_and_imports_as_before() -> None:
    documents = list(read_manifests([EXAMPLE]))
    manifests, changed = inject(documents)
    for (_, before), after in zip(documents, manifests, strict=True):
        if before["kind"] in ("Node", "Pod", "STBandwidthCapacity", "ClusterTrainingRuntime"):
            assert after == before
        else:  # master and workers of a PyTorchJob are two templates
            templates = 1 + (before["kind"] == "PyTorchJob")
            assert yaml.safe_dump(after).count(f"{GROUP}/place") == templates
    read = scenario_of(documents)
    assert len(changed) == len(read["jobs"])
    assert scenario_of(("f", manifest) for manifest in manifests) == read


def test_a_train_job_patches_its_runtime() -> None:
    manifest = injected(train_job(4))
    (patch,) = manifest["spec"]["runtimePatches"]
    (patched,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pods = patched["template"]["spec"]["template"]
    assert pods["metadata"]["annotations"][f"{GROUP}/tasks"] == "4"
    assert pods["spec"]["schedulingGates"] == [{"name": f"{GROUP}/place"}]
    assert manifest["spec"]["trainer"]["env"][-1]["name"] == "METRONOME_CLAIM"


def test_a_train_job_patches_the_jobs_that_hold_gpus_by_their_names() -> None:
    """An MPI launcher that is a node trains too; its container is not that of the trainer."""
    launcher, node = runtime_job("launcher", 1, "trainer"), runtime_job("node", 1)
    (container,) = launcher["template"]["spec"]["template"]["spec"]["containers"]
    container["name"] = "mpi"
    made = runtime(launcher, node, numNodes=3, mpi={"runLauncherAsNode": True})
    jobs = train_job(0, trainer={})
    del jobs["spec"]["trainer"]
    manifest = injected(made, jobs)
    (patch,) = manifest["spec"]["runtimePatches"]
    patched = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in patched] == ["launcher", "node"]
    pods = [job["template"]["spec"]["template"] for job in patched]
    assert {each["metadata"]["annotations"][f"{GROUP}/tasks"] for each in pods} == {"3"}
    (own,), (trains,) = (each["spec"]["containers"] for each in pods)
    assert (own["name"], own["env"][-1]["name"]) == ("mpi", "METRONOME_CLAIM")
    assert (trains["name"], "env" in trains) == ("node", False)
    assert manifest["spec"]["trainer"]["env"][-1]["name"] == "METRONOME_CLAIM"
    assert injected(made, copy.deepcopy(manifest)) == manifest


def test_constraints_come_with_the_pods() -> None:
    rack = {"kai.scheduler/topology-required-placement": "rack"}
    stated = injected(job(annotations={**TRAFFIC, **rack}))["spec"]["template"]["metadata"]
    assert rack.items() <= stated["annotations"].items()


def test_what_the_workload_states_replaces_what_was_injected() -> None:
    made = injected(job())
    made["metadata"]["annotations"] = MODEL
    stated = injected(made)["spec"]["template"]["metadata"]["annotations"]
    assert stated[f"{GROUP}/model"] == "vgg19"
    assert f"{GROUP}/traffic" not in stated


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (job(pods="many"), "spec.parallelism: must be an integer, got 'many'"),  # type: ignore[arg-type]
        (job(annotations={}), f"annotation {GROUP}/traffic: missing; state what a task sends"),
        (job(annotations={f"{GROUP}/traffic": "[1]"}), "traffic: must be a mapping, got a list of"),
        (job(annotations=TRAFFIC | {f"{GROUP}/tasks": "x"}), "tasks: must be an integer, got 'x'"),
        (job(annotations=TRAFFIC | {f"{GROUP}/traffic-class": "8"}), "must be between 0 and 7"),
    ],
)
def test_inject_refuses_what_import_refuses(manifest: Object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        injected(manifest)
    (line,) = caught.value.lines
    assert message in line


def test_the_command_writes_nothing_where_a_workload_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "jobs.yaml", tmp_path / "out.yaml"
    arguments = ["inject", str(file), "--output", str(output)]
    bad, ignored = ({**TRAFFIC, f"{GROUP}/{name}": "true"} for name in ("batch", "ignore"))
    file.write_text(yaml.safe_dump_all([job("a"), *(job(n, annotations=bad) for n in "bc")]))
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert not output.exists()
    file.write_text(yaml.safe_dump_all([job("a"), job("b", annotations=ignored)]))
    assert main(arguments) == 0
    assert capsys.readouterr().err.splitlines() == [f"wrote {output}", "injected Job team/a"]
    for stated, said in ({}, "holds no workload with GPUs"), (TRAFFIC, "read: without GPUs"):
        file.write_text(yaml.safe_dump({**job("a", annotations=stated), "spec": NO_GPUS}))
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
