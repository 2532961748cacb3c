"""`metronome place` places all tasks of a job or none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.kubernetes.state.store import read_cluster_state
from tests.cli.placing import LARGE, REST, SCENARIO, Folder, job, lines
from tests.cli.typed import Captured, error_of, metronome
from tests.kubernetes.claims.schemas import check_manifests
from tests.scenario.test_cluster_input import DOCUMENT as CLUSTER


@pytest.fixture
def folder(two: Path, capsys: Captured) -> Folder:
    made = Folder(two)
    made.make()
    capsys.readouterr()
    return made


# ------------------------------------------------------------------ a state


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


FIRST = SCENARIO["jobs"][0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slot_ms": 7}, "pair.yaml: hyperperiod_ms"),
        ({"jobs": [{**FIRST, "name": name} for name in "abc"]}, "pair.yaml: "),
        ({"jobs": [{**FIRST, "fixed_offset_ms": 1495, "batch": 1}]}, "must be below the period"),
    ],
)
def test_a_refused_scenario_makes_no_state(
    changes: dict[str, Any], said: str, two: Path, capsys: Captured
) -> None:
    Folder(two).file({**SCENARIO, **changes}, "pair.yaml")
    assert said in error_of(capsys, "place state --cluster pair.yaml --with-jobs")
    assert not (two / "state").exists()


def test_nodes_and_links_change_and_their_jobs_are_named(folder: Folder, capsys: Captured) -> None:
    assert folder.place(job("a", each=LARGE)) == 0
    capsys.readouterr()
    changes = ["--cordon", "node-00", "--link-capacity", "node-01=30000"]
    assert folder.place(job("b", tasks=1), *changes) == 0
    out, error = capsys.readouterr()
    assert error.splitlines() == [
        "node-01 carries 30,000 Mbit/s; on it: a",
        "node-00 takes no more tasks; on it: a",
        f"wrote {folder.state}",
    ]
    assert out.startswith("b: placed on node-01;")
    assert folder.place("--uncordon", "node-00") == 0
    state = read_cluster_state(folder.state)
    assert state.up.all()
    assert state.capacities["node-01"] == 30_000


# ------------------------------------------------------------------ a job


def test_jobs_get_places_and_offsets(folder: Folder, capsys: Captured) -> None:
    assert folder.place(job("a")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a: placed on node-01 x 2; 1 rack",
        "iteration 1500 ms",
        "no windows: bursts begin when they are ready",  # it uses no link
    ]
    assert folder.place("--remove", "a", job("b", each=LARGE)) == 0
    assert folder.place(job("c", each=REST)) == 0
    # b bursts from 0 to 100, so 200 slots are free for 100: in their middle, 50 on either side.
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "c: placed on node-00, node-01; 1 rack",
        "iteration 1500 ms",
        "windows: offset 750 ms of a period of 1500 ms",
    ]
    assert folder.offsets() == {"b": 0, "c": 150}
    before = read_cluster_state(folder.state).sequence
    assert folder.place("--remove", "c", job("c", each=REST, weight=2)) == 0
    assert read_cluster_state(folder.state).sequence == before + 1  # all of it, or nothing


def test_a_dry_run_changes_nothing(folder: Folder, capsys: Captured) -> None:
    folder.place(job("a"))
    before = folder.content()
    capsys.readouterr()
    for options, node in (([], "node-00"), (["--remove", "a"], "node-01")):
        assert folder.place(job("b"), "--dry-run", *options) == 0
        out, error = capsys.readouterr()
        assert f"b: would be placed on {node} x 2" in out
        assert "wrote" not in error
    assert folder.place(job("b"), "--dry-run", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["reserved"], document["nodes"]) == (False, ["node-00", "node-00"])
    assert (document["offset"], document["period_ms"]) == (0, 1500)
    assert folder.content() == before


def test_without_room_the_reason_is_printed(folder: Folder, capsys: Captured) -> None:
    before = folder.content()
    reason = "4 of 5 tasks find room; needs 1 more node with 1 GPU free"
    assert folder.place(job("a", tasks=5)) == 1
    assert capsys.readouterr() == ("", f"a waits: {reason}\n")
    assert folder.place(job("a", tasks=5), "--json") == 1
    out, error = capsys.readouterr()
    assert json.loads(out) == {"job": "a", "placed": False, "reason": reason}
    assert error == f"a waits: {reason}\n"
    assert folder.content() == before


def test_jobs_that_become_slower_are_printed_and_drawn(folder: Folder, capsys: Captured) -> None:
    """Bursts of 200 of 300 slots do not fit beside those of 150; at 40 of 50 Gbit/s both suffer."""
    phases = [{"start": 0, "length": 150, "rate": 40_000}]
    assert folder.place(job("a", each=LARGE, phases=phases)) == 0
    longer = job("b", each=REST, phases=[{"start": 0, "length": 200, "rate": 40_000}])
    picture = folder.path / "p.svg"
    capsys.readouterr()
    assert folder.place(longer, "--plot", str(picture), "--dry-run") == 0
    *_, affected = capsys.readouterr().out.splitlines()
    name, ms = affected.split(" ms instead of 1500: ")
    assert ms == "also sends on node-00, node-01"
    assert 1500 < int(name.removeprefix("a: iteration ")) < 2500
    drawn = picture.read_text()
    assert all(text in drawn for text in ("without b", "with b", "node-00, node-01"))


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


def test_a_cluster_file_becomes_a_state(two: Path) -> None:
    Folder(two).file(CLUSTER, "cluster.json")
    assert metronome("place state --cluster cluster.json --with-jobs") == 2
    assert metronome("place state --cluster cluster.json") == 0


# ------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (job("a", tasts=2), "job.yaml: tasts: unknown field"),
        ([1], "job.yaml: the top level must be a mapping"),
        (job("b"), "name: 'b' runs already; remove it with --remove, or rename it"),
    ],
)
def test_a_wrong_job_changes_nothing(
    document: dict[str, Any], said: str, folder: Folder, capsys: Captured
) -> None:
    assert folder.place(job("b")) == 0
    before = folder.content()
    folder.file(document)
    assert said in error_of(capsys, "place state job.yaml")
    assert folder.content() == before
    if "runs already" not in said:  # nor does it leave a new state behind
        error_of(capsys, "place other job.yaml --cluster pair.yaml")
        assert not (folder.path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "there"), [("before", "old"), ("after", "a")])
def test_a_job_replaces_another_or_not_whenever_the_process_is_killed(
    moment: str, there: str, folder: Folder
) -> None:
    assert folder.place(job("old")) == 0
    code = f"""
import os, signal
from metronome_opt.__main__ import main
from metronome_opt.kubernetes.state.store import Store

write = Store._note
def note(store, event):
    if {moment == "after"}:
        write(store, event)
    os.kill(os.getpid(), signal.SIGKILL)
Store._note = note
main(["place", "state", {folder.file(job("a"))!r}, "--remove", "old"])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert run.returncode == -9
    assert run.stdout == b""
    assert list(folder.offsets()) == [there]
    assert folder.place(job("b", tasks=1)) == 0
