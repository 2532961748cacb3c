"""What the documents show is true: examples parse, verify and run; links lead somewhere."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.cli.app import COMMANDS
from metronome_opt.files.documents import parse_yaml
from metronome_opt.kubernetes.state import ClusterState, Store, read_request
from metronome_opt.kubernetes.state.placement import PlacementDecision, place_job
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario, locate, read_scenario
from metronome_opt.scenario.cluster_input import ClusterSpec, read_cluster
from metronome_opt.simulation import POLICIES, Conditions
from metronome_opt.simulation.generators import Draw
from metronome_opt.simulation.study import STUDIES, Study
from metronome_opt.solvers import SOLVERS
from metronome_opt.verify import verify_schedule
from tests.landscape import optimum

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "paper", "models", "benchmarks", "notebooks")
DOCUMENTS = [
    path.relative_to(ROOT).as_posix()
    for folder in (ROOT, *(ROOT / name for name in FOLDERS))
    for path in sorted(folder.glob("*.md"))
]


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def unnamed(document: str, names: Iterable[str]) -> list[str]:
    """Return those names that a document does not have in backticks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [name for name in names if f"`{name}`" not in text]


def test_the_files_shown_are_valid_and_true() -> None:
    instance_text, schedule_text = blocks("docs/model.md", "json")
    instance = Instance.from_dict(json.loads(instance_text))
    schedule = Schedule.from_dict(json.loads(schedule_text))
    assert verify_schedule(instance, schedule) == ()
    assert optimum(instance) == schedule.lower_bound


def test_the_cluster_s_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/cluster.md", "python")
    exec(code, {})
    (placed,) = capsys.readouterr().out.splitlines()
    assert placed.count("node-") == 8
    with Store(tmp_path / "state") as store:
        assert list(store.state.reservations) == ["vgg19-a"]


def test_the_cluster_shown_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    (shown,) = [block for block in text.split("\n\n") if "format: metronome-cluster/1" in block]
    (tmp_path / "cluster.yaml").write_text(textwrap.dedent(shown), encoding="utf-8")
    spec = read_cluster(tmp_path / "cluster.yaml")
    assert [node.has.gpus for node in spec.nodes] == [4, 4]


def test_the_scenarios_shown_are_some() -> None:
    (readme,) = blocks("README.md", "yaml")
    text = (ROOT / "models/README.md").read_text(encoding="utf-8")
    shown = [
        textwrap.dedent(part) for part in re.findall(r"(?:^    .*\n|^\n)+", text, re.MULTILINE)
    ]
    (shortest,) = [part for part in shown if "format: metronome-scenario/1" in part]
    for scenario, jobs in ((readme, 2), (shortest, 2)):
        built = nearest(Scenario.from_dict(parse_yaml(scenario)))
        assert (len(built.instance.jobs), built.waiting) == (jobs, ())


def test_the_jobs_shown_find_a_place(tmp_path: Path) -> None:
    text = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    shown = [block for block in text.split("\n\n") if "    format: metronome-job/1" in block]
    assert len(shown) == 2
    scenario = read_scenario(locate("paper-24"))
    spec = ClusterSpec.of_cluster("paper-24", scenario.cluster, slot_ms=5, hyperperiod_ms=1500)
    for block in shown:
        (tmp_path / "job.yaml").write_text(textwrap.dedent(block), encoding="utf-8")
        asked = read_request(tmp_path / "job.yaml", spec)
        assert isinstance(place_job(ClusterState(spec), asked), PlacementDecision)


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("docs/reference.md", [f"metronome {name}" for name in COMMANDS]),
        ("docs/solvers.md", [*SOLVERS, *POLICIES]),
        ("docs/model.md", [*POLICIES, *Conditions.model_fields]),
        (
            "benchmarks/README.md",
            [
                *(path.stem for path in (ROOT / STUDIES).glob("*.yaml")),
                *(set(Study.model_fields) - {"format"}),
                *Draw.model_fields,
            ],
        ),
    ],
)
def test_names_are_explained(document: str, names: list[str]) -> None:
    assert unnamed(document, names) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_files_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (ROOT / document).parent.joinpath(target).exists(), target


@pytest.mark.parametrize(
    ("document", "expected"),
    [("README.md", "vgg19"), ("docs/howto.md", ": optimal"), ("docs/tutorial.md", "")],
)
def test_the_python_of_a_document_runs(
    document: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {"__name__": "my_package"}
    for code in blocks(document, "python"):
        exec(code.replace("time_limit=10", "time_limit=1"), names)
    assert expected in capsys.readouterr().out


@pytest.mark.slow
def test_the_commands_of_the_tutorial_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    for text in blocks("docs/tutorial.md", "yaml"):
        name = text.partition("metronome-")[2].partition("/")[0]
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    (solver,) = (code for code in blocks("docs/tutorial.md", "python") if "def uniform" in code)
    (tmp_path / "mine.py").write_text(solver, encoding="utf-8")
    for command in "".join(blocks("docs/tutorial.md", "sh")).splitlines():
        shorter = command.replace("--time-limit 10", "--time-limit 2")
        monkeypatch.setattr(sys, "argv", shorter.split())
        assert main() == 0, (command, capsys.readouterr().err)
