"""Campaigns that make the results of the paper, and the time they take."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from metronome_opt.bench.simulations import FILE
from metronome_opt.documents import make_folder
from metronome_opt.errors import InputError
from paper.recorded import (
    BENCHMARKS,
    SOLVERS,
    TEXTBOOK,
    Index,
    name_of,
    record_benchmarks,
    record_solvers,
    record_study,
    study_file,
)

COMPARED = (
    *("auto", "branch-bound", "elimination", "cpsat", "milp", "cpsat-textbook"),
    *("local", "greedy", "cassini"),
)
"""The solvers, in the order in which the paper shows them: those that prove first."""

ON_ALL = ("paper", "single", "coprime", "weights")
ON_LARGE = ("fabric", "dense")
LARGE = tuple(name for name in COMPARED if name not in ("branch-bound", "elimination"))
"""Those that run on large instances too; the others stand for parts of `auto` there."""

LIMIT_S = 10
SEEDS = {
    "snapshot": 5,
    "dynamic-24": 3,
    "static-24": 2,
}
"""Number of simulated seeds of each study."""

_RAW = Path(__file__).parent / "build" / "raw"


@dataclass(frozen=True)
class Step:
    """Commands and what they make together.

    Attributes
    ----------
    file
        Below the folder of the recorded results.
    commands
        In words, without what stands for places on this machine.
    """

    file: str
    commands: tuple[tuple[str, ...], ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The commands as they are recorded."""
        return tuple(" ".join(words) for words in self.commands)


def steps() -> Iterator[Step]:
    """Yield what makes the recorded results; of single benchmarks the records are kept."""
    yield Step(SOLVERS, (_race(ON_ALL, COMPARED), _race(ON_LARGE, LARGE)))
    for study, seeds in SEEDS.items():
        words = ("metronome", "simulate", study, "--seeds", str(seeds))
        yield Step(study_file(study), (words,))


def _race(suites: Sequence[str], solvers: Sequence[str]) -> tuple[str, ...]:
    return (
        *("metronome", "bench", "run", "--suite", ",".join(suites)),
        *("--solvers", ",".join(TEXTBOOK.get(name, name) for name in solvers)),
        *("--time-limit", str(LIMIT_S), "--workers", "1"),
    )


def plan(index: Index) -> Iterator[str]:
    """Yield what is to run, and how long it took when it was recorded, a line each."""
    took = {entry.file: entry for entry in index.files}
    for step in steps():
        entry = took.get(step.file)
        took_it = "not known how long"
        if entry is not None and entry.seconds is not None:
            hours = f"{entry.seconds / 3600:.1f} h on {entry.machines[0]}"
            took_it = f"{entry.records:,} records, {hours}"
        yield f"{'; '.join(step.lines)}: {took_it}"
    known = sum(entry.seconds or 0.0 for entry in index.files)
    yield f"together, what is known of it, one after the other: {known / 3600:.1f} h"


def run_all(home: Path) -> None:
    """Run all steps and record what they made; one that was interrupted goes on.

    Parameters
    ----------
    home
        The checkout, in which the commands run.

    Raises
    ------
    InputError
        If a command fails; what it says stands before.
    """
    make_folder(_RAW)
    for step in steps():
        _take(step, home)


def _take(step: Step, home: Path) -> None:
    target = _RAW / name_of(step.file)
    if step.file.startswith(BENCHMARKS):
        _run_once(step, target, home)
        record_benchmarks(*target.iterdir())
        return
    for words in step.commands:
        _run([*words, "--output", str(target), *_resumed(target)], home)
    if step.file == SOLVERS:
        record_solvers([target], step.lines)
    else:
        record_study(name_of(step.file), [target / FILE], step.lines)


def _run_once(step: Step, target: Path, home: Path) -> None:
    """Run benchmarks, and keep what they found in a folder; if it is there, that has been done."""
    if target.exists():
        return
    for words in step.commands:
        _run(words, home)
    found = (home / "benchmarks" / "results").glob("figures-*.json")
    newest = max(found, key=lambda path: path.stat().st_mtime)
    make_folder(target)
    shutil.copy(newest, target)


def _resumed(target: Path) -> list[str]:
    return ["--resume"] if target.exists() else []


def _run(words: Sequence[str], home: Path) -> None:
    ours = words[1:] if words[0] == "python" else ["-m", "metronome_opt", *words[1:]]
    ended = subprocess.run([sys.executable, *ours], cwd=home, check=False)  # noqa: S603 (ours)
    # Exit status 1 says that some cases were not done; their records say why.
    if ended.returncode not in (0, 1):
        raise InputError(f"{' '.join(words)}: ended with exit status {ended.returncode}")
