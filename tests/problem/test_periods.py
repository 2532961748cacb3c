"""Long hyperperiods are stretched or allowed for slowdown, and refused for contention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt import allocate, compare, pareto, solve
from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance, write_instance
from metronome_opt.problem.schedule import read_schedule
from metronome_opt.solvers.registry import SOLVERS
from metronome_opt.verify import verify_schedule
from tests.builders import evaluation_of, job, network

NEAR = (388, 396, 404, 412)
LATE = "need a hyperperiod of 399600036 slots on link 'link', above the limit of 1000000; coarsen"


def near(length: int, *periods: int, rate: int = 100) -> Instance:
    """Return jobs of some periods with a burst each, on one link of 100 Mbit/s."""
    return network(*(job(f"j{p}", p, (0, length, rate)) for p in periods))


@pytest.mark.parametrize(
    ("length", "periods"),
    [
        (80, NEAR),
        (90, NEAR),
        pytest.param(45, (*NEAR, 391, 398, 401, 408), marks=pytest.mark.slow),
    ],
)
def test_nearly_equal_periods_are_stretched_to_one(length: int, periods: tuple[int, ...]) -> None:
    instance = near(length, *periods)
    assert instance.needs_stretch
    result = allocate(instance, time_limit=None, threads=1)
    # All fit one period from 412 on: bursts of 98 with a cushion of 2 % of 388, or of 53 eight
    # times, which is 424.
    slots = {job.period + result.stretch[job.name] for job in instance.jobs}
    assert len(slots) == 1
    assert 412 <= min(slots) <= 424
    assert all((result.schedule.gated or {}).values())
    free = allocate(instance, time_limit=None, threads=1, stretch_limit=0)
    assert not any((free.schedule.gated or {}).values())
    assert (result.value or 9) < (free.value or 0) - 0.05
    assert (
        verify_schedule(instance, result.schedule) == verify_schedule(instance, free.schedule) == ()
    )
    # Stretched, the link repeats; free, it does not.
    assert evaluation_of(result).contention == 0
    assert "contention" not in free.schedule.objectives
    assert free.evaluation is None
    assert compare([result, free])["contention"].isna().tolist() == [False, True]


@pytest.mark.slow
def test_links_have_different_periods() -> None:
    others = (305, 311, 317, 331)
    jobs = [
        *near(80, *NEAR).jobs,
        *(job(f"k{p}", p, (0, 65, 100), links={"other": 1}) for p in others),
    ]
    result = allocate(network(*jobs, other=100), time_limit=None, threads=1)
    gated = result.schedule.gated or {}
    links: dict[str, list[int]] = {"link": [], "other": []}
    for each in result.instance.jobs:
        if gated[each.name]:
            links[min(each.links)].append(each.period + result.stretch[each.name])
    (first,), (second,) = set(links["link"]), set(links["other"])
    assert first != second
    assert min(map(len, links.values())) >= 3


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_contention_needs_hyperperiod(solver: str) -> None:
    for objective in ("contention", "latency"):
        with pytest.raises(InputError, match=LATE):
            solve(near(80, *NEAR), solver, objective)


def test_fronts_need_hyperperiod() -> None:
    with pytest.raises(InputError, match=LATE):
        pareto(near(80, *NEAR), ("contention", "latency"))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(("length", "gated"), [(80, True), (1, False)])
def test_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, length: int, gated: bool
) -> None:
    file, answer = tmp_path / "near.json", tmp_path / "answer.json"
    # A number of more than 4,300 digits is no text in Python.
    write_instance(near(1, *range(10**6 - 1500, 10**6)), file)
    assert run(capsys, "validate", file)[0] == 0
    write_instance(near(length, *NEAR), file)
    code, out, _ = run(capsys, "validate", file)
    assert (code, "some link repeats after more than 1,000,000 slots" in out) == (0, True)
    code, _, err = run(capsys, "allocate", file, "--output", answer, "--threads", 1)
    assert (code, "contention and latency were not computed" in err) == (0, not gated)
    assert any((read_schedule(answer).gated or {}).values()) == gated
    assert run(capsys, "verify", file, answer)[0] == 0
    assert run(capsys, "claims", file, answer, "--output", tmp_path / "claims")[0] == 0
    code, _, err = run(capsys, "report", answer, file, "--output", tmp_path / "page.html")
    assert (code, LATE in err) == ((0, False) if gated else (2, True))
    for each in (["export", file, "--format", "lp"], ["solve", file, "--objectives", "latency"]):
        code, _, err = run(capsys, *each)
        assert (code, err.count("\n"), LATE in err) == (2, 1, True)
    # Bursts of one slot of four jobs avoid one another modulo 4; those of 80 do not.
    assert run(capsys, "fit", file, "--output", answer)[0] == (1 if gated else 0)
    assert run(capsys, "verify", file, answer)[0] == 0
    code, out, _ = run(capsys, "fit", file, "--drop", "--json")
    assert (code, json.loads(out)["cost"]) == (0, "3" if gated else "0")


def test_fronts_of_slowdown_omit_unknown_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "near.json"
    write_instance(near(1, *NEAR), file)
    options = ("--objectives", "slowdown,delay", "--output", tmp_path / "front")
    assert run(capsys, "pareto", file, *options)[0] == 0
    table = (tmp_path / "front" / "front.csv").read_text().splitlines()
    assert table[0] == "point,schedule,slowdown,slowdown_float,delay,delay_float"
