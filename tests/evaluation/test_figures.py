"""Figures of made up records, and the documents that show recorded ones."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from itertools import product
from math import prod
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks.evaluation import plan
from benchmarks.evaluation.blocks import BLOCKS
from benchmarks.evaluation.design import FACTORS, corners, is_balanced
from benchmarks.evaluation.figures import PLACES, SLOTS, SUBJECT, Figures, part_figures
from benchmarks.evaluation.plan import HOME, SMALL_SEEDS, Part, Race, read_plan, run_race
from benchmarks.evaluation.recorded import RECORDS, read_index, read_part, record_part
from benchmarks.evaluation.written import documents, figures_of, read_figures
from metronome_opt.bench.simulations import SimulationRecord, checksum
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from metronome_opt.simulation.study import find_study
from tests.bench.simulation_examples import job, simulation

# Seconds of a job under policies; runs of one seed differ by a factor of it.
SECONDS = {"default": 125.0, "nearest": 100.0, SLOTS: 98.0, PLACES: 90.0, SUBJECT: 88.2}
SEEDS = 4
PART = Part(study="regimes", policies=("nearest", "default", "metronome"), seeds=4, small=("",))


def records(seeds: int = SEEDS) -> list[SimulationRecord]:
    """Return runs of two cells in which decisions multiply; spines do nothing."""
    chance = random.Random(3)
    scale = {seed: chance.uniform(0.5, 2) for seed in range(seeds)}
    return [
        simulation(
            policy,
            [job(name, completion_s=each, end_s=each) for name in "ab"],
            seed=seed,
            cell={"cluster": cluster, "sharing": "tcp"},
            study="regimes",
            conditions=Conditions(sharing="tcp"),
            groups={"met": 4, "fitting": 2, "gated": 1},
        )
        for cluster, seed, policy in product(["2x2-2to1-1", "2x2-2to1-4"], range(seeds), SECONDS)
        for each in [SECONDS[policy] * scale[seed]]
    ]


@pytest.fixture(scope="module")
def found() -> Figures:
    return part_figures("regimes", PART, records())


@pytest.mark.parametrize(
    ("key", "percent"),
    [
        ("nearest/over-default", -20.0),
        (f"{PLACES}", -10.0),
        (f"{SLOTS}", -2.0),
        ("metronome", -11.8),
        ("metronome/over-default", -29.44),
        ("slots/last", -2.0),
        ("places/last", -10.0),
    ],
)
def test_changes_are_per_cents_in_pairs_of_runs(found: Figures, key: str, percent: float) -> None:
    """Seeds differ by a factor of up to four, pairs by none."""
    for label in ("all", "gpus=2", "spines=4", "gpus=2,uplinks=2to1,spines=1,sharing=tcp"):
        assert found[f"regimes/{label}/{key}/completion"] == pytest.approx([percent] * 3)


def test_cells_that_a_policy_saturates_are_apart() -> None:
    """Of three cells one is too much for `default`, and none for `nearest`."""
    seconds = {"default": (1.25, 2.5, 1.5), "nearest": (1.0, 1.9, 1.2), "ideal": (1.0, 1.0, 1.0)}
    runs = [
        simulation(
            policy,
            [job("a", completion_s=100 * factor, end_s=100 * factor)],
            seed=seed,
            cell={"load": load},
            study="x",
            conditions=Conditions(),
        )
        for policy, factors in seconds.items()
        for seed, (load, factor) in product(range(2), enumerate(factors))
    ]
    found = part_figures("x", PART.model_copy(update={"policies": tuple(seconds)}), runs)
    assert found["x/all/default/saturated"].mean == 1
    assert found["x/all/nearest/saturated"].mean == 0
    assert (found["x/all/stable"].mean, found["x/all/over-default/stable"].mean) == (3, 2)
    stable = 100 * (math.sqrt(1 / 1.25 * 1.2 / 1.5) - 1)
    assert found["x/all/nearest/over-default/completion"].mean == pytest.approx(stable)
    apart = found["x/saturated/nearest/over-default/completion"].mean
    assert apart == pytest.approx(100 * (1.9 / 2.5 - 1))
    assert found["x/load=1/nearest/over-default/completion"].mean == pytest.approx(apart)


def test_groups_are_counted(found: Figures) -> None:
    counts = [found[f"regimes/all/metronome/{each}"].mean for each in ("met", "fitting", "gated")]
    assert counts == [4, 2, 1]


def test_single_seed_says_nothing() -> None:
    single = part_figures("regimes", PART, records(1))
    counts = {"seeds", "cells", "runs", "failed", "saturated", "stable"}
    assert {key.rpartition("/")[2] for key in single} <= counts


def test_classes_have_slowdown_and_lateness_of_their_own() -> None:
    """Isolated jobs take 100 s, and queue for 20 s of their completion."""
    runs = [
        simulation(
            policy,
            [
                job("a", priority=1, completion_s=took, queueing_s=20.0, iteration_mean_ms=150.0),
                job("b", priority=4, completion_s=120.0, queueing_s=20.0),
            ],
            seed=seed,
            study="priority",
        )
        for seed, policy, took in product(range(2), ["nearest"], [170.0])
    ]
    found = part_figures("priority", PART, runs)
    assert found["priority/all/nearest/slowdown@1"].mean == pytest.approx(1.5)
    assert found["priority/all/nearest/slowdown@4"].mean == pytest.approx(1.0)
    assert found["priority/all/nearest/lateness@1"].mean == pytest.approx(1.7)
    assert found["priority/all/nearest/lateness@4"].mean == pytest.approx(1.2)


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
    counts = [found[f"x/all/metronome/{each}"].mean for each in ("shorter", "longer", "tested")]
    assert counts == [0, 0, 15]
    assert all(found[f"x/load={load}/metronome/p"].mean > 0.05 for load in range(15))


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
    assert set(part.chosen(small=True)) <= set(study.cells)
    assert part.planned() == part.seeds * len(part.policies) * len(part.chosen()), name
    assert study.model_copy(update={"policies": part.policies}).policies
    assert part.seeds > SMALL_SEEDS


def test_map_is_a_balanced_fraction_of_its_grid() -> None:
    assert is_balanced(STUDIES["regimes"].cells)
    assert STUDIES["corners"].cells == tuple(corners())
    assert len(set(corners())) == 16
    cells = len(find_study("regimes").cells)
    assert cells == math.prod(len(values) for values in FACTORS.values())


def test_records_are_of_the_studies_as_they_are() -> None:
    for name in (name for name in read_index().parts if name in STUDIES):
        if STUDIES[name].trace is None:
            found = {each.study_sha256 for each in read_part(name, SimulationRecord)}
            assert found == {checksum(find_study(STUDIES[name].study))}, name


def test_documents_show_the_recorded_figures() -> None:
    """`python -m benchmarks.evaluation write` writes them."""
    for path, text, made in documents(read_figures()):
        assert text == made, path


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_nothing_are_dashes(block: str) -> None:
    assert not re.search(r"\d\.\d+ [%±]", BLOCKS[block]({}))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(read_index().parts))
def test_figures_are_those_of_the_records(name: str) -> None:
    kept = read_figures(RECORDS)
    for key, figure in figures_of(name, read_plan()[name]).items():
        assert [each is None for each in kept[key]] == [each is None for each in figure], key
        numbers = [each for each in figure if each is not None]
        assert [each for each in kept[key] if each is not None] == pytest.approx(numbers, rel=1e-4)


@pytest.mark.slow
def test_contended_cells_are_all_that_the_rule_of_the_plan_names() -> None:
    """No contention gains 2 to 20 % there over `nearest`, in the first three seeds."""
    seconds: dict[tuple[str, str, int], float] = {}
    for each in read_part("regimes", SimulationRecord):
        assert each.jobs is not None
        cell = ",".join(f"{name}={value}" for name, value in each.cell.items())
        times = [float(time) for time in each.jobs["completion_s"] if time is not None]
        seconds[cell, each.policy, each.seed] = fmean(times)
    gains = {}
    for cell in STUDIES["regimes"].cells:
        ratios = (seconds[cell, "ideal", s] / seconds[cell, "nearest", s] for s in range(3))
        gains[cell] = 1 - prod(ratios) ** (1 / 3)
    contended = tuple(cell for cell, gain in gains.items() if 0.02 <= gain <= 0.2)
    assert contended == STUDIES["contended"].cells


@pytest.mark.slow
def test_small_evaluation_runs(tmp_path: Path) -> None:
    words = ["run", "one-link", "--small", "--output", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.evaluation", *words]
    subprocess.run(command, cwd=HOME, check=True)
    figures = read_figures(tmp_path / "records")
    assert figures["one-link/failed"].mean == 0
    assert figures["one-link/all/ideal/running"].mean == pytest.approx(1, rel=1e-3)
    assert "metronome" in (tmp_path / "records" / "README.md").read_text()


def test_race_makes_the_folder_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_run", lambda words: Path(words[-1]).write_text(""))
    race = Race(suites=("paper",), solvers=("auto",), time_limit=1, small=("paper",))
    run_race(race, tmp_path / "new" / "race.jsonl", small=True)
    assert (tmp_path / "new" / "race.jsonl").exists()
