"""The written models mean the same as the instance: other solvers find the same optimum."""

from __future__ import annotations

import json
import pickle
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.child import run_child
from metronome_opt.errors import InputError
from metronome_opt.solvers.back_end_tasks import run_cpsat, run_highs, run_toulbar2
from metronome_opt.solvers.export import export_text
from tests.builders import job, network, tangle
from tests.landscape import optimum

TASKS = {"mps": run_highs, "lp": run_highs, "cpsat": run_cpsat, "cfn": run_toulbar2}


@pytest.mark.parametrize("format_", TASKS)
@pytest.mark.parametrize("seed", range(4))
def test_back_ends_read_the_file_and_find_the_optimum(
    format_: str, seed: int, tmp_path: Path
) -> None:
    if format_ == "cfn":
        pytest.importorskip("pytoulbar2")
    instance = tangle(3, 2, seed, periods=(4, 6, 8), lengths=(2, 3))
    text = export_text(instance, format_)
    assert text == export_text(instance, format_)
    path = tmp_path / f"model.{format_}"
    path.write_text(text)
    messages: list[dict[str, Any]] = []
    run = partial(TASKS[format_], str(path), {}, None)
    run_child(pickle.dumps(run), messages.append, lambda: None)
    end = messages[-1]
    assert end["status"] in ("optimal", "kModelEmpty")
    stated = re.search(r"contention = objective \* (\d+(?:/\d+)?)", text.splitlines()[0])
    assert stated is not None
    assert round(end["objective"]) * Fraction(stated[1]) == optimum(instance)
    assert abs(end["objective"] - round(end["objective"])) < 1e-6


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="format: 'gms' is not known; choose from lp, mps"):
        export_text(tangle(3, 2, 0, periods=(4,), lengths=(2, 3)), "gms")


def test_cfn_is_json_with_offsets_and_whole_tables() -> None:
    # Bursts of 2 in 3 slots: b, at 0, 1 or 2, shares 2, 1 or 1 slots with a at 0, 20 unserved each.
    instance = network(job("a", 3, (0, 2, 60)), job("b", 3, (0, 2, 60)))
    comment, text = export_text(instance, "cfn").split("\n", 1)
    assert comment == "# contention = objective * 20/3"
    assert json.loads(text) == {
        "problem": {"name": "rotation", "mustbe": "<19"},  # both bursts in all slots: 120 unserved
        "variables": {"job_0": ["at_0"], "job_1": ["at_0", "at_1", "at_2"]},
        "functions": {
            "floor": {"scope": [], "costs": [1]},
            "cost_0_link": {"scope": ["job_1"], "costs": [1, 0, 0]},
        },
    }


def test_tables_that_do_not_fit_are_refused_with_sizes() -> None:
    instance = network(*(job(name, 500, (0, 300, 60)) for name in "abcd"))
    expected = "have 125000000 cells, more than 16777216, that of link 'link' 125000000; use lp"
    with pytest.raises(InputError, match=expected):
        export_text(instance, "cfn")
