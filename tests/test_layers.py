"""Imports go downwards only, and light things stay light to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import metronome_opt

PACKAGE = Path(metronome_opt.__file__).parent

# From the top floor down; modules on one line do not import one another but for the lowest, where
# the order within the line is the order of the floors.
FLOORS = [
    ["__main__"],
    ["cli"],
    ["bench"],
    ["plot"],
    ["report"],
    ["kubernetes"],
    ["export"],
    ["scheduling"],
    ["cluster"],
    ["slowdown"],
    ["simulate"],
    ["multiobjective"],
    ["compatible"],
    ["solvers"],
    ["presolve"],
    ["scenario"],
    ["result"],
    ["verify", "kernels"],
    ["schedule"],
    ["instance"],
    ["journal"],
    ["records"],
    ["documents"],
    ["errors", "gate"],
]
HEIGHT = {name: -depth for depth, names in enumerate(FLOORS) for name in names}


def part_of(module: str) -> str | None:
    """Return the part of the package that a dotted name belongs to."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "metronome_opt" and rest else None


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= set(names) if node.module == "metronome_opt" else {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_every_part_has_a_floor_and_imports_only_what_lies_below() -> None:
    upward = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        part = relative.parts[0].removesuffix(".py")
        if part == "__init__":
            continue  # the package's face may name everything: it imports on demand
        assert part in HEIGHT, f"{relative}: give it a floor in this test and in ARCHITECTURE.md"
        for module in imports(path):
            below = part_of(module)
            if below is not None and below != part and HEIGHT[below] >= HEIGHT[part]:
                upward.append(f"{relative} imports {module}")
    assert upward == []


def test_the_judge_shares_no_code_with_solvers_or_kernels() -> None:
    files = (PACKAGE / "verify").glob("*.py")
    parts = {part_of(module) for path in files for module in imports(path)} - {None}
    assert parts == {"errors", "instance", "schedule", "verify"}


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    return set(output.split())


def test_importing_the_package_loads_no_solver_and_no_back_end() -> None:
    heavy = {"numpy", "numba", "ortools", "pulp", "highspy", "pandas", "matplotlib", "jsonschema"}
    assert not heavy & loaded_by("import metronome_opt")


def test_help_loads_no_command() -> None:
    loaded = loaded_by("from metronome_opt.__main__ import main; main(['--help'])")
    assert not {"numpy", "pydantic", "yaml", "rich", "pandas"} & loaded


def test_the_face_of_the_package_names_what_exists() -> None:
    for name in metronome_opt.__all__:
        assert getattr(metronome_opt, name) is not None
    assert set(metronome_opt.__all__) <= set(dir(metronome_opt))


def test_names_of_solvers_load_no_kernels_and_greedy_no_other_solver() -> None:
    assert not {"numpy", "networkx"} & loaded_by("import metronome_opt.cli.options")
    greedy = "from tests.builders import two_jobs; from metronome_opt.solvers import solve"
    loaded = loaded_by(f"{greedy}; solve(two_jobs(), 'greedy')")
    assert "networkx" not in loaded
    ours = {module for module in loaded if module.startswith("metronome_opt.solvers.")}
    needed = {"budget", "greedy", "registry", "search", "solve"}
    assert {module.rpartition(".")[2] for module in ours} == needed


def test_back_ends_load_only_when_they_are_used() -> None:
    heavy = {"ortools", "pulp", "highspy", "matplotlib"}
    assert not heavy & loaded_by("import metronome_opt.solvers, metronome_opt.plot")


def test_a_training_loop_needs_nothing_but_the_standard_library() -> None:
    loaded = loaded_by("import metronome_opt.gate")
    ours = {module for module in loaded if module.partition(".")[0] == "metronome_opt"}
    assert {part_of(module) for module in ours} == {None, "gate"}
    code = "import sys; print(*sys.modules)"
    before = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    others = {module.partition(".")[0] for module in loaded - ours - set(before.stdout.split())}
    assert others <= sys.stdlib_module_names
    slow = {"asyncio", "dataclasses", "http", "inspect", "json", "logging", "socket", "decimal"}
    assert not slow & loaded


def test_what_a_gate_imports_later_is_no_other_part_of_the_package() -> None:
    found = set()
    for path in (PACKAGE / "gate").glob("*.py"):
        found |= imports(path)
    assert {part_of(module) for module in found} == {None, "gate"}
    others = {module.partition(".")[0] for module in found} - sys.stdlib_module_names
    assert others == {"metronome_opt", "torch"}
