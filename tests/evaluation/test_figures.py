"""Figures of made up records, and the documents that show recorded ones."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from benchmarks.evaluation.blocks import BLOCKS
from benchmarks.evaluation.figures import DECISIONS, Figures, part_figures, variant
from benchmarks.evaluation.plan import HOME, SMALL_SEEDS, Part, read_plan
from benchmarks.evaluation.recorded import RECORDS, read_index, read_part, record_part
from benchmarks.evaluation.written import documents, figures_of, read_figures
from metronome_opt.bench.simulations import SimulationRecord, checksum
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from metronome_opt.simulation.study import find_study
from tests.bench.simulation_examples import job, simulation

# By what factor each decision shortens completion, whatever the others are.
FACTORS = {"places": 0.9, "waits": 0.95, "slots": 0.98}
SEEDS = 4
PART = Part(study="topologies", policies=("nearest", "metronome"), seeds=SEEDS, small=("",))


def records() -> list[SimulationRecord]:
    """Return runs in which decisions multiply."""
    seconds = {"nearest": 100.0, "default": 125.0}
    for count in range(1, 2 ** len(DECISIONS)):
        chosen = [name for at, name in enumerate(DECISIONS) if count >> at & 1]
        seconds[variant(chosen)] = 100.0 * math.prod(FACTORS[name] for name in chosen)
    chance = random.Random(3)
    scale = {seed: chance.uniform(0.5, 2) for seed in range(SEEDS)}
    return [
        simulation(
            policy,
            [job(name, completion_s=each, end_s=each) for name in "ab"],
            seed=seed,
            cell={"cluster": cluster, "sharing": "tcp"},
            study="topologies",
            conditions=Conditions(sharing="tcp"),
        )
        for cluster, seed, policy in product(["2x2-2to1"], range(SEEDS), seconds)
        for each in [seconds[policy] * scale[seed]]
    ]


@pytest.fixture(scope="module")
def found() -> Figures:
    return part_figures("topologies", PART, records())


def test_decisions_that_multiply_bring_their_factors_in_any_order(found: Figures) -> None:
    for decision, factor in FACTORS.items():
        for order in ("first", "last", "shapley"):
            figure = found[f"topologies/gpus=2/{decision}/{order}"]
            assert figure.mean == pytest.approx(100 * math.log(factor))
            assert figure.low == pytest.approx(figure.high)


def test_changes_are_in_pairs_of_runs_of_one_scenario(found: Figures) -> None:
    """Seeds differ by a factor of up to four, pairs by none."""
    together = 100 * (math.prod(FACTORS.values()) - 1)
    assert found["topologies/all/metronome/completion"] == pytest.approx([together] * 3)
    assert found["topologies/uplinks=2to1,sharing=tcp/packing"] == pytest.approx([-20.0] * 3)


def test_few_of_many_cells_that_differ_by_chance_do_not_count() -> None:
    """Of fifteen cells without a difference about one is below 5 % by themselves."""
    chance = random.Random(1)
    runs = [
        simulation(
            policy,
            [job("a", completion_s=each, end_s=each)],
            seed=seed,
            cell={"load": load},
            study="x",
            conditions=Conditions(),
        )
        for load, seed, policy in product(range(15), range(6), ["nearest", "metronome"])
        for each in [100 * math.exp(chance.gauss(0, 0.1))]
    ]
    found = part_figures("x", PART, runs)
    assert found["x/metronome/shorter"].mean == found["x/metronome/longer"].mean == 0


def test_records_are_kept_with_their_origin(tmp_path: Path) -> None:
    entry = record_part("part", records(), ["metronome simulate x"], 100, tmp_path)
    assert read_index(tmp_path).parts == {"part": entry}
    assert entry.records == len(records())
    assert entry.left == 100 - len(records())
    times = [record.jobs and record.jobs["completion_s"] for record in records()]
    read = read_part("part", SimulationRecord, tmp_path)
    kept = [record.jobs and record.jobs["completion_s"] for record in read]
    assert kept == [pytest.approx(each, rel=1e-6) for each in times]
    (tmp_path / "part.jsonl.xz").write_bytes(b"")
    with pytest.raises(InputError, match="is not the file of the index"):
        read_part("part", SimulationRecord, tmp_path)


STUDIES = {name: part for name, part in read_plan().items() if isinstance(part, Part)}


@pytest.mark.parametrize(("name", "part"), STUDIES.items())
def test_plan_names_studies_cells_and_policies(name: str, part: Part) -> None:
    study = find_study(part.study)
    for wanted in (*part.cells, *part.small):
        settings = dict(each.split("=") for each in wanted.split(",") if each)
        assert settings.keys() <= study.grid.keys(), name
        for key, value in settings.items():
            assert value in map(str, study.grid[key])
    assert study.model_copy(update={"policies": part.policies}).policies
    assert part.seeds > SMALL_SEEDS


def test_records_are_all_of_the_studies_as_they_are_or_of_those_before() -> None:
    """A run goes on from the former alone; of the latter the documents say what they are."""
    are_current = set()
    for name in (name for name in read_index().parts if name in STUDIES):
        if STUDIES[name].trace is None:
            (found,) = {each.study_sha256 for each in read_part(name, SimulationRecord)}
            are_current.add(found == checksum(find_study(STUDIES[name].study)))
    (is_current,) = are_current
    for page in ("README.md", "benchmarks/README.md"):
        assert ("traffic model before" in Path(page).read_text("utf-8")) != is_current


def test_documents_show_the_recorded_figures() -> None:
    """`python -m benchmarks.evaluation write` writes them."""
    for path, text, made in documents(read_figures()):
        assert text == made, path


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_nothing_are_dashes(block: str) -> None:
    assert "%" not in BLOCKS[block]({}) or block == "origin"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(read_index().parts))
def test_figures_are_those_of_the_records(name: str) -> None:
    kept = read_figures(RECORDS)
    for key, figure in figures_of(name, read_plan()[name]).items():
        assert [each is None for each in kept[key]] == [each is None for each in figure], key
        numbers = [each for each in figure if each is not None]
        assert [each for each in kept[key] if each is not None] == pytest.approx(numbers, rel=1e-4)


@pytest.mark.slow
def test_small_evaluation_runs(tmp_path: Path) -> None:
    words = ["run", "static", "one-link", "--small", "--seeds", "1", "--output", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.evaluation", *words]
    subprocess.run(command, cwd=HOME, check=True)
    figures = read_figures(tmp_path / "records")
    assert figures["static/failed"].mean == figures["one-link/failed"].mean == 0
    assert figures["one-link/all/ideal/running"].mean == pytest.approx(1, rel=1e-3)
    assert "metronome" in (tmp_path / "records" / "README.md").read_text()
