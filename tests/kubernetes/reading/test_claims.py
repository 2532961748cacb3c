"""Claims in force, patterns of claims, weights and annotations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.kubernetes.quantities import parse_quantity, quantity
from metronome_opt.kubernetes.reading.jobs import weights_of
from tests.kubernetes.reading.manifests import (
    GROUP,
    PATTERN,
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
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(name, None),
        "value": value,
        **fields,
    }


def of_class(name: str, priority: str | None) -> Object:
    made = job(name)
    if priority is not None:
        made["spec"]["template"]["spec"]["priorityClassName"] = priority
    return made


def test_claims_in_force_say_at_which_offset_a_job_runs() -> None:
    claims = [claim(f"train-{index}", "train", index, f"n{index}", 40_000) for index in range(2)]
    made = imported(*machines(), job(annotations={}), *claims)
    read = jobs_of(made)["train"]
    assert read["current_offset_ms"] == 40
    assert read["nodes"] == ["n0", "n1"]
    assert read["priority"] == 3
    assert made.problem.instance.jobs[0].phases == (Phase(start=4, length=6, rate=10_000),)


def test_claims_belong_to_the_pods_that_they_are_called_after() -> None:
    claims = [claim(f"train-{index}-aaaaa", "old name", index, "n0", 5000) for index in range(2)]
    pods = [pod(f"train-{index}-bbbbb", f"n{index}") for index in range(2)]
    read = jobs_of(imported(*machines(), job(), *claims, *pods))
    assert list(read) == ["train"]
    assert read["train"]["nodes"] == ["n0", "n1"]  # where the pods run now
    assert read["train"]["current_offset_ms"] == 5


def test_claims_of_no_workload_are_jobs_of_their_own() -> None:
    claims = [claim(f"x-{index}", "GPT 2", index, f"n{index}", 95_000) for index in (1, 0)]
    read = jobs_of(imported(*machines(), *claims))["GPT 2"]
    assert read["pods"] == ["x-0", "x-1"]
    assert read["nodes"] == ["n0", "n1"]
    assert read["current_offset_ms"] == 95


def test_an_offset_off_the_grid_goes_to_the_nearest_slot_and_around() -> None:
    def offset(microseconds: int) -> Any:
        claims = [claim(f"x-{index}", "x", index, f"n{index}", microseconds) for index in (0, 1)]
        return jobs_of(imported(*machines(), *claims))["x"]["current_offset_ms"]

    assert offset(12_499) == 10
    assert offset(12_500) == 15
    assert offset(99_000) == 0  # a whole period of 100 ms is none


def test_an_offset_beyond_the_period_is_of_another_pattern() -> None:
    claims = [claim(f"train-{index}", "train", index, "n0", 150_000) for index in (0, 1)]
    made = imported(*machines(), job(), *claims)
    assert "current_offset_ms" not in jobs_of(made)["train"]
    assert "offset in force beyond the period, left out: train" in made.notes


def test_a_stretched_job_may_go_on_being_so() -> None:
    claims = [claim(f"x-{index}", "x", index, f"n{index}", 104_000) for index in (0, 1)]
    for each in claims:
        each["spec"]["allocation"]["stretchMicroseconds"] = 7000
    read = jobs_of(imported(*machines(), *claims))["x"]
    assert (read["max_stretch_ms"], read["current_offset_ms"]) == (10, 105)


def test_a_claim_of_a_job_without_slots_is_read_as_any_other() -> None:
    def read(gated: bool | None) -> Any:
        claims = [claim(f"x-{index}", "x", index, f"n{index}", 40_000) for index in (0, 1)]
        for each in claims:
            each["spec"]["allocation"] |= {} if gated is None else {"gated": gated}
        return jobs_of(imported(*machines(), *claims))

    assert read(False) == read(None) == read(True)


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
    bad = claim("x-1", "x", 1, "n1")
    *way, last = path.split(".")
    inner = bad["spec"]
    for step in way:
        inner[step] = dict(inner[step])
        inner = inner[step]
    inner[last] = value
    with pytest.raises(InputError) as caught:
        imported(*machines(), claim("x-0", "x", 0, "n0"), bad)
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
    with pytest.raises(InputError, match="claim-template: there is no STBandwidthClaim 'pattern'"):
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


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"modle": "VGG16"}, "modle: unknown annotation (perhaps model)"),
        ({"model": "VGG16"}, "batch: missing; a model needs the samples"),
        ({"model": "VGG16", "batch": "many"}, "batch: must be a whole number of at least 1"),
        ({"model": "VGG16", "batch": "-1"}, "batch: must be a whole number of at least 1"),
        ({"batch": "4"}, "batch: is for a model; name one"),
        ({"model": "VGG16", "batch": "1", "traffic": "{}"}, "traffic: model is there as well"),
        ({"traffic": "{"}, "traffic: line 2, column 1: not YAML"),
        ({"traffic": "[1]"}, "traffic: the object: must be a mapping, got a list of 1"),
        ({"traffic": "&a {x: *a}"}, "traffic: line 1: alias *a (aliases are not accepted)"),
        ({"traffic": "{periodMicroseconds: 10}"}, "traffic: phases: missing"),
        ({"priority": "high"}, "priority: must be a whole number of at least 0, got 'high'"),
        ({"iterations": "0"}, "iterations: must be a whole number of at least 1, got '0'"),
        ({"claim-template": " "}, "claim-template: must not be empty"),
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


def test_bursts_that_overlap_or_leave_the_period_are_refused() -> None:
    def read(start: int, length: int) -> None:
        first = PATTERN["phases"][0]  # type: ignore[index]
        burst = {"startMicroseconds": start, "lengthMicroseconds": length, "rate": "1G"}
        traffic = {"periodMicroseconds": 100_000, "phases": [first, burst], "priority": 1}
        imported(*machines(), claim("x-0", "x", 0, "n0", traffic=traffic))

    with pytest.raises(InputError, match=r"phases\[1\]\.startMicroseconds: must be at least 50000"):
        read(49_999, 10)
    with pytest.raises(
        InputError, match=r"phases\[1\]\.lengthMicroseconds: the burst ends at 1000"
    ):
        read(50_000, 50_001)


def test_weights_are_annotated_given_by_class_or_follow_the_rank_of_the_class() -> None:
    classes = [priority_class("high", 10**9), priority_class("mid", 7), priority_class("low", -5)]
    noted = of_class("noted", "high")
    noted["metadata"]["annotations"] = {**TRAFFIC, f"{GROUP}/priority": "50"}
    objects = [*machines(), *classes, noted, *(of_class(each, each) for each in ("high", "low"))]
    read = jobs_of(imported(*objects))
    assert {name: each["priority"] for name, each in read.items()} == {
        "noted": 50,
        "high": 2,
        "low": 1,
    }
    read = jobs_of(imported(*objects, of_class("mid", "mid"), weights={"low": 9}))
    assert {name: each["priority"] for name, each in read.items()} == {
        "noted": 50,
        "high": 2,
        "mid": 1,
        "low": 9,
    }


def test_pods_without_a_class_have_that_of_the_default() -> None:
    classes = [priority_class("usual", 100, globalDefault=True), priority_class("low", 1)]
    read = jobs_of(imported(*machines(), *classes, of_class("a", None), of_class("b", "low")))
    assert (read["a"]["priority"], read["b"]["priority"]) == (2, 1)


def test_a_class_that_nobody_knows_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"no PriorityClass 'gold'; .*--weights gold=2"):
        imported(*machines(), of_class("a", "gold"))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40))
def test_weights_keep_the_order_of_values(values: list[int]) -> None:
    weights = weights_of(values)
    for one in values:
        for other in values:
            assert (one < other) == (weights[one] < weights[other])
    assert min(weights.values()) == 1


@given(st.integers(min_value=0, max_value=(2**63 - 1) // 10**6))
def test_bandwidths_read_back_as_they_are_written(mbit_per_s: int) -> None:
    assert parse_quantity(quantity(mbit_per_s)) == mbit_per_s * 10**6


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1.5Gi", 3 * 2**29),
        ("500m", Fraction(1, 2)),
        ("2u", Fraction(2, 10**6)),
        ("3n", Fraction(3, 10**9)),
        ("1e3", 1000),
        ("2E-1", Fraction(1, 5)),
        ("1E", 10**18),
        (".5k", 500),
        ("+7.", 7),
        (8, 8),
    ],
)
def test_quantities_by_the_grammar_of_kubernetes(text: str | int, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "1 G", "G", "1g", "1KiB", "0x10", "-1", "1e1000", "1" * 200, None, True, 1.5, "½"]
)
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(InputError, match="must be a quantity that is not negative"):
        parse_quantity(text)
