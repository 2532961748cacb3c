"""Figures are written in the form that their keys ask for, and `generated/` agrees with them."""

from __future__ import annotations

import pytest

from benchmarks.evaluation.figures import Figure
from benchmarks.testbed.recorded import testbed_figures as bed_figures
from metronome_opt.errors import InputError
from paper.__main__ import FOLDER, generated, pictures
from paper.pictures import PICTURES
from paper.recorded import recorded_figures
from paper.tables import TABLES
from paper.text import read_text
from paper.values import tex, values_file

CHANGE = "regimes/all/metronome/completion"


def test_generated_files_are_up_to_date() -> None:
    # If this fails, run `python -m paper`.
    stored = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.tex")}
    assert stored == generated(recorded_figures(), read_text())


def test_all_tables_and_pictures_are_used() -> None:
    text = read_text()
    assert pictures(text) == set(PICTURES)
    assert {f"{name}.tex" for name in TABLES} <= set(generated({}, text))


@pytest.mark.parametrize(
    ("macro", "key", "figure", "expected"),
    [
        ("val", CHANGE, Figure(-12.72, -14.6, -10.94), "$-12.7$"),
        ("ci", CHANGE, Figure(-12.72, -14.6, 0.04), "$-12.7$\\,\\% ($-14.6$ to 0.0)"),
        ("ci", CHANGE, Figure(1.25), "--"),
        ("ci", "sia/all/ideal/running", Figure(1.1, 1.05, 1.2), "1.100 (1.050 to 1.200)"),
        ("num", "regimes/runs", Figure(12480.0), "12\\,480"),
        ("val", CHANGE, None, f"\\missing{{{CHANGE}}}"),
        ("ci", "priority/all/crux/slowdown@10", Figure(1.1, 1.0, 1.2), "1.100 (1.000 to 1.200)"),
    ],
)
def test_figure_is_written_by_its_key(
    macro: str, key: str, figure: Figure | None, expected: str
) -> None:
    assert tex({} if figure is None else {key: figure}, key, macro) == expected


def test_tables_leave_layout_of_intervals_to_tex() -> None:
    figures = {CHANGE: Figure(-12.72, -14.6, -10.94)}
    expected = "\\around{$-12.7$}{1.8}"
    assert tex(figures, CHANGE, "ci", small=True) == expected


@pytest.mark.parametrize(
    ("macro", "key", "message"),
    [
        ("val", "regime/all/metronome/completion", "no part"),
        ("val", "regimes/all/metronome/completeness", "no kind"),
        ("val", "regimes/runs", "write .num"),
    ],
)
def test_key_of_unknown_form_is_refused(macro: str, key: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        values_file([(macro, key)], {})


def test_test_bed_is_as_its_document_has_it() -> None:
    figures = bed_figures()
    assert round(figures["testbed/fleet-6/0.03/free"].mean, 3) == 1.072
    assert round(figures["testbed/fleet-6/0.03/gated"].mean, 3) == 1.043
    assert round(figures["testbed/unlike/0.01/free"].mean, 3) == 1.056
