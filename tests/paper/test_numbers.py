"""No number of the paper's results is written by hand."""

from __future__ import annotations

import pytest

from paper.prose import (
    HOME,
    Source,
    citations,
    entries,
    labels,
    references,
    stray_numbers,
)


def strict(text: str) -> list[str]:
    return stray_numbers(Source("results", text))


def test_numbers_of_text_are_generated(sources: list[Source]) -> None:
    assert [line for source in sources for line in stray_numbers(source)] == []


def test_citations_match_bibliography(sources: list[Source]) -> None:
    bibliography = (HOME / "references.bib").read_text(encoding="utf-8")
    assert citations(sources) == entries(bibliography)


def test_references_have_labels(sources: list[Source]) -> None:
    assert references(sources) - labels(sources) == set()


@pytest.mark.parametrize(
    "text",
    [
        "It proves 18 of \\instancesPaper{} instances.",
        "It is $3.5$ times faster.",
        "It takes \\[ t = 12 \\] seconds.",
        "It gains 41\\,\\% \\cite{one}.",
        "It proves eighteen of them.",
        "A hundred runs.",
        "\\textbf{7} runs",
        "\\section{The 5 best}",
        "caption \\caption{Over 10 seeds.}",
        "version v2",
        "a 2\nlines",
    ],
)
def test_number_in_strict_section_is_reported(text: str) -> None:
    assert len(strict(text)) == 1
