"""Figures beside published numbers: what runs get done, their means and the best run."""

from itertools import product
from pathlib import Path

import pytest

from benchmarks.evaluation.blocks import published
from benchmarks.evaluation.plan import Part, read_plan
from benchmarks.evaluation.published import PUBLISHED, UNKNOWN, computing_share, published_figures
from benchmarks.evaluation.recorded import read_part, record_part
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import split_study
from tests.bench.simulation_examples import job, simulation

SECONDS = {"default": (100.0, 100.0), "metronome": (80.0, 50.0)}
RUNS = [
    simulation(policy, [job("a", completion_s=took)], seed=seed)
    for policy, times in SECONDS.items()
    for seed, took in enumerate(times)
]


def test_means_are_over_seeds_and_the_best_run_stands_beside() -> None:
    """20 and 50 % shorter, or 1.25 and 2 times as fast."""
    shorter = published_figures("published-metronome", RUNS)
    key = "published-metronome/as-published/metronome/default/completion"
    assert shorter[key].mean == pytest.approx(35)
    assert shorter[f"{key}/most"].mean == pytest.approx(50)
    factors = published_figures("published-cassini", RUNS)
    key = "published-cassini/as-published/metronome/default/times"
    assert factors[key].mean == pytest.approx(1.625)
    assert factors[f"{key}/most"].mean == pytest.approx(2)
    assert published_figures("one-link", RUNS) == {}


def test_policies_that_did_not_run_are_dashes() -> None:
    figures = published_figures("published-metronome", RUNS)
    lines = published(figures).splitlines()
    (row,) = (line for line in lines if line.startswith("| Metronome: completion"))
    assert [cell.strip() for cell in row.split("|")[3:-1]] == [
        "`metronome`",
        "35.0 ±190.6, up to 50.0 %",
        "-",
        "-",
    ]


def test_computing_counts_jobs_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 GPUs until 10 s, when the job of the one policy ends, and that of the other is half done.

    All iterations of 100 compute for 2 of 10 s on 32 GPUs.
    """
    monkeypatch.setattr("benchmarks.evaluation.published._compute_s", lambda *_: {"a": 0.02})
    runs = [
        simulation(
            policy,
            [job("a", gpus=32, iterations=100, completion_s=took)],
            study="published-crux",
        )
        for policy, took in {"default": 20.0, "crux": 10.0}.items()
    ]
    share = computing_share(split_study(runs)[0], runs).droplevel(["cell", "seed"])
    assert share.to_dict() == pytest.approx({"default": 0.05, "crux": 0.1})


def test_tails_of_iterations_are_kept(tmp_path: Path) -> None:
    """Of two jobs at 1.5 and 2.5 times their ideal, and of two at 1.0."""
    runs = [
        simulation(
            policy,
            [
                job(name, iteration_p99_ms=100 * tail)
                for name, tail in zip("ab", tails, strict=True)
            ],
            seed=seed,
        )
        for seed, (policy, tails) in product(
            range(2), {"default": (1.5, 2.5), "mltcp": (1.0, 1.0)}.items()
        )
    ]
    record_part("published-mltcp", runs, ["x"], 4, tmp_path)
    read = read_part("published-mltcp", SimulationRecord, tmp_path)
    figures = published_figures("published-mltcp", read)
    key = "published-mltcp/as-published/mltcp/default/iteration_p99"
    assert figures[key].mean == pytest.approx(2)


def test_parts_simulate_what_is_published() -> None:
    plan = read_plan()
    assert {line.part for line in PUBLISHED} == {name for name in plan if "published" in name}
    assert {line.what.partition(":")[0] for line in PUBLISHED} == set(UNKNOWN)
    for line in PUBLISHED:
        part = plan[line.part]
        assert isinstance(part, Part)
        assert set(line.policies) <= set(part.policies)
