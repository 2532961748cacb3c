"""The paper builds, and TeX has nothing to complain about."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from paper.__main__ import generated, pictures
from paper.pictures import draw
from paper.recorded import recorded_figures
from paper.text import HOME, read_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("latexmk") is None,
        reason="latexmk is not installed; on Debian: apt install latexmk lmodern "
        "texlive-latex-recommended texlive-fonts-recommended",
    ),
]

MOST = 10  # pages
WIDEST = 10.0  # points beyond a column that no reader sees


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the paper in a folder of its own and return what TeX says, in whole lines."""
    folder = tmp_path_factory.mktemp("paper")
    for path in (*HOME.glob("*.tex"), *HOME.glob("*.bib")):
        shutil.copy(path, folder)
    shutil.copytree(HOME / "sections", folder / "sections")
    figures, text = recorded_figures(), read_text()
    draw(pictures(text), figures, folder / "generated" / "figures")
    for name, body in generated(figures, text).items():
        (folder / "generated" / name).write_text(body)
    words = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    ended = subprocess.run(
        words, cwd=folder, check=False, capture_output=True, text=True, errors="replace"
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    return (folder / "main.log").read_text(encoding="utf-8", errors="replace")


def test_paper_has_ten_pages_at_most(log: str) -> None:
    found = re.search(r"Output written on main\.pdf \((\d+) pages", log)
    assert found is not None
    assert int(found[1]) <= MOST


def test_references_and_citations_are_defined(log: str) -> None:
    assert re.findall(r"LaTeX Warning: (?:Reference|Citation).*undefined.*", log) == []
    assert "There were undefined" not in log
    assert "multiply defined" not in log


def test_no_box_is_overfull(log: str) -> None:
    wide = re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\).*", log)
    assert [points for points in wide if float(points) > WIDEST] == []
