"""Imports go downwards only, and light modules stay light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import metronome_opt

PACKAGE = Path(metronome_opt.__file__).parent

# From the top floor down. A module may import what is on a lower floor, or further to the right on
# its own; modules that a bar separates do not import one another.
FLOORS = [
    "__main__ cli",
    "bench",
    "notebook plot",
    "output",
    "model api",
    "kubernetes | simulation",
    "allocation",
    "engine",
    "solvers",
    "scenario",
    "verify",
    "problem",
    "files",
    "pools compiling plugins errors child bar",
    "gate",
]
PLACE = {
    name: (-depth, -side, -position)
    for depth, floor in enumerate(FLOORS)
    for side, names in enumerate(floor.split("|"))
    for position, name in enumerate(names.split())
}
IMPORTED_BY_NAME = re.compile(r"metronome_opt\.\w+(\.\w+)*(:\w*)?\.?")


def part_of(module: str) -> str | None:
    """Return the part of the package that a dotted name belongs to."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0].partition(":")[0] if package == "metronome_opt" and rest else None


def may_import(part: str, other: str) -> bool:
    """Return whether a part of the package may import another one."""
    (floor, side, position), (its_floor, its_side, its_position) = PLACE[part], PLACE[other]
    if floor != its_floor:
        return floor > its_floor and other != "gate"
    return side == its_side and position > its_position


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, by statement or by name."""
    imported = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported |= set(names) if node.module == "metronome_opt" else {node.module}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and IMPORTED_BY_NAME.fullmatch(str(node.value)):
            imported |= {str(node.value)}
    return {module for module in imported if part_of(module) in (None, *PLACE)}


def imported_at_run_time(path: Path) -> set[str]:
    """Return the modules that a file imports, but for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_imports_go_downwards() -> None:
    upward = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        part = relative.parts[0].removesuffix(".py")
        if part == "__init__":
            continue  # the package's face names everything; it imports on demand
        assert part in PLACE, f"{relative}: give it a floor in this test and in ARCHITECTURE.md"
        for module in imports(path):
            other = part_of(module)
            if other is not None and other != part and not may_import(part, other):
                upward.append(f"{relative} imports {module}")
    assert sorted(upward) == []


def test_no_file_imports_one_that_imports_it() -> None:
    modules = {
        ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {
        module: {name for name in imported_at_run_time(path) if name in modules} - {module}
        for module, path in modules.items()
    }
    order = TopologicalSorter(graph).static_order()  # a CycleError names the files of a circle
    assert {*order} == {*modules}


def test_imports_by_name_are_seen(tmp_path: Path) -> None:
    code = """
from importlib import import_module
import_module("metronome_opt.plot").draw
import_module(f"metronome_opt.cli.{name}")
WHERE = "metronome_opt.output.tables:terminal"
GROUP = "metronome_opt.policies"
"""
    (tmp_path / "sample.py").write_text(code)
    assert imports(tmp_path / "sample.py") == {
        "importlib",
        "metronome_opt.plot",
        "metronome_opt.cli.",
        "metronome_opt.output.tables:terminal",
    }


def test_verify_shares_no_code_with_solvers() -> None:
    files = (PACKAGE / "verify").glob("*.py")
    modules = {module for path in files for module in imports(path) if part_of(module)}
    own = {module for module in modules if part_of(module) == "verify"}
    records = {f"metronome_opt.problem.{name}" for name in ("instance", "schedule", "evaluation")}
    assert modules - own == {"metronome_opt.errors", *records}


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    return set(output.split())


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import metronome_opt", "numpy numba ortools pulp highspy pandas matplotlib jsonschema"),
        (
            "from metronome_opt.__main__ import main; main(['--help'])",
            "numpy pydantic yaml rich pandas",
        ),
        ("import metronome_opt.cli.options", "numpy networkx"),
        ("import metronome_opt.cli.solve, metronome_opt.cli.allocate", "numpy networkx pandas"),
        ("import metronome_opt.solvers, metronome_opt.plot", "ortools pulp highspy matplotlib"),
        (
            "import metronome_opt.gate",
            "asyncio dataclasses http inspect json logging socket decimal typing",
        ),
    ],
)
def test_import_loads_nothing_heavy(statement: str, heavy: str) -> None:
    assert not set(heavy.split()) & loaded_by(statement)


def test_exported_names_exist() -> None:
    for name in metronome_opt.__all__:
        assert getattr(metronome_opt, name) is not None
    assert set(metronome_opt.__all__) <= set(dir(metronome_opt))


def test_solver_loads_no_other_solver() -> None:
    greedy = "from tests.builders import two_jobs; from metronome_opt import solve"
    loaded = loaded_by(f"{greedy}; solve(two_jobs(), 'unshifted', 'contention')")
    ours = {module for module in loaded if module.startswith("metronome_opt.solvers.")}
    assert not {"auto", "local", "strong_form", "cassini"} & {
        each.rpartition(".")[2] for each in ours
    }


def test_gate_needs_the_standard_library_alone() -> None:
    imported = set()
    for path in (PACKAGE / "gate").glob("*.py"):
        imported |= imports(path)
    assert {part_of(module) for module in imported} == {None, "gate"}
    others = {module.partition(".")[0] for module in imported} - sys.stdlib_module_names
    assert others == {"metronome_opt", "torch"}
