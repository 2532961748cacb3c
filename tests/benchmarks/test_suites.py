"""The stored instances are what their generators make, and what their families say they are."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

import benchmarks.__main__
from benchmarks.families import FAMILIES, Case, Family
from benchmarks.families.family import cases
from benchmarks.stored import SUITES, differences, sha256, write_suite
from metronome_opt.bench.suites import Member, read_suite
from metronome_opt.instance import Instance, Job, Link, Phase

COUNTS = {  # test, tune
    "single": (21, 14),
    "paper": (20, 7),
    "dense": (14, 7),
    "fabric": (13, 5),
    "coprime": (8, 4),
    "weights": (8, 4),
    "kept": (12, 6),
}


@cache
def members(name: str) -> tuple[Member, ...]:
    """Read a stored suite; reading checks the checksums."""
    return tuple(read_suite(SUITES / name).members())


def loads(instance: Instance) -> dict[str, Fraction]:
    """Return mean demand over capacity of each link."""
    return {
        link.name: sum(
            (
                Fraction(job.links[link.name] * job.volume, job.period * link.capacity)
                for job in (instance.jobs[index] for index in instance.jobs_on[link.name])
            ),
            Fraction(0),
        )
        for link in instance.links
    }


def assert_no_job_overloads_a_link_alone(instance: Instance) -> None:
    capacity = {link.name: link.capacity for link in instance.links}
    for job in instance.jobs:
        for link, flows in job.links.items():
            assert flows * job.peak <= capacity[link], (instance.name, job.name, link)


# ------------------------------------------------------------------ all families


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_stored_files_are_what_the_generators_make_byte_for_byte(name: str) -> None:
    assert differences(FAMILIES[name]) == []


@pytest.mark.parametrize("name", FAMILIES)
def test_the_index_matches_the_family(name: str) -> None:
    found = members(name)
    splits = Counter(member.entry.split for member in found)
    assert (splits["test"], splits["tune"]) == COUNTS[name]
    for member, case in zip(found, FAMILIES[name].cases, strict=True):
        assert member.suite == name == member.entry.name.split("-")[0]
        assert member.instance.name == member.entry.name == case.name
        assert f"-{member.entry.split}-" in member.entry.name
        assert member.entry.version == FAMILIES[name].version


def test_tune_and_test_share_no_instance_and_no_seed() -> None:
    found = [member for name in FAMILIES for member in members(name)]
    problems = Counter(
        (member.instance.links, member.instance.jobs)  # whatever it is called
        for member in found
    )
    assert set(problems.values()) == {1}
    assert len({member.entry.name for member in found}) == len(found)
    for name in FAMILIES:
        seeds = Counter(
            member.entry.seed for member in members(name) if member.entry.seed is not None
        )
        assert set(seeds.values()) == {1}, name


@pytest.mark.parametrize("name", FAMILIES)
def test_every_job_bursts_on_a_link_and_none_overloads_one_alone(name: str) -> None:
    for member in members(name):
        assert all(job.links for job in member.instance.jobs)
        assert_no_job_overloads_a_link_alone(member.instance)


# ------------------------------------------------------------------ one by one


def test_single_has_one_link_with_the_stated_load() -> None:
    weights: dict[int, set[int]] = {}
    for member in members("single"):
        instance, stated = member.instance, member.entry.parameters
        assert len(instance.links) == 1
        assert len(instance.jobs) == stated["jobs"]
        (load,) = loads(instance).values()
        assert abs(load - Fraction(stated["load_percent"], 100)) < Fraction(1, 1000)
        assert 240 % instance.hyperperiods["link"] == 0
        assert all(1 <= len(job.phases) <= 3 for job in instance.jobs)
        drawn = {job.weight for job in instance.jobs}
        assert drawn == {1} if stated["weights"] == "equal" else drawn <= {1, 2, 4}
        weights.setdefault(stated["jobs"], set()).update(drawn)
    assert set(weights) == set(range(2, 9))
    assert all(drawn - {1} for drawn in weights.values())  # mixed weights at every size


def test_paper_places_the_thirteen_models_on_24_nodes() -> None:
    models = {job.name for job in members("paper")[-1].instance.jobs}
    assert members("paper")[-1].entry.name == "paper-tune-shipped"
    assert len(models) == 13
    placements = set()
    for member in members("paper")[:-1]:
        instance, stated = member.instance, member.entry.parameters
        assert {job.name for job in instance.jobs} == models
        assert sum(link.name.startswith("node-") for link in instance.links) == 24
        tasks: Counter[str] = Counter()
        for job in instance.jobs:
            nodes = {link: count for link, count in job.links.items() if link.startswith("node-")}
            assert set(nodes.values()) == {1}
            tasks.update(nodes)
            if stated["periods"] == "any":
                assert 300 % job.period == 0
        assert max(tasks.values()) <= stated["gpus"]
        placements.add(tuple(tuple(job.links) for job in instance.jobs))
    assert len(placements) == len(members("paper")) - 1


@pytest.mark.parametrize(
    ("name", "least", "most", "slots", "weights"),
    [("dense", 80, 95, 200, [1]), ("weights", 80, 105, 240, [1, 10, 100])],
)
def test_tangles_carry_three_to_six_jobs_a_link_at_the_stated_load(
    name: str, least: int, most: int, slots: int, weights: list[int]
) -> None:
    for member in members(name):
        instance, stated = member.instance, member.entry.parameters
        assert (len(instance.jobs), len(instance.links)) == (stated["jobs"], stated["links"])
        assert all(least <= 100 * load <= most for load in loads(instance).values())
        assert all(3 <= len(users) <= 6 for users in instance.jobs_on.values())
        assert all(slots % length == 0 for length in instance.hyperperiods.values())
        counts = Counter(job.weight for job in instance.jobs)
        assert sorted(counts) == weights
        assert max(counts.values()) - min(counts.values()) <= 1


def test_coprime_periods_make_long_hyperperiods_within_the_stated_limit() -> None:
    for member in members("coprime"):
        instance, stated = member.instance, member.entry.parameters
        longest = max(instance.hyperperiods.values())
        assert stated["hyperperiod"] // 2 <= longest <= stated["hyperperiod"] <= 1_000_000
        assert longest > 10 * max(job.period for job in instance.jobs)
        for job in instance.jobs:
            assert job.period in (137, 211) or math.gcd(job.period, 7 * 11 * 13) > 1
            assert job.max_stretch == -(-job.period // 20)


def test_fabric_is_a_leaf_spine_whose_jobs_cross_what_they_have_to() -> None:
    for member in members("fabric"):
        instance = member.instance
        nodes = member.entry.parameters["nodes"]
        assert len(instance.links) == nodes + nodes // 16
        assert len(instance.jobs) <= nodes * 500 // 900
        for link, users in instance.jobs_on.items():
            assert link.endswith("uplink") or len(users) <= 2
        for job in instance.jobs:
            tasks = [link for link in job.links if not link.endswith("uplink")]
            racks = Counter(int(link.removeprefix("node-")) // 16 for link in tasks)
            assert 2 <= len(tasks) <= 16
            crossed = {f"rack-{rack:02}-uplink": count for rack, count in racks.items()}
            expected = crossed if len(racks) > 1 else {}
            uplinks = {link: count for link, count in job.links.items() if link not in tasks}
            assert uplinks == expected
            gap = max(racks) - min(racks)
            assert gap in (0, 1, nodes // 16 - 1)  # neighbours on the ring


def test_fabric_loads_its_links_alike_at_all_sizes() -> None:
    by_size: dict[int, list[Instance]] = {}
    for member in members("fabric"):
        by_size.setdefault(member.entry.parameters["nodes"], []).append(member.instance)
    for size, instances in by_size.items():
        nics, uplinks, jobs = [], [], 0
        for instance in instances:
            found = loads(instance)
            shared = [name for name, users in instance.jobs_on.items() if len(users) > 1]
            nics += [float(found[name]) for name in shared if not name.endswith("uplink")]
            uplinks += [float(found[name]) for name in shared if name.endswith("uplink")]
            jobs += len(instance.jobs)
        assert 0.35 < sum(nics) / len(nics) < 0.42, size
        assert 0.35 < sum(uplinks) / len(uplinks) < 0.52, size
        assert 0.4 < jobs / (size * len(instances)) < 0.55, size


# ------------------------------------------------------------------ writing and checking


def tiny(name: str, seed: int, *, period: int = 4) -> Instance:
    """Return one job on one link."""
    burst = Phase(start=0, length=1, rate=10)
    job = Job(name="job", period=period, ready=seed, phases=(burst,), links={"link": 1})
    return Instance(name=name, slot_ms=5, links=(Link(name="link", capacity=10),), jobs=(job,))


FAMILY = Family(
    name="tiny",
    about="for tests",
    version=3,
    time_limit_s=1,
    cases=cases("tiny", "test", tiny, [("", {}), ("6", {"period": 6}), ("6", {"period": 6})])
    + cases("tiny", "tune", tiny, [("", {})]),
)


def test_cases_are_numbered_within_their_size_and_seeded_through_all() -> None:
    assert [(case.name, case.seed) for case in FAMILY.cases] == [
        ("tiny-test-0", 0),
        ("tiny-6-test-0", 1),
        ("tiny-6-test-1", 2),
        ("tiny-tune-0", 1000),
    ]


def test_a_written_suite_reads_back_as_it_was_generated(tmp_path: Path) -> None:
    write_suite(FAMILY, tmp_path)
    found = list(read_suite(tmp_path / "tiny").members())
    assert [member.instance for member in found] == [case.instance() for case in FAMILY.cases]
    text = (tmp_path / "tiny" / "tiny-test-0.json").read_text(encoding="utf-8")
    assert found[0].entry.sha256 == sha256(text)
    assert found[1].entry.generator == f"{__name__}:tiny"
    assert found[1].entry.parameters == {"period": 6}


def test_what_is_not_as_generated_is_told_and_written_anew(tmp_path: Path) -> None:
    write_suite(FAMILY, tmp_path)
    assert differences(FAMILY, tmp_path) == []
    (tmp_path / "tiny" / "tiny-test-0.json").unlink()
    (tmp_path / "tiny" / "tiny-9-test-0.json").write_text("{}")
    with (tmp_path / "tiny" / "tiny-6-test-0.json").open("a") as stream:
        stream.write("\n")
    assert differences(FAMILY, tmp_path) == [
        "tiny/tiny-test-0.json: missing",
        "tiny/tiny-9-test-0.json: not of this family",
        "tiny/tiny-6-test-0.json: differs from what its generator makes",
    ]
    write_suite(FAMILY, tmp_path)
    assert differences(FAMILY, tmp_path) == []


def test_the_command_checks_without_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = FAMILIES["weights"].cases[0]
    other = Case(changed.name, changed.split, changed.generate, changed.parameters, 77)
    family = Family("weights", "", 1, 1, (other,))
    monkeypatch.setattr(benchmarks.__main__, "FAMILIES", {"weights": family})
    path = SUITES / "weights" / f"{changed.name}.json"
    before = path.read_bytes()
    told = CliRunner().invoke(benchmarks.__main__.app, ["generate", "--check"])
    assert told.exit_code == 1
    assert f"{changed.name}.json: differs" in told.output.replace("\n", " ")
    assert path.read_bytes() == before
