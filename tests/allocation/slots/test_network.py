"""Plans and iteration times hold for the network of the problem."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import Instance, read_schedule, solve, write_instance
from metronome_opt.__main__ import main
from metronome_opt.allocation.slots.iteration_times import IterationTimes, iteration_times
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.simulation import simulate_schedule
from tests.allocation.slots.cases import (
    assert_sound,
    expected_of,
    gated_jobs,
    minimum,
    unshifted_of,
)
from tests.builders import job, network
from tests.scenario.examples import scenario

MEETING = network(*(job(name, 42, (0, 16, 40_000)) for name in "ab"), capacity=50_000)
"""Two jobs of 210 ms, which send for 80 ms at 40 Gbit/s on a link of 50.

From one beginning on each gets 25 Gbit/s, and takes 258 ms as long as they meet wholly; where they
begin is not known. Over TCP they part for good.
"""

Captured = pytest.CaptureFixture[str]


def unshifted_ms(**options: Any) -> float:
    result = minimum(MEETING, **options)
    return float(unshifted_of(result)["a"])


def test_jobs_that_meet_are_gated_where_links_are_shared_fairly() -> None:
    result = minimum(MEETING)
    assert_sound(result, "a b", within_loss=True)
    # A burst that begins d slots after the other takes 9.6 - 0.6 d slots longer, as does the other.
    # The mean of that over all d, from 0 to 42, is 3.66 slots.
    assert unshifted_ms() == pytest.approx(210 + 5 * 3.66, rel=0.02)
    for expected in expected_of(result).values():
        assert float(expected) == pytest.approx(212, abs=1)


def test_jobs_that_part_by_themselves_are_not_gated_over_tcp() -> None:
    for result in (minimum(MEETING, network="tcp"), minimum(MEETING.replace(network="tcp"))):
        assert_sound(result, "")
        assert float(expected_of(result)["a"]) == pytest.approx(210.3, abs=0.5)
    # 223.6 ms, the mean of both, is an iteration on neither network.
    assert unshifted_ms(network="tcp") == pytest.approx(210.3, abs=0.5)


def test_the_argument_goes_before_the_problem() -> None:
    over_tcp = MEETING.replace(network="tcp")
    result = minimum(over_tcp, network="fair")
    assert gated_jobs(result) == "a b"
    assert (result.schedule.network, result.instance.network) == ("fair", "fair")
    assert minimum(over_tcp).schedule.network is None


def test_times_are_those_of_the_network() -> None:
    plan = Plan(MEETING.unshifted)
    fair, tcp = (iteration_times(MEETING, plan, each)["a"] for each in ("fair", "tcp"))
    assert iteration_times(MEETING, plan)["a"] == fair
    assert iteration_times(MEETING.replace(network="tcp"), plan)["a"] == tcp
    assert float(fair) > 220
    assert float(tcp) < 212
    over_tcp = MEETING.replace(network="tcp")
    schedule = solve(over_tcp).schedule
    assert IterationTimes.simulated(over_tcp, schedule).before["a"] == tcp


def test_documents_state_another_network_alone() -> None:
    assert "network" not in MEETING.to_dict()
    strict = MEETING.replace(network="strict")
    assert strict.to_dict()["network"] == "strict"
    assert Instance.from_dict(strict.to_dict()) == strict
    assert strict.replace(jobs=strict.jobs[:1]).network == "strict"
    with pytest.raises(InputError) as caught:
        Instance.from_dict({**MEETING.to_dict(), "network": "rdma"})
    assert "network: must be 'fair', 'tcp', 'weighted' or 'strict', got 'rdma'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_instances_of_scenarios_know_the_network_of_the_cluster() -> None:
    document = scenario()
    assert build_problem(Scenario.from_dict(document)).instance.network == "fair"
    document["cluster"]["network"] = "tcp"
    assert build_problem(Scenario.from_dict(document)).instance.network == "tcp"


def test_simulation_without_conditions_is_of_the_network() -> None:
    over_tcp = MEETING.replace(network="tcp")
    fair, tcp = (
        simulate_schedule(each, each.unshifted, iterations=40, enforce=False).jobs
        for each in (MEETING, over_tcp)
    )
    assert list(fair["iteration_mean_ms"]) == pytest.approx([258, 258])
    assert max(tcp["iteration_mean_ms"]) < 240


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "instance.json"
    write_instance(MEETING, path)
    return str(path)


def test_further_networks_are_columns(file: str, capsys: Captured, tmp_path: Path) -> None:
    out = tmp_path / "schedule.json"
    assert main(["allocate", file, "--network", "tcp,fair", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "simulated on network tcp" in printed
    shown = re.search(r"^a +1 +[\d.]+ +([\d.]+) +([\d.]+) +([\d.]+) ", printed, re.M)
    assert shown is not None
    unshifted, expected, fair = map(float, shown.groups())
    assert expected == unshifted == pytest.approx(210.3, abs=0.5)
    assert fair > 220
    assert read_schedule(out).network == "tcp"
    assert main(["verify", file, str(out)]) == 0


@pytest.mark.parametrize("given", ["best", "fair,best"])
def test_unknown_networks_are_refused_in_a_line(given: str, file: str, capsys: Captured) -> None:
    assert main(["allocate", file, "--network", given]) == 2
    said = capsys.readouterr().err.strip()
    known = "fair, tcp, weighted, strict, gated"
    assert said.endswith(f"network: 'best' is not known; choose from {known}")
    assert "\n" not in said
