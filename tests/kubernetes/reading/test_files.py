"""All manifests in files are read: streams, lists, aliases; faults are one line."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
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
    node,
    pod,
    template,
    train_job,
)
from tests.tiers import THOROUGH


def objects_of(*paths: Path) -> Objects:
    objects = Objects()
    objects.add(read_manifests(paths))
    return objects


def test_streams_lists_and_json_read_alike(tmp_path: Path) -> None:
    every = [*machines(), job()]
    head = {"apiVersion": "v1", "kind": "List"}
    nodes = [{"metadata": node["metadata"], "status": node["status"]} for node in every[:3:2]]
    listed = {"apiVersion": "v1", "kind": "NodeList", "items": nodes}  # without their kind
    texts = {
        "stream.yaml": "---\n---\n" + yaml.safe_dump_all(every),
        "listed.json": json.dumps({**head, "items": every}),
        "nested.yaml": yaml.safe_dump({**head, "items": [listed, *every[1::2], every[-1]]}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        read = make_scenario(objects_of(tmp_path / name), ImportOptions())
        assert read.document == imported(*every).document


def test_other_kinds_are_counted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        config = kube("v1", "ConfigMap", metadata(name), {})
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all([*machines(), job()]))
    (tmp_path / "notes.txt").write_text("not read")
    made = make_scenario(objects_of(tmp_path), ImportOptions())
    note = "ignored, of kinds that are not read: 2 ConfigMap, 1 no Kubernetes object"
    assert note in made.notes


def test_an_object_may_be_there_twice_unless_it_differs() -> None:
    every = [*machines(), job()]
    assert list(jobs_of(imported(*every, job()))) == ["train"]
    start = "file: document 5: Job team/train: differs from file: document 4"
    assert fault(*every, job(pods=3)).startswith(start)


def gpus(amount: str) -> Object:
    spec = template()["spec"]
    spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = amount
    return {"spec": {**job()["spec"], "template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {}}, "metadata.name: missing"),
        ({"metadata": metadata("x" * 254)}, "metadata.name: must be at most 253 printable"),
        ({"kind": "Job\x1b"}, "kind: must be at most 63 printable"),
        ({"apiVersion": "batch/v9"}, "apiVersion: version must be v1, got 'batch/v9'"),
        ({"spec": {"parallelism": "2"}}, "spec.parallelism: must be an integer, got '2'"),
        (
            {"spec": {"template": {"spec": {"containers": {}}}}},
            "spec.template.spec.containers: must be a list, got a mapping of 0",
        ),
        (
            {"metadata": metadata("train", annotations={"a": 1})},
            "metadata.annotations.a: must be text; put it in quotes, got 1",
        ),
        (
            gpus("half"),
            "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu: must be a quantity",
        ),
        (gpus("9E"), "spec.template.spec: GPUs, thousandths of a core and MiB must be at most"),
    ],
)
def test_bad_workloads(change: dict[str, Any], message: str) -> None:
    line = fault(*machines(), {**job(), **change})
    assert re.sub("^file: document 4: (Job team/train: )?", "", line).startswith(message)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([job()], "no nodes: none with GPUs and an interface; read Nodes with"),
        ([node("bare"), job()], "no nodes: .*1 node \\(bare\\) dropped, without .*; --nic-gbps"),
        ([*machines(), node("n5", gpus=0)], "no jobs: none is there to schedule"),
        ([*machines(), job(annotations={})], "no jobs: .*/model \\(1 dropped, no traff"),
    ],
)
def test_nothing_to_schedule(objects: list[Object], message: str) -> None:
    assert re.match(message, fault(*objects))


def test_a_folder_that_holds_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.yaml, \.yml or \.json; name a folder"):
        objects_of(tmp_path)


def test_a_folder_is_read_without_links_to_elsewhere(tmp_path: Path) -> None:
    """As a ConfigMap is mounted, links may stay inside the folder; a fault would quote others."""
    folder, secret = tmp_path / "folder", tmp_path / "secret"
    (folder / "..data").mkdir(parents=True)
    (folder / "..data" / "job.yaml").write_text(yaml.safe_dump_all([*machines(), job()]))
    (folder / "job.yaml").symlink_to(Path("..data") / "job.yaml")
    assert objects_of(folder).of("Job")
    secret.write_text("root:x:0:0\n")
    (folder / "x.yaml").symlink_to(secret)
    with pytest.raises(InputError) as caught:
        objects_of(folder)
    assert str(caught.value) == f"{folder}/x.yaml: is a link to elsewhere; name what it links to"


def test_every_fault_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = [job(name, annotations={f"{GROUP}/modle": "x"}) for name in ("a", "b")]
    bad.append(job("c", pods="many"))  # type: ignore[arg-type]
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all([*machines(), *bad, job("good")]))
    assert main(["import", str(path), "--json"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(".*: Job team/", "", line)[:4] for line in lines] == ["c: s", "a: a", "b: a"]
    unnamed = [kube("v1", "Node", {}, {})] * 2
    path.write_text(yaml.safe_dump_all([*unnamed, *machines(), job()]))
    assert main(["import", str(path), "--json"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("jobs.yaml: ")[2] for line in lines] == [
        f"document {index}: metadata.name: missing" for index in (1, 2)
    ]


# ------------------------------------------------------------------ what is printed

NASTY = "\x1b[31m\u202e\n" + "y" * 8400


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the locations of all values of an object."""
    listed = enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(value.items() if isinstance(value, dict) else listed):
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(objects: list[Object], change: Callable[[Any, Any], None]) -> Iterator[list[Object]]:
    """Yield the objects with a change at each location of each of them."""
    for index, item in enumerate(objects):
        for path in places(item):
            copied = copy.deepcopy(item)
            inner: Any = copied
            for step in path[:-1]:
                inner = inner[step]
            change(inner, path[-1])
            yield [*objects[:index], copied, *objects[index + 1 :]]


def spoil(inner: Any, key: Any) -> None:
    """Make a text or a key unprintable and endless."""
    if isinstance(inner[key], str):
        inner[key] += NASTY
    elif isinstance(inner, dict):
        inner[NASTY] = inner.pop(key)


def every_object() -> list[Object]:
    tasks: Object = {"tasks": [{"name": "w", "replicas": 2, "template": template(2)}]}
    tasks["tasks"].append({"name": "v", "replicas": 1, "template": template(1)})
    tasks["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    first, *others = machines(zone="z")
    first["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    near = job("near")
    term = {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod_spec = near["spec"]["template"]["spec"]
    pod_spec["affinity"] = {"nodeAffinity": rules}
    pod_spec["containers"][0]["env"] = [{"name": "NCCL_DEBUG", "value": "INFO"}]
    return [
        first,
        *others,
        near,
        job(),
        kube("batch.volcano.sh/v1alpha1", "Job", metadata("vol", annotations=TRAFFIC), tasks),
        train_job(2),
        claim("train-0", "train", 0, "n0"),
        pod("train-0-aaaaa", "n0"),
        kube("v1", "ConfigMap", metadata("other"), {}),
    ]


def result_of(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its faults, each of which names its file."""
    try:
        return call()
    except InputError as error:
        lines = error.lines
    assert all(line.startswith("file: ") for line in lines)
    return lines


def lines_of(objects: list[Object]) -> tuple[str, ...]:
    """Return the notes of a scenario, whose document JSON takes, or the faults."""
    made = result_of(lambda: imported(*objects))
    if isinstance(made, tuple):
        return made
    assert json.loads(json.dumps(made.document)) == made.document
    return tuple(made.notes)


def test_no_text_of_a_manifest_prints_control_characters_or_endless_lines() -> None:
    for objects in changed(every_object(), spoil):
        for line in lines_of(objects):
            assert line.isprintable()
            assert len(line) < 1500


@pytest.mark.parametrize(
    ("first", "value"), list(enumerate([None, 7, "text", [3], ["text"], {"a": []}, [{}], []]))
)
def test_a_value_of_a_wrong_type_is_read_or_a_line_that_names_its_file(
    first: int, value: Any
) -> None:
    every = changed(every_object(), lambda inner, key: inner.__setitem__(key, value))
    # A part of the locations for each value, and all of them for some value.
    for objects in every if THOROUGH else islice(every, first % 3, None, 3):
        items = [("file", item) for item in objects]
        lines_of(objects)
        result_of(partial(inject, items))
