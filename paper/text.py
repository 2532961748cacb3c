r"""The text of the paper: the figures that it uses, and numbers that are not generated.

In sections of results no digit may stand, and no number word from eleven up, outside of arguments
that name something. The other sections define, prove and quote, and may have digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).parent
RESULTS = ("abstract", "introduction", "evaluation", "testbed", "solvers", "limits", "conclusion")
"""Sections of results, by the names of their files."""

_COMMENT = re.compile(r"(?<!\\)%.*")
_USE = re.compile(r"\\(val|ci|num)\{([^{}]+)\}")
_NAMING = re.compile(
    r"\\(?:val|ci|num|cite|ref|eqref|label|input|includegraphics|begin|end|url|texttt|of"
    r"|setlength)\*?(?:\[[^\]]*\])?\{[^{}]*\}(?:\{[^{}]*\})?"
)
_NUMBER = re.compile(
    r"\d|\b(?:eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty|forty|fifty"
    r"|sixty|seventy|eighty|ninety|hundred|thousand|million)",
    re.IGNORECASE,
)


def read_text(home: Path = HOME) -> dict[str, str]:
    """Return the files of the text by name, without comments; lines keep their numbers."""
    paths = (*home.glob("*.tex"), *(home / "sections").glob("*.tex"))
    return {path.stem: _COMMENT.sub("", path.read_text(encoding="utf-8")) for path in sorted(paths)}


def uses(text: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the macros and keys of the figures that a text uses, in order of keys."""
    found = {(match[1], match[2]) for body in text.values() for match in _USE.finditer(body)}
    return sorted(found, key=lambda each: each[::-1])


def named(command: str, text: Mapping[str, str]) -> set[str]:
    """Return the names that a command has as arguments, such as ``cite``."""
    pattern = re.compile(rf"\\{command}(?:\[[^\]]*\])?\{{([^{{}}]+)\}}")
    lists = (match[1] for body in text.values() for match in pattern.finditer(body))
    return {name.strip() for names in lists for name in names.split(",")}


def stray_numbers(name: str, body: str) -> list[str]:
    """Return the lines of a section of results that have a number which is not generated."""
    if name not in RESULTS:
        return []
    cleared = _NAMING.sub(lambda match: "\n" * match[0].count("\n"), body)
    return [
        f"{name}.tex:{number}: {line.strip()}"
        for number, line in enumerate(cleared.split("\n"), start=1)
        if _NUMBER.search(line)
    ]
