"""The written models mean the same as the instance: other solvers find the same optimum."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.child import run_child
from metronome_opt.errors import InputError
from metronome_opt.solvers.back_end_tasks import run_cpsat, run_highs
from metronome_opt.solvers.export import export_text
from tests.builders import tangle
from tests.landscape import optimum


@pytest.mark.parametrize("format_", ["mps", "lp", "cpsat"])
@pytest.mark.parametrize("seed", range(4))
def test_back_ends_read_the_file_and_find_the_optimum(
    format_: str, seed: int, tmp_path: Path
) -> None:
    instance = tangle(3, 2, seed, periods=(4, 6, 8), lengths=(2, 3))
    text = export_text(instance, format_)
    assert text == export_text(instance, format_)
    path = tmp_path / f"model.{format_}"
    path.write_text(text)
    messages: list[dict[str, Any]] = []
    run = partial(run_cpsat if format_ == "cpsat" else run_highs, str(path), {}, None)
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
