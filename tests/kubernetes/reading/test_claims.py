"""Claims in force, patterns of claims, weights and annotations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    claim,
    imported,
    job,
    jobs_of,
    machines,
    metadata,
    pod,
)


def priority_class(name: str, value: int, **fields: Any) -> Object:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": metadata(name, None), "value": value, **fields}


def of_class(name: str, priority: str | None) -> Object:
    made = job(name)
    if priority is not None:
        made["spec"]["template"]["spec"]["priorityClassName"] = priority
    return made


def claims_of(offset: int, allocation: Any = (), name: str = "x") -> list[Object]:
    """Return the claims of a job ``x`` of two tasks."""
    claims = [claim(f"{name}-{index}", "x", index, f"n{index}", offset) for index in range(2)]
    for each in claims:
        each["spec"]["allocation"] |= dict(allocation)
    return claims


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
        (12_499, {}, 10),  # the nearest slot
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


def test_a_job_of_which_some_pods_cross_a_link_is_a_ring() -> None:
    """Two pods on each of two nodes: in full two flows on either interface, of a ring one."""
    claims = [claim(f"c-{task}", "ring", task, f"n{task // 2}") for task in range(4)]
    for each in (claims[1], claims[3]):
        each["spec"]["allocation"]["link"] = f"{each['spec']['allocation']['node']}-nic"
    made = imported(*machines(), *claims)
    assert jobs_of(made)["ring"]["allreduce"] == "ring"
    assert dict(made.problem.instance.jobs[0].links) == {"n0-nic": 1, "n1-nic": 1}
    for each in (claims[0], claims[2]):
        each["spec"]["allocation"]["link"] = f"{each['spec']['allocation']['node']}-nic"
    made = imported(*machines(), *claims)
    assert "allreduce" not in jobs_of(made)["ring"]
    assert dict(made.problem.instance.jobs[0].links) == {"n0-nic": 2, "n1-nic": 2}


def test_an_annotation_says_how_pods_all_reduce() -> None:
    stated = {f"{GROUP}/model": "VGG16", f"{GROUP}/batch": "8", f"{GROUP}/allreduce": "ring"}
    made = imported(*machines(), job(annotations=stated), gpu_tflops=Fraction(20))
    assert jobs_of(made)["train"]["allreduce"] == "ring"
    stated[f"{GROUP}/allreduce"] = "tree"
    with pytest.raises(InputError, match=r"allreduce: must be 'tasks', 'ring' or 'hierarchical'"):
        imported(*machines(), job(annotations=stated), gpu_tflops=Fraction(20))


def test_an_offset_beyond_the_period_is_of_another_pattern() -> None:
    made = imported(*machines(), job(), *claims_of(150_000, name="train"))
    assert "current_offset_ms" not in jobs_of(made)["train"]
    assert "offset in force beyond the period, left out: train" in made.notes


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("allocation.offsetMicroseconds", 5, "is not that of x-0, a claim of the same job, got 5"),
        ("traffic.priority", 9, "is not that of x-0, a claim of the same job, got 9"),
        ("task", 0, "is that of x-0 too, got 0"),
        ("traffic.periodMicroseconds", 0, "must be between 1 and 1000000000000, got 0"),
        ("traffic.periodMicroseconds", "1s", "must be an integer, got '1s'"),
        ("traffic.phases", [], "missing; a pattern has at least one burst"),
        ("job", "", "must be text that is not empty, got ''"),
    ],
)
def test_bad_claims(path: str, value: Any, message: str) -> None:
    good, bad = claims_of(0)
    *way, last = path.split(".")
    inner = bad["spec"]
    for step in way:
        inner[step] = dict(inner[step])
        inner = inner[step]
    inner[last] = value
    with pytest.raises(InputError) as caught:
        imported(*machines(), good, bad)
    told = str(caught.value)
    assert told.startswith(f"file: document 5: STBandwidthClaim team/x-1: spec.{path}: {message}")


def test_a_pattern_is_a_claim_without_an_allocation() -> None:
    pattern = claim("pattern", "any", 0, "n0")
    del pattern["spec"]["allocation"]
    named = job(annotations={f"{GROUP}/claim-template": "pattern"})
    read = jobs_of(imported(*machines(), named, pattern))
    assert list(read) == ["train"]
    burst = {"start_ms": 20, "length_ms": 30, "rate_mbps": 10_000}
    assert read["train"]["traffic"] == {"period_ms": 100, "phases": [burst]}
    with pytest.raises(InputError, match=r"claim-template: no such STBandwidthClaim .*'pattern'"):
        imported(*machines(), named)


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
    assert made.problem.traffic[0].exact.duration == Fraction(100_001, 1000)
    assert any(note.startswith("rounded to slots of 5 ms") for note in made.notes)


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
        ({"model": "VGG16", "batch": "-1"}, "batch: must be an integer, got '-1'"),
        ({"batch": "4"}, "batch: is for a model; name one"),
        ({"model": "VGG16", "batch": "1", "traffic": "{}"}, "traffic: another of model, "),
        ({"traffic": "{"}, "traffic: line 2, column 1: not YAML"),
        ({"traffic": "[1]"}, "traffic: must be a mapping, got a list of 1"),
        ({"traffic": "&a {x: *a}"}, "traffic: line 1: alias *a: no value before it"),
        ({"traffic": "{periodMicroseconds: 10}"}, "traffic: phases: missing"),
        (
            {"traffic": BURSTS.format(49, 1, "1G")},
            "traffic: phases[1].startMicroseconds: must be at least 50",
        ),
        (
            {"traffic": BURSTS.format(50, 51, "1G")},
            "traffic: phases[1].lengthMicroseconds: the burst ends at 101",
        ),
        ({"traffic": BURSTS.format(50, 50, "0")}, "traffic: phases[1].rate: must be above 0"),
        ({"priority": "high"}, "priority: must be an integer, got 'high'"),
        ({"iterations": "0"}, "iterations: must be between 1 and "),
        ({"claim-template": " "}, "claim-template: must be text that is not empty"),
    ],
)
def test_bad_annotations(annotations: dict[str, str], message: str) -> None:
    given = {f"{GROUP}/{name}": text for name, text in annotations.items()}
    with pytest.raises(InputError) as caught:
        imported(*machines(), job(annotations=given))
    told = str(caught.value)
    assert told.startswith(f"file: document 4: Job team/train: annotation {GROUP}/{message}")


def test_a_model_that_nobody_knows_is_said_of_the_workload() -> None:
    given = {f"{GROUP}/model": "VGG17", f"{GROUP}/batch": "1"}
    with pytest.raises(InputError, match=r"^file: document 4: Job team/train: model: there is no"):
        imported(*machines(), job(annotations=given), gpu_tflops=Fraction(20))


def test_weights_are_annotated_given_by_class_or_follow_the_rank_of_the_class() -> None:
    classes = [priority_class("high", 10**9), priority_class("mid", 7), priority_class("low", -5)]
    noted = of_class("noted", "high")
    noted["metadata"]["annotations"] = {**TRAFFIC, f"{GROUP}/priority": "50"}
    objects = [*machines(), *classes, noted, *(of_class(each, each) for each in ("high", "low"))]

    def weights(*more: Object, **choices: Any) -> Object:
        read = jobs_of(imported(*objects, *more, **choices))
        return {name: each["priority"] for name, each in read.items()}

    assert weights() == {"noted": 50, "high": 2, "low": 1}
    given = weights(of_class("mid", "mid"), weights={"low": 9})
    assert given == {"noted": 50, "high": 2, "mid": 1, "low": 9}
    usual = priority_class("usual", 100, globalDefault=True)
    assert weights(of_class("plain", None), usual)["plain"] == 2  # above -5, below 10**9
    with pytest.raises(InputError, match=r"no PriorityClass 'gold'; .*--weights gold=2"):
        weights(of_class("a", "gold"))
    with pytest.raises(InputError, match="globalDefault: another class is the default as well"):
        weights(usual, priority_class("other", 100, globalDefault=True))
