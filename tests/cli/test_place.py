"""``metronome place`` as a user types it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.cluster.store import Store
from metronome_opt.cluster.views import instance_of
from metronome_opt.scenario import load
from tests.cli.placing import LARGE, REST, SCENARIO, Folder, job, lines
from tests.kubernetes.schemas import check_manifests

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, capsys: Captured) -> Folder:
    made = Folder(tmp_path)
    made.make()
    capsys.readouterr()
    return made


# ------------------------------------------------------------------ a state


def test_a_shipped_scenario_becomes_an_empty_cluster(tmp_path: Path, capsys: Captured) -> None:
    state = str(tmp_path / "state")
    assert main(["place", state, "--cluster", "paper-24"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {state}\n"
    assert [line.split()[-2:] for line in printed.out.splitlines() if "GPUs  " in line] == [
        ["96", "96"]
    ]
    assert main(["place", state, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "metronome-state/1"
    assert (len(document["cluster"]["nodes"]), document["claims"]) == (24, [])


def test_a_missing_hyperperiod_has_room_for_jobs_that_come_later(
    tmp_path: Path, capsys: Captured
) -> None:
    made = Folder(tmp_path)
    bursts = [{"start_ms": 60, "length_ms": 40, "rate_gbps": 20}]
    first = {"name": "first", "workers": 2, "traffic": {"period_ms": 100, "phases": bursts}}
    scenario = made.file({**SCENARIO, "hyperperiod_ms": None, "jobs": [first]}, "pair.yaml")
    assert made.place("--cluster", scenario, "--with-jobs", "--json") == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["hyperperiod"] == 25_200
    # Twelve times as long as the only period that was known: 100 ms, 20 slots.
    bursts = [{"start_ms": 900, "length_ms": 300, "rate_mbps": 10_000}]
    second = {"name": "second", "workers": 2, "priority": 2}
    second["traffic"] = {"period_ms": 1200, "phases": bursts}
    assert made.place({"format": "metronome-job/1", **second}, "--json") == 0
    assert json.loads(capsys.readouterr().out)["period_ms"] == 1200


def test_its_jobs_can_come_with_it(tmp_path: Path, capsys: Captured) -> None:
    state, manifests = tmp_path / "state", tmp_path / "manifests"
    arguments = ["--cluster", "paper-24", "--with-jobs", "--claims", str(manifests)]
    assert main(["place", str(state), *arguments]) == 0
    assert "wideresnet101" in capsys.readouterr().out
    problem = load("paper-24")
    with Store(state) as store:
        placed = instance_of(store.state)
        where = {name: Counter(each.nodes) for name, each in store.state.claims.items()}
    unplaced = [each.model_copy(update={"current_offset": None}) for each in placed.jobs]
    assert {each.name: each for each in unplaced} == {
        each.name: each for each in problem.instance.jobs
    }
    tasks: dict[str, Counter[str]] = {}
    for task in problem.deployment.tasks:
        tasks.setdefault(task.job, Counter())[task.node] += 1
    assert where == tasks
    assert valid_claims(manifests) == {
        (name, index) for name, nodes in tasks.items() for index in range(nodes.total())
    }


def valid_claims(folder: Path) -> set[tuple[str, int]]:
    """Check a folder of manifests, and return the tasks that have claims: job and index."""
    files = {
        path.name: list(yaml.safe_load_all(path.read_text())) for path in folder.glob("*.yaml")
    }
    del files["kustomization.yaml"]
    check_manifests(files)
    return {
        (claim["spec"]["job"], int(claim["metadata"]["name"].rpartition("-")[2]))
        for claim in files["claims.yaml"]
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slot_ms": 7}, "pair.yaml: hyperperiod_ms"),
        (
            {"jobs": [{**SCENARIO["jobs"][0], "name": name} for name in "abc"]},
            "pair.yaml: ",
        ),
        (
            {"jobs": [{**SCENARIO["jobs"][0], "fixed_offset_ms": 1495, "batch": 1}]},
            "must be below the period",
        ),
    ],
)
def test_a_scenario_that_makes_no_state_makes_no_folder(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: Captured
) -> None:
    made = Folder(tmp_path)
    scenario = made.file({**SCENARIO, **changes}, "pair.yaml")
    assert made.place("--cluster", scenario, "--with-jobs") == 2
    (line,) = lines(capsys)
    assert said in line
    assert not made.state.exists()


def test_nodes_and_links_change_and_the_jobs_there_are_named(
    folder: Folder, capsys: Captured
) -> None:
    assert folder.place(job("a", each=LARGE)) == 0
    capsys.readouterr()
    changes = ["--down", "node-00", "--capacity", "node-01=30000"]
    assert folder.place(job("b", tasks=1), *changes) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "node-01 carries 30,000 Mbit/s; on it: a",
        "node-00 takes no more tasks; on it: a",
        f"wrote {folder.state}",
    ]
    assert printed.out.startswith("b: placed on node-01;")
    assert folder.place("--up", "node-00") == 0
    with Store(folder.state) as store:
        assert store.state.up.all()
        assert store.state.room("node-01") == 30_000


# ------------------------------------------------------------------ a job


def test_jobs_get_places_side_by_side(folder: Folder, capsys: Captured) -> None:
    assert folder.place(job("a")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a: placed on node-00 x 2; 1 rack",
        "offset 0 ms of a period of 1500 ms, of it 0 ms idle; score 100; no job is in its way",
    ]
    assert folder.place("--remove", "a", job("b", each=LARGE)) == 0
    assert folder.place(job("c", each=REST)) == 0
    # b bursts from 0 to 100, so 200 slots are free for 100: in their middle, 50 on either side.
    where, when = capsys.readouterr().out.splitlines()[-2:]
    assert where == "c: placed on node-00, node-01; 1 rack"
    assert when.startswith("offset 750 ms of a period of 1500 ms, of it 0 ms idle; score 100; ")
    assert when.endswith("bursts may grow by 250 ms")
    assert folder.offsets() == {"b": 0, "c": 150}


def test_json_is_for_programs(folder: Folder, capsys: Captured) -> None:
    assert folder.place(job("a", period=290, max_stretch=10), "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == f"wrote {folder.state}\n"
    assert json.loads(printed.out) == {
        "job": "a",
        "placed": True,
        "reserved": True,
        "nodes": ["node-00", "node-00"],
        "offset": 0,
        "offset_ms": 0,
        "stretch": 10,
        "period_ms": 1500,
        "conflicts": 0,
        "contention": "0",
        "score": 100,
        "cushion": 300,
        "racks": 1,
        "fragments": 0,
    }


def test_a_dry_run_changes_nothing(folder: Folder, capsys: Captured) -> None:
    folder.place(job("a"))
    before = folder.content()
    capsys.readouterr()
    assert folder.place(job("b"), "--dry-run") == 0
    assert "b: would be placed on node-01 x 2" in capsys.readouterr().out
    assert folder.place(job("b"), "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reserved"] is False
    assert folder.place(job("b"), "--dry-run", "--remove", "a") == 0
    printed = capsys.readouterr()
    assert "b: would be placed on node-00 x 2" in printed.out
    assert "wrote" not in printed.err
    assert folder.content() == before


def test_where_there_is_no_room_the_reason_is_told(folder: Folder, capsys: Captured) -> None:
    before = folder.content()
    reason = (
        "none of 2 nodes takes a task of a: 2 leave too little room for the other tasks; "
        "2 of 5 tasks find room, limited by the interfaces"
    )
    assert folder.place(job("a", tasks=5)) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"a: no place; {reason}\n")
    assert folder.place(job("a", tasks=5), "--json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"job": "a", "placed": False, "reason": reason}
    assert printed.err == f"a: no place; {reason}\n"
    assert folder.content() == before


def test_claims_of_all_jobs_in_force_are_written(folder: Folder, capsys: Captured) -> None:
    manifests = folder.path / "manifests"
    written = ["--claims", str(manifests)]
    assert folder.place(*written) == 0
    assert lines(capsys) == [f"note: no claims are in force; {manifests} stays as it is"]
    assert not manifests.exists()
    assert folder.place(job("a"), *written) == 0
    assert lines(capsys) == [f"wrote {folder.state}", f"wrote {manifests}"]
    assert folder.place(job("My Job/2"), *written) == 0
    tasks = valid_claims(manifests)
    assert len(tasks) == 4
    assert {("a", 0), ("a", 1)} < tasks
    assert folder.place("--remove", "a", *written) == 0
    assert len(valid_claims(manifests)) == 2


def test_a_cluster_of_ones_own_becomes_a_state(tmp_path: Path) -> None:
    nodes = [
        {"name": f"n{index}", "has": {"gpus": 2}, "interface": f"n{index}"} for index in (0, 1)
    ]
    links = [{"name": f"n{index}", "capacity": 100} for index in (0, 1)]
    cluster = {
        "format": "metronome-cluster/1",
        "name": "two",
        "slot_ms": 5,
        "hyperperiod": 12,
        "nodes": nodes,
        "links": links,
    }
    job = {
        "format": "metronome-job/1",
        "name": "wide",
        "tasks": 3,
        "period": 6,
        "phases": [{"start": 0, "length": 2, "rate": 50}],
    }
    (tmp_path / "cluster.json").write_text(json.dumps(cluster), encoding="utf-8")
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    made = ["place", str(tmp_path / "state"), "--cluster", str(tmp_path / "cluster.json")]
    assert main([*made, "--with-jobs"]) == 2
    assert main([*made, str(tmp_path / "job.json")]) == 0
