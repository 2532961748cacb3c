"""The demo: what its table says, and what it writes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

from metronome_opt import load, solve
from metronome_opt.__main__ import main
from metronome_opt.cli.demo import DEFAULT, SOLVERS, simulate
from metronome_opt.instance import Instance
from metronome_opt.report.tables import comparison_table, terminal
from metronome_opt.schedule import read_schedule
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import SAFE, Player, plays
from tests.builders import two_jobs

Captured = pytest.CaptureFixture[str]


def played(instance: Instance, sharing: str, plan: Plan) -> float:
    player = Player(instance, plays(1000, 4, (sharing,)))
    return player.value(player.slowdowns(plan))


@pytest.mark.slow
def test_demo_makes_everything_it_says(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "demo"
    assert main(["demo", "--output", str(folder), "--time-limit", "1"]) == 0
    printed, told = capsys.readouterr()
    table = printed[: printed.index("\nsolve: no time to simulate, for which")].splitlines()
    assert max(len(line) for line in table) <= 100
    rows = {line.split()[0]: line.split() for line in table if line.endswith(" s")}
    assert list(rows) == [*SOLVERS, DEFAULT]
    instance = load("paper-24").instance
    unshifted = [played(instance, sharing, Plan(instance.unshifted)) for sharing in SAFE]
    assert rows["unshifted"][5:7] == [f"{each:.3f}" for each in unshifted]
    for name, row in rows.items():
        by = np.array([float(each) for each in row[5:7]]) / unshifted
        if name in ("unshifted", "random", DEFAULT):  # nobody is gated
            assert by == pytest.approx([1, 1], abs=0.02)
        else:  # slots in which not all bursts fit
            assert np.all(by > 1.03)
    for name in ("overview.svg", "traffic.csv"):
        assert (folder / name).stat().st_size > 0
        assert f"wrote {folder / name}\n" in told
    assert "schedule.json: verified" in printed
    written, schedule = folder / "instance.json", folder / "schedule.json"
    assert main(["verify", str(written), str(schedule)]) == 0
    best = read_schedule(schedule).objectives["contention"]
    assert best is not None
    assert best < Fraction(170_000)  # greedy alone gets below that
    claims = yaml.safe_load_all((folder / "claims" / "claims.yaml").read_text())
    assert len(list(claims)) == 45  # workers in the scenario
    # A second run replaces the first.
    assert main(["demo", "--output", str(folder), "--time-limit", "0.2"]) == 0


def test_two_jobs_that_fit_are_played_as_fast_as_alone_once_apart() -> None:
    unshifted, separated = (
        simulate(solve(two_jobs(), name, "contention")) for name in ("unshifted", "greedy")
    )
    assert list(separated.values()) == pytest.approx([1, 1], abs=0.02)
    assert unshifted["fair"] > 1.02


def test_the_table_says_how_many_are_gated(capsys: Captured) -> None:
    kept = solve(two_jobs(), time_limit=10)
    values = simulate(kept)
    plan = Plan(kept.offsets, {"a": 40, "b": 20})
    assert values == {sharing: played(two_jobs(), sharing, plan) for sharing in SAFE}
    terminal().print(comparison_table({"solve": kept}, {"solve": values}))
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[5:11] == [*(f"{each:.3f}" for each in values.values()), "2", "gated", "-", "-"]
