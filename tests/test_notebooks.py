"""The notebooks run, and what is stored with them is what they show."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SOLVERS = ["unshifted", "random", "greedy", "auto"]
MOST_BYTES = 1_500_000

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
    monkeypatch.setenv("METRONOME_NOTEBOOK_SECONDS", "2")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # another one would show no picture
    fresh = copy.deepcopy(stored)
    for cell in code_cells(fresh):
        cell.outputs = []
    where = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(fresh, timeout=120, coalesce_streams=True, resources=where).execute()
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


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


def test_a_fresh_run_shows_what_is_stored(
    stored: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = run_again(stored, tmp_path, monkeypatch)  # a cell that fails is an error here
    for before, after in zip(code_cells(stored), code_cells(fresh), strict=True):
        assert kinds(after) == kinds(before), after.source
    assert compared(fresh) == compared(stored)
    # Cells with this tag depend on no time limit. If one differs, run the notebook and save it.
    for before, after in zip(tagged(stored, "exact"), tagged(fresh, "exact"), strict=True):
        assert shown(after) == shown(before), after.source


def test_stored_cells_ran_in_order_without_errors(stored: Any) -> None:
    cells = code_cells(stored)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


def test_stored_cells_that_show_something_have_outputs(stored: Any) -> None:
    for cell in code_cells(stored):
        ends_in_a_value = isinstance(ast.parse(cell.source).body[-1], ast.Expr)
        assert bool(cell.outputs) == (ends_in_a_value or "print(" in cell.source), cell.source


def test_stored_comparisons_name_every_solver() -> None:
    notebooks = [nbformat.read(path, as_version=4) for path in NOTEBOOKS]  # type: ignore[no-untyped-call]
    tables = [table for notebook in notebooks for table in compared(notebook)]
    assert tables
    assert all(table == SOLVERS for table in tables)


def test_some_stored_cells_are_compared_exactly(stored: Any) -> None:
    assert tagged(stored, "exact")


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
            texts = [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
            assert not any(map(ABSOLUTE_PATH.search, texts)), cell.source


@pytest.mark.parametrize("text", ["see /tmp/tmpab12/claims.yaml", "'/home/me/a'", r"C:\Users\me"])
def test_absolute_paths_are_recognised(text: str) -> None:
    assert ABSOLUTE_PATH.search(text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_stay_small(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES
