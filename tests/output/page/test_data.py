"""A page embeds its data without loss, and refuses false schedules."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import load
from metronome_opt.errors import InputError
from metronome_opt.kubernetes import VerificationError
from metronome_opt.output.page.sources import find_problem, read_points
from metronome_opt.problem.instance import write_instance
from metronome_opt.problem.schedule import write_schedule
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import job, network, two_jobs
from tests.output.page.making import page_of, schedule_of


def data_of(text: str) -> Any:
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(block)


def test_equal_schedules_make_equal_bytes() -> None:
    schedule = schedule_of(two_jobs(), {"a": 0, "b": 8})
    assert page_of(two_jobs(), schedule) == page_of(two_jobs(), schedule)


def test_page_has_verified_values_before_and_after() -> None:
    instance = two_jobs()
    schedule = schedule_of(instance, {"a": 0, "b": 8}, status="optimal", lower_bound=Fraction(0))
    (point,) = data_of(page_of(instance, schedule))["points"]
    # Two bursts of 8 slots meet once in 40 slots, 30,000 Mbit/s too much.
    assert point["before"]["contention"] == "6000"
    assert point["truth"]["contention"] == "0"
    assert (point["lower_bound"], point["gap"]) == ("0", "0")
    assert json.loads(point["document"]) == schedule.to_dict()


def test_page_has_simulated_iteration_times() -> None:
    instance = two_jobs()
    together, apart = (schedule_of(instance, {"a": 0, "b": offset}) for offset in (0, 8))
    data = data_of(page_of(instance, together, apart))
    # Unshifted they meet, and are late on two networks by chance; apart they keep their periods.
    assert min(data["before_ms"]) > 100
    assert data["before_ms"] != pytest.approx([200, 100], rel=0.03)
    assert data["points"][1]["times_ms"] == pytest.approx([200, 100], rel=0.03)
    assert data["points"][0]["times_ms"] != data["points"][1]["times_ms"]


def test_stated_times_before_are_not_simulated_again() -> None:
    instance = two_jobs()
    schedule = schedule_of(instance, {"a": 0, "b": 8})
    stated = schedule.model_copy(update={"before_ms": {"a": Fraction(300), "b": Fraction(150)}})
    data = data_of(page_of(instance, stated))
    assert (data["before_ms"], data["slowdown"]) == ([300, 150], "1.5000")


def test_values_before_include_cushion() -> None:
    instance = two_jobs()
    schedule = schedule_of(instance, {"a": 0, "b": 8}, cushion_slots=1)
    (point,) = data_of(page_of(instance, schedule))["points"]
    before = evaluate(instance, instance.unshifted, cushion_slots=1)
    assert point["before"]["contention"] == str(before.contention)


def test_page_has_stated_slowdown() -> None:
    instance = two_jobs()
    schedule = schedule_of(
        instance,
        {"a": 0, "b": 8},
        {"b": 5},
        stretch_limit=Fraction(1, 4),
        gated={"a": False, "b": True},
        expected_ms={"a": Fraction(200), "b": Fraction(125)},
        objectives={"slowdown": Fraction(21, 20)},
        lower_bound=Fraction(1),
    )
    assert verify_schedule(instance, schedule) == ()
    data = data_of(page_of(instance, schedule))
    (point,) = data["points"]
    assert (point["truth"]["slowdown"], point["gap"]) == ("21/20", "1/21")
    assert point["stretch_limit"] == "1/4"


def test_numbers_beyond_browser_precision_are_refused() -> None:
    instance = network(job("a", 100, (0, 50, 10**14)))
    with pytest.raises(InputError, match=r"link 'link': may be asked for 1.* use coarser slots"):
        page_of(instance, schedule_of(instance, {"a": 0}))


# ------------------------------------------------------------------ one file


def test_page_is_self_contained() -> None:
    text = page_of(two_jobs(), schedule_of(two_jobs(), {"a": 0, "b": 8}))
    addresses = set(re.findall(r"\w+://[\w./]*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a location
    assert not re.search(r"""\b(?:src|srcset|action)=|url\((?!#)|@import|style=""", text)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digests = [
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        for each in (script, style)
    ]
    assert policy.startswith(
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}';"
    )
    assert "unsafe" not in policy


def test_names_cannot_end_script() -> None:
    name = "</script><script>alert(1)</script>"
    instance = network(job(name, 8, (0, 4, 60))).replace(name=name)
    text = page_of(instance, schedule_of(instance, {name: 0}))
    assert text.count("<script") == text.count("</script>") == 2
    assert data_of(text)["instance"]["jobs"][0]["name"] == name


# ------------------------------------------------------------------ sources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write_schedule(schedule_of(two_jobs(), {"a": 0, "b": 8}), tmp_path / "schedule.json")
    return tmp_path


@pytest.mark.parametrize("place", [".", "elsewhere"])
def test_instance_is_read_beside_schedule_or_in_working_directory(folder: Path, place: str) -> None:
    others = network(job("c", 8, (0, 4, 60))).replace(name="two-jobs")
    write_instance(others, folder / "a.json")  # of that name, but the schedule is not true of it
    (folder / "broken.json").write_text('{"format": "metronome-instance/1", "name": "two-jobs"')
    write_instance(two_jobs().replace(name="other"), folder / "other.json")
    write_instance(two_jobs(), folder / place / "z.json")
    assert find_problem(read_points(folder / "schedule.json")).instance == two_jobs()


def test_shipped_scenario_is_read_by_name(folder: Path) -> None:
    instance = load("paper-24").instance
    write_schedule(schedule_of(instance, instance.unshifted), folder / "s.json")
    write_instance(instance, folder / "instance.json")
    assert find_problem(read_points(folder / "s.json")).placed is not None


def test_missing_instance_is_refused_with_remedy(folder: Path) -> None:
    with pytest.raises(InputError, match=r"called 'two-jobs' is shipped.*second argument"):
        find_problem(read_points(folder / "schedule.json"))


def test_false_schedule_is_refused(folder: Path) -> None:
    write_instance(two_jobs(), folder / "two.json")
    false = schedule_of(two_jobs(), {"a": 0, "b": 8}, objectives={"contention": Fraction(1)})
    write_schedule(false, folder / "schedule.json")
    for given in (None, folder / "two.json"):
        with pytest.raises(
            VerificationError, match=r"objectives\.contention: stated 1, but it is 0"
        ):
            find_problem(read_points(folder / "schedule.json"), given)


def test_schedules_of_folder_are_sorted_by_name(folder: Path) -> None:
    write_schedule(schedule_of(two_jobs(), {"a": 0, "b": 9}), folder / "point-002.json")
    (folder / "front.json").write_text("{}")
    (folder / "front.csv").write_text("point\n")
    points = read_points(folder)
    assert [point.path.name for point in points] == ["point-002.json", "schedule.json"]


def test_folder_without_schedules_or_of_several_instances_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"elsewhere: no file .* metronome-schedule/1"):
        read_points(folder / "elsewhere")
    other = network(job("c", 8, (0, 4, 60)))
    write_schedule(schedule_of(other, {"c": 0}), folder / "other.json")
    with pytest.raises(InputError, match=r"schedule\.json: instance differs from other\.json"):
        read_points(folder)
