"""No number of the paper's results is written by hand."""

from __future__ import annotations

import pytest

from paper.prose import (
    DRAWING,
    HOME,
    THEORY,
    Source,
    citations,
    entries,
    labels,
    references,
    stray_numbers,
)


def strict(text: str) -> list[str]:
    return stray_numbers(Source("results", text))


def theory(text: str) -> list[str]:
    return stray_numbers(Source(min(THEORY), text))


def test_the_text_has_no_number_that_is_not_generated(sources: list[Source]) -> None:
    assert [line for source in sources for line in stray_numbers(source)] == []


def test_every_citation_has_an_entry_and_every_entry_is_cited(sources: list[Source]) -> None:
    bibliography = (HOME / "references.bib").read_text(encoding="utf-8")
    assert citations(sources) == entries(bibliography)


def test_every_reference_has_a_label(sources: list[Source]) -> None:
    assert references(sources) - labels(sources) == set()


def test_sections_with_definitions_and_the_drawing_are_there(sources: list[Source]) -> None:
    names = {source.name for source in sources}
    assert {"main", DRAWING, *THEORY} <= names


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
def test_a_number_in_a_strict_section_is_found(text: str) -> None:
    assert len(strict(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Two jobs and \\solvedPaperAuto{} of \\instancesPaper{} instances, none of three.",
        "CASSINI \\cite[section 3]{cassini2024} and Theorem~\\ref{thm:grid2}, \\eqref{eq:1}.",
        "It runs. % 18 of 20, said last year",
        "\\label{tab:1}\\includegraphics[width=0.9\\columnwidth]{generated/figures/gain2}",
        "\\begin{tabular}{lr}\\input{generated/tables/x1}\\vspace{2mm}\\\\[1ex]",
        "The study \\texttt{dynamic-24} on an A100 by GPT-3 at NSDI'24.",
        "Thought and hundredfold words are no numbers.",
    ],
)
def test_what_a_strict_section_may_hold(text: str) -> None:
    assert strict(text) == []


def test_theory_may_have_digits_in_mathematics_alone() -> None:
    assert (
        theory("Let $x_1 \\ge 0$. \\begin{align*} x &= 2 \\\\ y &= 3 \\end{align*} and \\(4\\)")
        == []
    )
    assert theory("It costs \\$5.") == ["complexity.tex:1: It costs \\$5."]
    assert len(theory("It proves 18 of them.\n$x$\n7")) == 2


def test_a_stray_number_is_told_with_its_line() -> None:
    source = Source(
        "main", "\\setlength{\\x}{3mm}\n\\begin{document}\nfine\n\\begin{a}12\\end{a}\n"
    )
    assert stray_numbers(source) == ["main.tex:4: 12"]


def test_the_preamble_is_no_text() -> None:
    assert stray_numbers(Source("main", "\\usepackage[10pt]{x}\n\\begin{document}\nnone")) == []


def test_entries_and_keys_are_read_as_bibtex_has_them() -> None:
    assert entries("@article{a1,\n title={x}}\n@comment{b,}\n@inproceedings{c-2 ,") == {"a1", "c-2"}
    cited = Source("related", "\\cite{a, b}\\citet*[see][p.]{c} % \\cite{d}")
    assert citations([cited]) == {"a", "b", "c"}
