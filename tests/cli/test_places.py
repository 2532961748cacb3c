"""Placements are chosen, stated and verified by all commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.problem.schedule import read_schedule
from tests.cli.typed import Captured, error_of, metronome, printed, row

# At 80 Gbit/s for 120 of 320 ms, and for 150 of 450 ms.
T = {"period_ms": 320, "phases": [{"start_ms": 200, "length_ms": 120, "rate_gbps": 80}]}
O = {"period_ms": 450, "phases": [{"start_ms": 300, "length_ms": 150, "rate_gbps": 80}]}  # noqa: E741


def write(nodes: int = 8, **changes: Mapping[str, Any]) -> None:
    """Write six jobs, with other fields for some, on nodes of four GPUs in two racks."""
    jobs: list[dict[str, Any]] = [
        *({"name": f"t{index}", "traffic": T, "workers": 4} for index in range(3)),
        *({"name": f"o{index}", "traffic": O, "workers": 4} for index in range(2)),
        {"name": "o2", "traffic": O, "workers": 8},
    ]
    tree = {"topology": "leaf-spine", "nodes": nodes, "gpus": 4, "nic_gbps": 100, "racks": 2}
    document = {
        "format": "metronome-scenario/1",
        "name": "six",
        "slot_ms": 10,
        "cluster": changes.get("cluster") or {**tree, "oversubscription": "2:1"},
        "jobs": [{**job, **changes.get(job["name"], {})} for job in jobs],
    }
    Path("six.yaml").write_text(yaml.safe_dump(document))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def use(problem: str, capsys: Captured, status: int = 0) -> None:
    """Let every command read a schedule of a problem."""
    for line in (
        f"verify {problem} s.json",
        f"claims {problem} s.json --output claims",
        f"report s.json {problem} --output page.html",
    ):
        assert metronome(line) == status, line
    capsys.readouterr()


@pytest.mark.slow
def test_jobs_are_placed_where_they_need_no_network(capsys: Captured) -> None:
    """Five jobs have a node each; the sixth has three, where an iteration takes 660 ms.

    On 3, 3 and 2 nodes 240 Gbit/s want 100, so that its burst of 150 ms takes 360 ms. In the empty
    cluster four of its tasks share an uplink of 200, or two an interface: 240 ms. The mean slowdown
    is (5 + 660 / 540) / 6 = 1.037.
    """
    write()
    lines = printed(capsys, "allocate six.yaml --time-limit 6 --output s.json --plot p.svg")
    schedule = read_schedule("s.json")
    assert schedule.objectives["slowdown"] < 1.04  # type: ignore[operator]
    assert schedule.places is not None
    assert sorted(len(set(its)) for its in schedule.places.values()) == [1, 1, 1, 1, 1, 3]
    (node,) = set(schedule.places["t0"])
    assert row(lines, "t0") == ["t0", "1", node, "x", "4", *["320.0"] * 3, "-"]
    use("six.yaml", capsys)
    claimed = Path("claims/claims.yaml").read_text()
    assert claimed.count("t0")
    assert Path("p.svg").exists()
    output = printed(capsys, "validate s.json")
    assert output == ["s.json: a schedule of six: 6 jobs placed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "nodes"),
    [
        ("solve six.yaml --output s.json", 2),
        ("pareto six.yaml --output .", 2),
        ("fit six.yaml --drop --output s.json", 2),
    ],
)
def test_every_command_that_chooses_states_places(line: str, nodes: int, capsys: Captured) -> None:
    """The sixth job is on the two nodes that are nearest."""
    write()
    assert metronome(f"{line} --time-limit 20") == 0
    if Path("point-001.json").exists():
        Path("point-001.json").rename("s.json")
    places = read_schedule("s.json").places or {}
    assert sorted(len(set(its)) for its in places.values()) == [1, 1, 1, 1, 1, nodes]
    use("six.yaml", capsys)


def test_jobs_without_room_wait_and_the_reason_is_printed(capsys: Captured) -> None:
    write(nodes=6)
    lines = printed(capsys, "allocate six.yaml --time-limit 4 --output s.json")
    # Of 28 GPUs 24 are there: least is left over if one of the jobs of four waits.
    (waiting,) = read_schedule("s.json").waiting or ()
    assert waiting in ("t0", "t1", "t2", "o0", "o1")
    assert f"{waiting} waits: 4 tasks of 1 GPU, and there is room for 0" in lines
    assert not any(line.startswith(f"{waiting} ") and "waits" not in line for line in lines)
    use("six.yaml", capsys)
    claimed = Path("claims/claims.yaml").read_text()
    assert waiting not in claimed
    assert "o2" in claimed


def test_false_places_are_not_used(capsys: Captured) -> None:
    write(nodes=6, o2={"workers": 4})
    assert metronome("solve six.yaml --time-limit 2 --output s.json") == 0
    document = json.loads(Path("s.json").read_text())
    document["places"]["t0"] = document["places"]["t1"]
    Path("s.json").write_text(json.dumps(document))
    use("six.yaml", capsys, status=1)
    metronome("verify six.yaml s.json")
    assert "that need 8 GPUs, but it has 4" in capsys.readouterr().err


SWITCH = {"topology": "listed", "nodes": [{"name": "n", "has": {"gpus": 28}, "interface": "n"}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"o2": {"workers": 64}}, "jobs[5].workers: 64: more than the cluster has room for, 32"),
        (
            {"t0": {"each": {"gpus": 1, "cpu_millicores": 64_001}}},
            "jobs[0].workers: 4: more than the cluster has room for, 0",
        ),
        ({"t0": {"nodes": ["node-99"] * 4}}, "jobs[0].nodes: there is no node 'node-99'"),
        (
            {"t0": {"workers": 5, "nodes": {"node-00": 5}}},
            "jobs[0].nodes: node-00 has room for 4 of its 5 tasks there; move a job elsewhere",
        ),
        (
            {"t0": {"nodes": {"node-00": 4}}, "t1": {"nodes": {"node-01": 3, "node-00": 1}}},
            "jobs[1].nodes: node-00 has room for 0 of its 1 task there; move a job elsewhere",
        ),
        ({"cluster": {**SWITCH, "links": []}}, "cluster.nodes[0].interface: there is no link 'n'"),
    ],
)
def test_what_cannot_be_placed_is_one_line(
    changes: dict[str, Any], said: str, capsys: Captured
) -> None:
    write(**changes)
    assert said in error_of(capsys, "solve six.yaml")


@pytest.mark.parametrize(
    ("line", "changes", "said"),
    [
        # A cluster without links that are used: all jobs on one node.
        (
            "--time-limit 4",
            {"cluster": {**SWITCH, "links": [{"name": "n", "capacity": 1}]}},
            "mean slowdown 1.0000",
        ),
        # The best free nodes of the sixth job, or the nearest, where 4 x 80 want 100: 780.
        ("--time-limit 4 --stretch-limit 0", {}, "slowdown 1.037"),
        ("--time-limit 0", {}, "slowdown 1.074"),
    ],
)
def test_unusual_input_has_an_answer(
    line: str, changes: dict[str, Any], said: str, capsys: Captured
) -> None:
    write(**changes)
    lines = printed(capsys, f"allocate six.yaml --output s.json {line}")
    assert said in "\n".join(lines)
    assert metronome("verify six.yaml s.json") == 0


@pytest.mark.parametrize(
    ("job", "status", "said"),
    [
        (
            {"workers": 29},
            1,
            "x waits: 28 of 29 tasks find room; needs 1 more node with 1 GPU free",
        ),
        ({"workers": 4, "nodes": ["n"] * 4}, 2, "nodes: a job that asks for a placement is given "),
        ({"workers": 4, "each": {"gpus": 0}}, 2, "each.gpus: 0: a worker needs at least 1"),
        ({"workers": 28}, 0, "x: placed on n x 28; 1 rack"),
    ],
)
def test_a_job_that_asks_one_node_gets_an_answer_in_one_line(
    job: dict[str, Any], status: int, said: str, capsys: Captured
) -> None:
    write(cluster={**SWITCH, "links": [{"name": "n", "capacity": 100_000}]})
    assert metronome("place state --cluster six.yaml") == 0
    document = {"format": "metronome-job/1", "name": "x", "traffic": T, **job}
    Path("job.yaml").write_text(yaml.safe_dump(document))
    capsys.readouterr()
    assert metronome("place state job.yaml") == status
    printed = capsys.readouterr()
    assert said in (printed.err if status else printed.out).splitlines()[0]
    assert status == 0 or len(printed.err.splitlines()) == 1


@pytest.mark.slow
def test_a_state_is_a_scenario_for_every_command(capsys: Captured) -> None:
    assert metronome("place state --cluster two-racks --with-jobs") == 0
    lines = printed(capsys, "allocate state --time-limit 4 --output s.json")
    assert row(lines, "vision-a")[2:4] == ["node-00", "x"]
    schedule = read_schedule("s.json")
    assert schedule.places is None
    use("state", capsys)
    assert printed(capsys, "validate state")[0].startswith("state: a scenario: 4 nodes, 4 jobs on")
    assert metronome("simulate state --policies default") == 0
    assert metronome("place state --apply-schedule s.json") == 0
    taken = json.loads("".join(printed(capsys, "place state --json")))["claims"]
    assert {each["gang"]["name"]: each["offset"] for each in taken} == schedule.offsets
    said = "--apply-schedule: cannot be combined with JOB"
    assert said in error_of(capsys, "place state --apply-schedule s.json --cordon node-00")
    assert "is a folder; name a file" in error_of(capsys, "solve .")


# At 100 Gbit/s for 250 of 300 ms: two of them together take twice 250 ms, or nearly so.
BUSY = {"period_ms": 300, "phases": [{"start_ms": 50, "length_ms": 250, "rate_gbps": 100}]}


@pytest.mark.slow
def test_jobs_of_a_state_move_where_it_pays(capsys: Captured) -> None:
    """Alone bert and vgg would run for 300 s; together each takes about 200 s longer."""
    tree = {"topology": "single-switch", "nodes": 4, "gpus": 2, "nic_gbps": 100}
    nodes = ["node-00", "node-01"]
    fields = {"workers": 2, "traffic": BUSY, "nodes": nodes, "iterations": 1000}
    document = {
        "format": "metronome-scenario/1",
        "name": "four",
        "slot_ms": 10,
        "hyperperiod_ms": 6000,
        "cluster": tree,
        "jobs": [{"name": name, **fields} for name in ("bert", "vgg")],
    }
    Path("four.yaml").write_text(yaml.safe_dump(document))
    assert metronome("place state --cluster four.yaml --with-jobs") == 0
    solve = "allocate state --time-limit 2 --output s.json --migration-cost"
    assert "no move pays (jobs that state no iterations stay)" in printed(capsys, f"{solve} 600")
    assert read_schedule("s.json").places is None
    lines = printed(capsys, f"{solve} 60")
    (line,) = [line for line in lines if line.startswith("move ")]
    start, saves, costs = line.replace(":", ",").rsplit(", ", 2)
    assert start in {
        f"move {job}, node-00, node-01 -> node-0{node} x 2"
        for job in ("bert", "vgg")
        for node in (2, 3)
    }
    assert 380 < int(saves.split()[1]) < 420
    assert costs == "costs 60 s"
    (move,) = json.loads("".join(printed(capsys, f"{solve} 60 --json")))["moves"]
    assert (move["from"], move["costs_s"]) == (nodes, 60)
    use("state", capsys)
    assert metronome("place state --apply-schedule s.json") == 0
    moved = read_schedule("s.json").places
    taken = json.loads("".join(printed(capsys, "place state --json")))["claims"]
    assert {each["gang"]["name"]: tuple(each["nodes"]) for each in taken} == moved
    assert "no move pays" in "\n".join(printed(capsys, f"{solve} 50"))
    assert "metronome" in "".join(printed(capsys, "simulate state --policies metronome"))
    said = "--migration-cost: four.yaml is no state of a cluster; leave it out"
    assert said in error_of(capsys, "allocate four.yaml --migration-cost 60")
