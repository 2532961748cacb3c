"""The commands `init` and `validate`: a scenario of one's own, from nothing to a schedule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.instance import write_instance
from tests.builders import two_jobs

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    assert main(["init", str(path)]) == 0
    return path


def test_what_init_writes_is_a_scenario_that_solves(mine: Path, capsys: Captured) -> None:
    assert yaml.safe_load(mine.read_text())["name"] == "mine"
    assert main(["validate", str(mine)]) == 0
    said, *table = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{mine}: a scenario: 4 nodes, 4 jobs on 6 links; slots of 5 ms, all")
    language = " ".join(table[-1].split())
    assert language == "language 1 2 GPT1 1,012.3 1,015 1 4,973 node-00, node-01"
    assert main(["solve", str(mine), "--objectives", "contention"]) == 0
    printed = capsys.readouterr().out
    assert "optimal, contention 0" in printed
    assert "node-00, node-01, node-02 and 1 more" in printed


def test_a_page_tells_where_jobs_run(mine: Path) -> None:
    schedule, page = mine.with_name("s.json"), mine.with_name("page.html")
    assert (
        main(
            [
                "solve",
                str(mine),
                "--solver",
                "greedy",
                "--objectives",
                "contention",
                "--output",
                str(schedule),
            ]
        )
        == 0
    )
    assert main(["report", str(schedule), "--output", str(page)]) == 0
    text = page.read_text()
    assert text.count('"where":"node-00, node-01, node-02 and 1 more"') == 3
    assert text.count('"where":"node-00, node-01"') == 1


def test_the_first_line_names_a_schema_that_is_there(mine: Path) -> None:
    first = mine.read_text().splitlines()[0]
    place = first.removeprefix("# yaml-language-server: $schema=file://")
    assert json.loads(Path(place).read_text())["properties"]["jobs"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.yaml", "mine.yaml: is there already; name another file"),
        ("mine.json", "mine.json: the example is YAML; name a file that ends in .yaml"),
        ("nowhere/mine.yaml", "mine.yaml: cannot be written"),
    ],
)
def test_init_writes_over_nothing(mine: Path, name: str, said: str, capsys: Captured) -> None:
    before = mine.read_bytes()
    capsys.readouterr()
    assert main(["init", str(mine.parent / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert mine.read_bytes() == before
    assert [path.name for path in mine.parent.iterdir()] == ["mine.yaml"]


def test_validate_tells_what_kind_of_file_it_is(tmp_path: Path, capsys: Captured) -> None:
    instance, schedule = tmp_path / "two-jobs.json", tmp_path / "s.json"
    write_instance(two_jobs(), instance)
    assert (
        main(
            [
                "solve",
                str(instance),
                "--solver",
                "greedy",
                "--objectives",
                "contention",
                "--output",
                str(schedule),
            ]
        )
        == 0
    )
    job, cluster, workload = (tmp_path / f"{kind}.json" for kind in ("job", "cluster", "own"))
    head = {"format": "metronome-job/1", "name": "new"}
    job.write_text(json.dumps({**head, "model": "VGG19", "batch": 64, "workers": 2}))
    node = {"name": "n", "has": {"gpus": 4}, "interface": "nic"}
    cluster.write_text(
        json.dumps(
            {
                "format": "metronome-cluster/1",
                "name": "one",
                "slot_ms": 5,
                "nodes": [node],
                "links": [{"name": "nic", "capacity": 50_000}],
            }
        )
    )
    assert main(["validate", str(job)]) == 0
    expected = {
        instance: "an instance: 2 jobs on 1 link; slots of 5 ms, all repeats after",
        schedule: "a schedule of two-jobs",
        job: "a job: new",
        cluster: "a cluster: 1 node",
    }
    for path, said in expected.items():
        capsys.readouterr()
        assert main(["validate", str(path)]) == 0
        assert f"{path}: {said}" in capsys.readouterr().out
    workload.write_text(json.dumps({**head, "format": "metronome-workload/1"}))
    assert main(["validate", str(workload)]) == 2
    assert "own.json: about: missing" in capsys.readouterr().err


def test_notes_go_to_standard_error_and_json_has_them(mine: Path, capsys: Captured) -> None:
    text = mine.read_text().replace("nic_gbps: 50", "nic_gbps: 12.5")
    mine.write_text(text.replace("period_ms: 200", "period_ms: 199.3"))
    capsys.readouterr()
    assert main(["validate", str(mine), "--json"]) == 0
    printed = capsys.readouterr()
    notes = json.loads(printed.out)["notes"]
    assert printed.err.splitlines() == [f"note: {note}" for note in notes]
    assert notes[0].startswith("job vision-a overloads rack-0-uplink by itself: 2 x 20,000 Mbit/s")


def test_validate_lists_faults(mine: Path, capsys: Captured) -> None:
    mine.write_text(mine.read_text().replace("workers: 4, priority: 2", "worker: 4, priority: 2"))
    capsys.readouterr()
    assert main(["validate", str(mine)]) == 2
    unknown, missing = capsys.readouterr().err.splitlines()
    assert unknown.endswith("jobs[0].worker: unknown field (perhaps workers), got 4")
    assert missing.endswith("jobs[0].workers: missing")
    mine.write_text("format: metronome-schedule/2\n")
    assert main(["validate", str(mine)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "mine.yaml: format: must be one of 'metronome-scenario/1', " in line
    assert line.endswith("got 'metronome-schedule/2'")
