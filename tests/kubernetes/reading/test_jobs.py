"""Workloads and claims become jobs with their pods, traffic, weights, offsets and names."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.files.documents import parse_yaml
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario import Scenario, build_scenario, spread
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    claim,
    fault,
    imported,
    job,
    jobs_of,
    kube,
    machines,
    metadata,
    pod,
    template,
)


def fast_machines() -> list[Object]:
    """Return machines whose GPUs sustain 20 TFLOP/s."""
    first, *others = machines()
    first["metadata"]["annotations"] = {f"{GROUP}/sustained-tflops": "20"}
    return [first, *others]


def claims_of(offset: int, allocation: Any = (), name: str = "x") -> list[Object]:
    """Return the claims of a job ``x`` of two tasks."""
    claims = [claim(f"{name}-{index}", "x", index, f"n{index}", offset) for index in range(2)]
    for each in claims:
        each["spec"]["allocation"] |= dict(allocation)
    return claims


# ------------------------------------------------------------------ pods and what is left out


def test_pods_that_only_their_job_tells_apart_are_tasks_in_the_order_of_their_names() -> None:
    plain = job(pods=5)
    plain["spec"] |= {"completionMode": "NonIndexed", "completions": 2}  # so that 2 run at a time
    pods = [pod("train-bbbbb", "n1"), pod("train-aaaaa", "n0")]
    read = jobs_of(imported(*machines(), plain, *pods))["train"]
    assert read["pods"] == ["train-aaaaa", "train-bbbbb"]
    assert read["nodes"] == ["n0", "n1"]


def test_tasks_run_where_pods_are_that_have_not_ended() -> None:
    ended = pod("train-0-aaaaa", "n1", phase="Failed")
    pods = [pod("train-0-bbbbb", "n0"), pod("train-1-ccccc", "n1")]
    read = jobs_of(imported(*machines(), job(), ended, *pods))["train"]
    assert read["pods"] == ["train-0-bbbbb", "train-1-ccccc"]
    assert read["nodes"] == ["n0", "n1"]
    assert "nodes" not in jobs_of(imported(*machines(), job(), pods[0]))["train"]  # runs in part


def test_what_is_left_out_is_a_note() -> None:
    roles = {"Master": {"template": template(1)}, "Worker": {"template": template(2)}}
    spec = {"pytorchReplicaSpecs": roles}
    unlike = kube("kubeflow.org/v1", "PyTorchJob", metadata("unlike"), spec)
    ignored = job("ignored", annotations={f"{GROUP}/ignore": "true"})
    silent = [job(f"silent-{index}", annotations={}) for index in range(5)]
    cpu = job("cpu", gpus=0, annotations={})
    others = [job("alone", pods=1), job("none", pods=0), cpu, unlike, *silent, ignored]
    made = imported(*machines(2, gpus=2), job(gpus=2), *others, job("wide", gpus=2))
    assert list(jobs_of(made)) == ["train"]
    first = ", ".join(f"Job team/silent-{index}" for index in range(3))
    assert set(made.notes) == {
        f"5 dropped, no traffic known: {first} and 2 more",
        "1 dropped, by their annotation: Job team/ignored",
        "1 dropped, of a single pod, which sends nothing: Job team/alone",
        "1 dropped, without GPUs: Job team/cpu",
        "1 dropped, without pods: Job team/none",
        "1 dropped, with different numbers of GPUs (Master 1, Worker 2): PyTorchJob team/unlike",
        "1 dropped, waiting without free GPUs: Job team/wide",
    }
    assert made.summary == "2 nodes, 2 links, 1 job, 0 of them running"


def test_a_name_of_several_jobs_gets_its_namespace_and_kind() -> None:
    elsewhere = job()
    elsewhere["metadata"]["namespace"] = "other"
    tasks = {"tasks": [{"name": "w", "replicas": 2, "template": template()}]}
    head = metadata("train", annotations=TRAFFIC)
    volcano = kube("batch.volcano.sh/v1alpha1", "Job", head, tasks)
    names = set(jobs_of(imported(*machines(), job(), elsewhere, volcano, job("b"))))
    assert names == {"b", "other/train", "team/job.batch/train", "team/job.batch.volcano.sh/train"}


# ------------------------------------------------------------------ annotations


def test_times_below_a_millisecond_stay_exact_until_slots_are_made_of_them() -> None:
    text = (
        "{periodMicroseconds: 100001, "
        "phases: [{startMicroseconds: 1, lengthMicroseconds: 30000, rate: 10000500k}]}"
    )
    made = imported(*machines(), job(annotations={f"{GROUP}/traffic": text}))
    assert jobs_of(made)["train"]["traffic"] == {
        "period_ms": 100.001,
        "phases": [{"start_ms": 0.001, "length_ms": 30, "rate_mbps": 10_001}],
    }
    # Pauses go to the nearest slot: 0, then 70 ms.
    (read,) = made.problem.instance.jobs
    assert (read.period, read.phases) == (20, (Phase(start=0, length=6, rate=10_001),))
    assert made.problem.iterations[0].duration == Fraction(100_001, 1000)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("allreduce", "ring", "allreduce", "ring"),
        ("jitter", "0.03", "jitter", 0.03),
        ("jitter", " 1.0 ", "jitter", 1),
        ("priority", "50", "priority", 50),
        ("max-stretch-ms", "12", "max_stretch_ms", 10),
        ("iterations", "7", "iterations", 7),
    ],
)
def test_annotations_are_fields_of_jobs(name: str, text: str, field: str, value: Any) -> None:
    stated = {**TRAFFIC, f"{GROUP}/{name}": text}
    assert jobs_of(imported(*machines(), job(annotations=stated)))["train"][field] == value
    stated[f"{GROUP}/allreduce"] = "star"
    line = fault(*machines(), job(annotations=stated))
    assert "allreduce: must be 'ring', 'tree' or 'tasks'" in line


def test_a_workload_goes_before_its_template() -> None:
    made = job(annotations={f"{GROUP}/model": "VGG16", f"{GROUP}/batch": "8"})
    stated = {**TRAFFIC, f"{GROUP}/iterations": "7"}
    made["spec"]["template"]["metadata"] = {"annotations": stated}
    read = jobs_of(imported(*fast_machines(), made))["train"]
    assert (read["model"], read["iterations"]) == ("VGG16", 7)
    assert "traffic" not in read


BURSTS = (
    "{{periodMicroseconds: 100, phases: [{{startMicroseconds: 0, lengthMicroseconds: 50, rate: 1G}}"
    ", {{startMicroseconds: {}, lengthMicroseconds: {}, rate: {}}}]}}"
)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"modle": "VGG16"}, "modle: unknown annotation (perhaps model)"),
        ({"model": "VGG16"}, "batch: missing"),
        ({"model": "VGG16", "batch": "many"}, "batch: must be an integer, got 'many'"),
        ({"batch": "4"}, "batch: is for a model; name one"),
        ({"model": "VGG16", "batch": "1", "traffic": "{}"}, "traffic: model is there as well"),
        ({"traffic": "abc"}, "traffic: must be a mapping, got 'abc'"),
        ({"traffic": "{"}, "traffic: line 2, column 1: not YAML"),
        ({"traffic": "{periodMicroseconds: 10}"}, "traffic: phases: must have at least 1 in it"),
        (
            {"traffic": BURSTS.format(49, 1, "1G")},
            "traffic: phases[1].start_ms: 0.049: is before the end of the burst before it, 0.05",
        ),
        (
            {"traffic": BURSTS.format(50, 51, "1G")},
            "traffic: phases[1].length_ms: 0.051: the burst ends at 0.101 ms, after the period",
        ),
        ({"traffic": BURSTS.format(50, 50, "0")}, "traffic: phases[1].rate: no node sends 0 bit/s"),
        ({"traffic": BURSTS.format(50, 9, "80")}, "traffic: phases[1].rate: no node sends 80"),
        ({"jitter": "-0.1"}, "jitter: must be a number from 0 to 1, such as 0.03, got '-0.1'"),
        ({"jitter": "nan"}, "jitter: must be a number from 0 to 1"),
        ({"max-network-cost": "10001"}, "max-network-cost: must be between 0 and 10000, got 10001"),
        ({"iterations": "0"}, "iterations: must be between 1 and "),
        ({"model": " ", "batch": "1"}, "model: must be text that is not empty"),
    ],
)
def test_bad_annotations(annotations: dict[str, str], message: str) -> None:
    given = {f"{GROUP}/{name}": text for name, text in annotations.items()}
    line = fault(*machines(), job(annotations=given))
    assert line.startswith(f"file: document 4: Job team/train: annotation {GROUP}/{message}")


def app_group(**costs: int | None) -> Object:
    """Return an AppGroup of workloads, each of which depends on one at some cost."""
    other = {"kind": "Pod", "name": "other", "selector": "other"}
    workloads = []
    for name, cost in costs.items():
        stated = {} if cost is None else {"maxNetworkCost": cost}
        itself = {"kind": "Pod", "name": name.replace("_", "-"), "selector": name}
        workloads.append({"workload": itself, "dependencies": [{"workload": other, **stated}]})
    spec = {"numMembers": len(costs), "workloads": workloads}
    return kube("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", metadata("group"), spec)


@pytest.mark.parametrize(
    ("costs", "annotation", "read"),
    [
        ({"train_0": 7, "train_1": 5}, None, 5),  # the least of its pods
        ({"train": 9}, None, 9),  # stated for the workload as a whole
        ({"train_0": None}, None, 0),  # as the plugin reads it
        ({"train_0": 10_000}, None, None),  # any
        ({"train_0": 7}, "30", 30),
        ({"another": 7}, None, None),
    ],
)
def test_network_cost_is_annotated_or_that_of_the_app_group(
    costs: dict[str, int | None], annotation: str | None, read: int | None
) -> None:
    extra = {} if annotation is None else {f"{GROUP}/max-network-cost": annotation}
    made = imported(*machines(), job(annotations={**TRAFFIC, **extra}), app_group(**costs))
    assert jobs_of(made)["train"].get("max_network_cost") == read


def test_a_network_cost_out_of_range_is_one_line() -> None:
    place = "file: document 4: AppGroup team/group: spec.workloads[0].dependencies[0]"
    line = fault(*machines(), app_group(train_0=10_001), job())
    assert line.startswith(f"{place}.maxNetworkCost: must be ")


def test_an_unknown_model_is_a_fault_of_the_workload() -> None:
    given = {f"{GROUP}/model": "VGG17", f"{GROUP}/batch": "1"}
    line = fault(*fast_machines(), job(annotations=given))
    assert line.startswith("file: document 4: Job team/train: model: there is no")


def test_weight_is_that_of_the_claims() -> None:
    made = imported(*machines(), job("claimed"), job("plain"), claim("claimed-0", "x", 0, "n0"))
    weights = {name: read["priority"] for name, read in jobs_of(made).items()}
    assert weights == {"claimed": 3, "plain": 1}


# ------------------------------------------------------------------ claims


def test_claims_belong_to_the_pods_that_they_are_called_after() -> None:
    claims = [claim(f"train-{index}-aaaaa", "old name", index, "n0", 5000) for index in range(2)]
    pods = [pod(f"train-{index}-bbbbb", f"n{index}") for index in range(2)]
    read = jobs_of(imported(*machines(), job(), *claims, *pods))
    assert list(read) == ["train"]
    assert read["train"]["nodes"] == ["n0", "n1"]  # where the pods run now
    assert read["train"]["current_offset_ms"] == 5


@pytest.mark.parametrize(
    ("offset", "allocation", "expected"),
    [
        (12_500, {}, 15),
        (99_000, {}, 0),  # a whole period of 100 ms is none
        (40_000, {"gated": False}, 40),
        (104_000, {"stretchMicroseconds": 7000}, 105),
    ],
)
def test_an_offset_goes_to_the_grid(offset: int, allocation: Object, expected: int) -> None:
    read = jobs_of(imported(*machines(), *claims_of(offset, allocation)))["x"]
    assert read["current_offset_ms"] == expected
    # A stretched job may go on being so.
    assert read.get("max_stretch_ms", 0) == (10 if "stretchMicroseconds" in allocation else 0)


def test_an_offset_beyond_the_period_is_of_another_pattern() -> None:
    made = imported(*machines(), job(), *claims_of(150_000, name="train"))
    assert "current_offset_ms" not in jobs_of(made)["train"]
    assert "offset in force beyond the period, dropped: train" in made.notes


def test_a_job_of_which_some_pods_cross_a_link_is_a_ring() -> None:
    """Two pods on each of two nodes: in full two flows on either interface, of a ring one."""
    claims = [claim(f"c-{task}", "ring", task, f"n{task // 2}") for task in range(4)]
    for crossing, allreduce, flows in ((claims[1::2], "ring", 1), (claims[::2], None, 2)):
        for each in crossing:
            allocation = each["spec"]["allocation"]
            allocation["link"] = f"{allocation['node']}-nic"
        made = imported(*machines(), *claims)
        assert jobs_of(made)["ring"].get("allreduce") == allreduce
        assert dict(made.problem.instance.jobs[0].links) == {"n0-nic": flows, "n1-nic": flows}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("task", 0, "task: is that of x-0 too, got 0"),
        ("traffic.periodMicroseconds", 0, "traffic.periodMicroseconds: must be between 1 and 1000"),
        ("traffic.phases", [], "traffic: phases: must have at least 1 in it, got a list of 0"),
        ("job", "", "job: must be text that is not empty, got ''"),
    ],
)
def test_bad_claims(path: str, value: Any, message: str) -> None:
    good, bad = claims_of(0)
    *uplink_path, last = path.split(".")
    inner = bad["spec"]
    for step in uplink_path:
        inner[step] = dict(inner[step])
        inner = inner[step]
    inner[last] = value
    start = f"file: document 5: STBandwidthClaim team/x-1: spec.{message}"
    assert fault(*machines(), good, bad).startswith(start)


def test_a_scenario_that_is_written_reads_back() -> None:
    made = imported(*machines(), job(), claim("train-0", "train", 0, "n0", 40_000))
    document = parse_yaml(made.text())
    assert build_scenario(spread(Scenario.from_dict(document))).instance == made.problem.instance
