"""docs/gate.md names every variable, and its examples are read by what reads them."""

from __future__ import annotations

import re
from pathlib import Path

from metronome_opt.gate import Claim, Gate
from metronome_opt.gate.checks import FIELDS
from metronome_opt.gate.files import ClaimFile
from metronome_opt.kubernetes.profiles.profile import read_record
from tests.gate.clock import MS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def test_every_variable_and_series_is_named() -> None:
    names = {*FIELDS, "claim", "job", "task", "record", "metrics"}
    assert {name for name in names if f"`METRONOME_{name.upper()}`" not in TEXT} == set()
    series = re.findall(r"# TYPE metronome_gate_(\w+)", Gate(Claim(0, 1)).metrics())
    assert {name for name in series if f"`{name}`" not in TEXT} == set()


def test_the_claim_and_the_line_shown_are_read(tmp_path: Path) -> None:
    claim, line = re.findall(r"^    (\{.*\})$", TEXT, re.MULTILINE)
    (tmp_path / "claim").write_text(claim)
    expected = Claim(65 * MS, 240 * MS, (0, 130 * MS), 5 * MS)
    assert ClaimFile(tmp_path / "claim", "", None).current() == expected
    (tmp_path / "gate.jsonl").write_text(line + "\n" + line.replace("0.14", "0.24") + "\n")
    assert len(read_record(tmp_path / "gate.jsonl")) == 2
