"""The stored suites: files of instances, written from generator and seed, and held to them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmarks.families import Family
from benchmarks.families.family import Made
from metronome_opt.files.documents import make_folder, write_text
from metronome_opt.files.records import dump_document
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario import Scenario, build_scenario, spread

SUITES = Path(__file__).parent / "suites"
SUITE_FORMAT = "metronome-suite/1"
INDEX = "index.json"


def suite_texts(family: Family) -> dict[str, str]:
    """Make the instances of a family and return the text of each file of its suite by name."""
    problems = {case.name: case.problem() for case in family.cases}
    texts = {f"{name}.json": problem_text(problem) for name, problem in problems.items()}
    index = {
        "format": SUITE_FORMAT,
        "family": family.name,
        "about": family.about,
        "time_limit_s": family.time_limit_s,
        "instances": [
            {
                "name": case.name,
                "file": f"{case.name}.json",
                "split": case.split,
                "sha256": checksum(problems[case.name]),
                "generator": case.generator,
                "version": family.version,
                "parameters": dict(case.parameters),
                "seed": case.seed,
            }
            for case in family.cases
        ],
    }
    return {INDEX: dump_document(index, one_per_line=("instances",)), **texts}


def problem_text(problem: Made) -> str:
    """Return the text of the file of an instance, as `write_instance` writes it, or scenario."""
    if isinstance(problem, Instance):
        return dump_document(problem.to_dict(), one_per_line=("links", "jobs"))
    return dump_document(problem, one_per_line=("jobs",))


def checksum(problem: Made) -> str:
    """Return the checksum of the file of an instance; of a scenario that of its instance."""
    if not isinstance(problem, Instance):
        problem = build_scenario(spread(Scenario.model_validate(problem))).instance
    return hashlib.sha256(problem_text(problem).encode()).hexdigest()


def write_suite(family: Family, folder: Path = SUITES) -> None:
    """Write the files of a family below `folder` and remove those that are no longer its own."""
    texts = suite_texts(family)
    make_folder(folder / family.name)
    for stray in _present(family, folder) - set(texts):
        (folder / family.name / stray).unlink()
    for name, text in texts.items():
        write_text(folder / family.name / name, text)


def differences(family: Family, folder: Path = SUITES) -> list[str]:
    """Return what is wrong with the stored files of a family, a line each; empty if nothing is."""
    texts, present = suite_texts(family), _present(family, folder)
    found = [f"{family.name}/{name}: missing" for name in texts if name not in present]
    found += [f"{family.name}/{name}: not of this family" for name in sorted(present - set(texts))]
    found += [
        f"{family.name}/{name}: differs from what its generator makes"
        for name, text in texts.items()
        if name in present and (folder / family.name / name).read_bytes() != text.encode()
    ]
    return found


def _present(family: Family, folder: Path) -> set[str]:
    return {path.name for path in (folder / family.name).glob("*.json")}
