"""Shell sessions in documents: commands after ``$``, and what they print.

Compared are all lines but empty ones, without blanks at their ends. Seconds may differ, and a
line ``...`` stands for any number of lines.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

Step = tuple[str, list[str]]


def section(document: str, heading: str) -> str:
    """Return what stands below a heading of the second level."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def commands(document: str, heading: str) -> list[str]:
    """Return the lines of the only block of shell below a heading."""
    (block,) = re.findall(r"```sh\n(.*?)```", section(document, heading), re.DOTALL)
    return [str(line) for line in block.splitlines()]


def session(document: str, heading: str) -> list[Step]:
    """Return each command of the only session below a heading with the lines that it prints."""
    (block,) = re.findall(r"```console\n(.*?)```", section(document, heading), re.DOTALL)
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line.rstrip())
    return found


def run(command: str, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the lines that a command prints, on either stream."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def agrees(printed: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether a command printed what the document shows."""
    pattern = "".join("(?:.*\n)*" if line == "..." else _pattern(line) for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _pattern(line: str) -> str:
    return r"[\d,.]+ s\b".join(map(re.escape, re.split(r"\d[\d,.]* s\b", line))) + "\n"
