"""No number of the paper's results is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paper.text import HOME, named, read_text, stray_numbers, uses

TEXT = read_text()


def test_numbers_of_results_are_generated() -> None:
    assert [line for name, body in TEXT.items() for line in stray_numbers(name, body)] == []


def test_citations_match_bibliography() -> None:
    bibliography = (HOME / "references.bib").read_text(encoding="utf-8")
    assert named("cite", TEXT) == set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))


def test_references_have_labels() -> None:
    assert named("ref", TEXT) | named("eqref", TEXT) <= named("label", TEXT)


def test_comments_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "main.tex").write_text("50\\,\\% % of \\num{a/runs}\n\\val{b/gap}")
    assert uses(read_text(tmp_path)) == [("val", "b/gap")]
    assert read_text(tmp_path)["main"].startswith("50\\,\\% \n")


@pytest.mark.parametrize(
    "text",
    [
        "It proves 18 of \\num{solvers/paper/auto/instances} instances.",
        "It is $3.5$ times faster.",
        "It proves eighteen of them.",
        "A hundred runs.",
        "\\textbf{7} runs",
        "a 2\nlines",
    ],
)
def test_number_in_results_is_reported(text: str) -> None:
    assert len(stray_numbers("evaluation", text)) == 1
    assert stray_numbers("model", text) == []


def test_names_may_have_digits() -> None:
    text = "\\val{a/uplinks=4to1/gap} of \\of{case-2} \\cite{korst91}, two of ten \\ref{fig:2}"
    assert stray_numbers("evaluation", text) == []
