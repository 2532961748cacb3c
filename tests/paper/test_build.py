"""The paper builds, and TeX has nothing to complain about."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from paper.catalogue import Recorded
from paper.generate import Generated, write_generated
from paper.prose import HOME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("latexmk") is None,
        reason="latexmk is not installed; on Debian: apt install latexmk lmodern "
        "texlive-latex-recommended texlive-fonts-recommended",
    ),
]

FEWEST, MOST = 8, 12  # pages
WIDEST = 10.0  # points beyond a column that no reader sees


@pytest.fixture(scope="module")
def log(generated: Generated, recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the paper in a folder of its own and return what TeX says, in whole lines."""
    assert generated.missing == (), "the paper shows what is not recorded; make paper-results"
    folder = tmp_path_factory.mktemp("paper")
    for path in (*HOME.glob("*.tex"), *HOME.glob("*.bib")):
        shutil.copy(path, folder)
    shutil.copytree(HOME / "sections", folder / "sections")
    write_generated(generated, recorded, folder / "generated")
    words = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    ended = subprocess.run(
        words, cwd=folder, check=False, capture_output=True, text=True, errors="replace"
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    return (folder / "main.log").read_text(encoding="utf-8", errors="replace")


def test_paper_has_eight_to_twelve_pages(log: str) -> None:
    found = re.search(r"Output written on main\.pdf \((\d+) pages", log)
    assert found is not None
    assert FEWEST <= int(found[1]) <= MOST


def test_references_and_citations_are_defined(log: str) -> None:
    assert re.findall(r"LaTeX Warning: (?:Reference|Citation).*undefined.*", log) == []
    assert "There were undefined" not in log
    assert "multiply defined" not in log


def test_no_box_is_overfull(log: str) -> None:
    wide = re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\).*", log)
    assert [points for points in wide if float(points) > WIDEST] == []
