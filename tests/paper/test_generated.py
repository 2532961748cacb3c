"""Macros, tables and figures are what the recorded results make."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paper.catalogue import FIGURES, TABLES, Recorded
from paper.generate import FOLDER, Generated, differences, generate, write_generated
from paper.prose import HOME, Source, commands

pytestmark = pytest.mark.slow


def text(*lines: str) -> list[Source]:
    return [Source("results", "\n".join(lines))]


def macros(found: Generated) -> dict[str, str]:
    pattern = r"\\newcommand\{\\(\w+)\}\{(.*)\}"
    matches = (re.fullmatch(pattern, line) for line in found.texts["macros.tex"].splitlines())
    return {match[1]: match[2] for match in matches if match}


@pytest.mark.slow
def test_generated_files_are_up_to_date(generated: Generated) -> None:
    # If this fails, run `python -m paper generate`.
    assert list(differences(generated, HOME / FOLDER)) == []


def test_all_macros_are_used(sources: list[Source], generated: Generated) -> None:
    assert set(macros(generated)) <= commands(sources)


def test_missing_records_stop_tex(tmp_path: Path) -> None:
    used = "\\solvedAllAuto \\input{generated/tables/solvers}"
    found = generate(text(used, "\\includegraphics{generated/figures/growth}"), Recorded(tmp_path))
    assert found.missing == ("\\solvedAllAuto", "table solvers", "figure growth")
    assert macros(found) == {"solvedAllAuto": "\\missing{solvedAllAuto}"}
    assert found.texts["tables/solvers.tex"] == "\\missing{table solvers}\n"
    assert "\\PackageError" in found.texts["macros.tex"]


@pytest.mark.slow
def test_all_tables_and_figures_can_be_made(complete: Recorded, tmp_path: Path) -> None:
    used = [f"\\input{{generated/tables/{name}}}" for name in TABLES]
    used += [f"\\includegraphics{{generated/figures/{name}}}" for name in FIGURES]
    found = generate(text(*used), complete)
    assert found.missing == ()
    write_generated(found, complete, tmp_path)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == set(FIGURES)
    for name in TABLES:
        table = (tmp_path / "tables" / f"{name}.tex").read_text()
        assert table.startswith("% "), "a table says what it rests on"
        rows = [
            line for line in table.splitlines() if line.endswith("\\\\") and "multi" not in line
        ]
        assert len({line.count("&") for line in rows}) == 1, name


@pytest.mark.slow
def test_writing_removes_unused_files(complete: Recorded, tmp_path: Path) -> None:
    write_generated(
        generate(text("\\input{generated/tables/solvers}"), complete), complete, tmp_path
    )
    found = generate(text("\\input{generated/tables/families}"), complete)
    assert list(differences(found, tmp_path)) == [
        "tables/solvers.tex: is not used",
        "tables/families.tex: is missing",
    ]
    write_generated(found, complete, tmp_path)
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["families.tex"]
    assert list(differences(found, tmp_path)) == []
    (tmp_path / "macros.tex").write_text("changed")
    assert list(differences(found, tmp_path)) == [
        "macros.tex: is not what the recorded results make"
    ]
