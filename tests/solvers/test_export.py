"""The written models mean the same as the instance: other solvers find the same optimum."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.solvers.export import export_text
from tests.builders import tangle
from tests.landscape import optimum

CASES = {seed: tangle(3, 2, seed, periods=(4, 6, 8), lengths=(2, 3)) for seed in range(4)}

# In a process of its own, away from OR-Tools: both bring a library called libhighs.
HIGHS = """
import highspy, json, sys
from metronome_opt import solve
highs = highspy.Highs()
highs.silent()
highs.setOptionValue("mip_rel_gap", 0.0)
highs.readModel(sys.argv[1])
highs.run()
print(json.dumps([highs.modelStatusToString(highs.getModelStatus()),
                  highs.getInfo().objective_function_value]))
"""


def stated_scale(text: str) -> Fraction:
    match = re.search(r"contention = objective \* (\d+(?:/\d+)?)", text.splitlines()[0])
    assert match is not None
    return Fraction(match.group(1))


@pytest.mark.parametrize("format_", ["mps", "lp"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_highs_reads_the_file_and_finds_the_optimum(
    format_: str, case: int, tmp_path: Path
) -> None:
    instance = CASES[case]
    text = export_text(instance, format_)
    path = tmp_path / f"model.{format_}"
    path.write_text(text)
    told = subprocess.run(
        [sys.executable, "-c", HIGHS, str(path)], check=True, capture_output=True, text=True
    ).stdout
    status, objective = json.loads(told.splitlines()[-1])
    assert status in ("Optimal", "Empty")
    assert round(objective) * stated_scale(text) == optimum(instance)
    assert abs(objective - round(objective)) < 1e-6


@pytest.mark.parametrize("case", sorted(CASES))
def test_cpsat_reads_the_text_and_finds_the_optimum(case: int) -> None:
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2
    from ortools.sat.python import cp_model

    instance = CASES[case]
    text = export_text(instance, "cpsat")
    proto = text_format.Parse(text, cp_model_pb2.CpModelProto())
    model = cp_model.CpModel()
    model.proto.parse_text_format(text_format.MessageToString(proto))
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    assert round(solver.objective_value) * stated_scale(text) == optimum(instance)


def test_the_text_is_the_same_every_time() -> None:
    for format_ in ("lp", "mps", "cpsat"):
        assert export_text(CASES[0], format_) == export_text(CASES[0], format_)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="format: 'gms' is not known; choose from lp, mps"):
        export_text(CASES[0], "gms")
