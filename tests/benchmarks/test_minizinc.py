"""The MiniZinc model has the contention of the instance."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from benchmarks.minizinc import scaling, to_minizinc
from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.verify import evaluate
from tests.landscape import optimum
from tests.strategies import assigned, instances
from tests.tiers import examples

needs_minizinc = pytest.mark.skipif(
    shutil.which("minizinc") is None, reason="minizinc is not installed (Debian: minizinc)"
)


def pair(**changes: Any) -> Instance:
    """Two jobs that burst half of their period on a link that bears one of them."""
    jobs = [
        Job(
            name=name,
            period=4,
            weight=weight,
            phases=(Phase(start=0, length=2, rate=60),),
            links={"link": 1},
        )
        for name, weight in (("light", 2), ("heavy", 8))
    ]
    fields: dict[str, Any] = {
        "name": "pair",
        "slot_ms": 5,
        "links": (Link(name="link", capacity=100),),
        "jobs": tuple(jobs),
    }
    return Instance(**{**fields, **changes})


def run(model: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Give a model to Gecode."""
    file = folder / "model.mzn"
    file.write_text(model, encoding="utf-8")
    return subprocess.run(
        ["minizinc", "--solver", "gecode", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def solve(instance: Instance, folder: Path) -> dict[str, Any]:
    """Return the last JSON line that Gecode prints; it must have proved optimality."""
    done = run(to_minizinc(instance), folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "=" * 10, done.stdout
    answer: dict[str, Any] = json.loads([line for line in lines if line.startswith("{")][-1])
    return answer


def contention_of(answer: dict[str, Any]) -> Fraction:
    return Fraction(answer["objective"] * answer["numerator"], answer["denominator"])


# ------------------------------------------------------------------ the scale


@given(assigned())
@examples(60, deadline=None)
def test_the_scaled_objective_is_the_contention(drawn: tuple[Instance, dict[str, int]]) -> None:
    """The sum that the model states, evaluated here, is an integer and scales to the contention."""
    instance, offsets = drawn
    scaled = scaling(instance)
    objective = Fraction(0)
    for link, unit, factor in zip(scaled.links, scaled.units, scaled.factors, strict=True):
        users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        weights = sorted({job.weight for job in users})
        for below, weight in zip([0, *weights], weights, strict=False):
            layer = Fraction(weight - below, scaled.weight_unit)
            for slot in range(instance.hyperperiods[link.name]):
                demand = sum(
                    job.links[link.name] * phase.rate
                    for job in users
                    if job.weight >= weight
                    for phase in job.phases
                    if phase.start <= (slot - offsets[job.name]) % job.period < phase.end
                )
                excess = max(Fraction(0), Fraction(demand - link.capacity, unit))
                assert layer.denominator == excess.denominator == 1
                objective += factor * layer * excess
    assert scaled.scale * objective == evaluate(instance, offsets).contention
    assert math.gcd(*scaled.factors) in (0, 1)


# ------------------------------------------------------------------ solved by Gecode


@needs_minizinc
@given(instances(max_jobs=3, max_links=2, max_period=6))
@examples(15, deadline=None)
def test_gecode_finds_the_optimum(instance: Instance) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answer = solve(instance, Path(folder))
    assert contention_of(answer) == optimum(instance)
    assert evaluate(instance, answer["offsets"]).contention == contention_of(answer)
