"""The notebooks run, and what is stored with them is what they show."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipykernel.kernelspec import write_kernel_spec

from notebooks.store import run

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SOLVERS = ["unshifted", "random", "greedy", "auto"]
SECONDS = "1"  # for each search; the notebooks themselves give them more
MAX_BYTES = 350_000

PICTURE = re.compile(r"base64,[^\"]*")  # of HTML
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")

# Two steps of an absolute path; what stands before keeps out web addresses, fractions and HTML.
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<])/\w[\w.-]*/\w|\b[A-Z]:\\")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def stored(request: pytest.FixtureRequest) -> Any:
    """Return each notebook as it is stored."""
    return nbformat.read(request.param, as_version=4)  # type: ignore[no-untyped-call]


def run_again(stored: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a notebook run afresh, in a kernel of the interpreter that runs the tests."""
    write_kernel_spec(folder / "data" / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("METRONOME_NOTEBOOK_SECONDS", SECONDS)
    monkeypatch.delenv("MPLBACKEND", raising=False)  # another one would show no picture
    fresh = copy.deepcopy(stored)
    run(fresh)
    return fresh


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(notebook: Any, tag: str) -> list[Any]:
    return [cell for cell in code_cells(notebook) if tag in cell.metadata.get("tags", [])]


def shown(cell: Any) -> list[str]:
    """Return what a cell shows as text: what it printed and its result, not its pictures."""
    return [output.get("text") or output.data["text/plain"] for output in cell.outputs]


def kinds(cell: Any) -> list[list[str]]:
    """Return of what kind each output of a cell is, warnings aside (a first font cache warns)."""
    wanted = [output for output in cell.outputs if output.get("name") != "stderr"]
    return [sorted(output.get("data", ["text"])) for output in wanted]


def compared(notebook: Any) -> list[list[str]]:
    """Return the solvers that each table of solvers names, in its order."""
    return [solvers_of(cell) for cell in tagged(notebook, "comparison")]


def solvers_of(cell: Any) -> list[str]:
    (table,) = shown(cell)
    first_words = [line.split()[0] for line in table.splitlines() if line.strip()]
    return [word for word in dict.fromkeys(first_words) if word in SOLVERS]


def anchors(path: Path) -> set[str]:
    """Return what a link into a Markdown file may end with: its headings as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {each.strip().replace(" ", "-") for each in words}


def test_readme_lists_small_notebooks_in_order() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(.*)\]\((.*)\):", text, re.MULTILINE)
    assert listed == [(path.stem, path.name) for path in NOTEBOOKS]
    assert listed
    assert all(path.stat().st_size <= MAX_BYTES for path in NOTEBOOKS)


def test_links_lead_somewhere(stored: Any) -> None:
    for cell in stored.cells:
        for target, anchor in LINK.findall(cell.source if cell.cell_type == "markdown" else ""):
            if not target.startswith("http"):
                assert (FOLDER / target).is_file(), target
                assert not anchor or anchor in anchors(FOLDER / target), (target, anchor)


@pytest.mark.slow
def test_a_fresh_run_shows_what_is_stored(
    stored: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = run_again(stored, tmp_path, monkeypatch)  # a cell that fails is an error here
    for before, after in zip(code_cells(stored), code_cells(fresh), strict=True):
        assert kinds(after) == kinds(before), after.source
    assert compared(fresh) == compared(stored)
    assert all(table == SOLVERS for table in compared(stored))
    # Cells with this tag depend on no time limit. If one differs, `python -m notebooks.store`.
    assert tagged(stored, "exact")
    for before, after in zip(tagged(stored, "exact"), tagged(fresh, "exact"), strict=True):
        assert shown(after) == shown(before), after.source


def test_stored_cells_ran_in_order_without_errors(stored: Any) -> None:
    cells = code_cells(stored)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


def test_nothing_stored_tells_of_the_machine(stored: Any) -> None:
    assert stored.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in stored.cells:
        assert set(cell.metadata) <= {"tags"}  # no times of execution
        assert not ABSOLUTE_PATH.search(cell.source), cell.source
    for cell in code_cells(stored):
        for output in cell.outputs:
            data = output.get("data", {})
            page = PICTURE.sub("", data.get("text/html", ""))
            texts = [output.get("text", ""), data.get("text/plain", ""), page]
            assert not any(map(ABSOLUTE_PATH.search, texts)), cell.source
