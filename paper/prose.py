r"""Macros in the text of the paper, and numbers in it that are no macros.

The rule for numbers:

- In *strict* files, all but those of `THEORY`, no digit may stand, and no number word from eleven
  up, outside of what names something: the arguments of `NAMING` (citations, labels, files), and
  `NAMES`. Lengths of the layout belong to the preamble or to `LAYOUT`.
- In the files of `THEORY`, which define and prove, digits may stand in mathematics as well: there
  they are part of a definition, a proof or a worked example, never a result.
- Comments and the preamble of ``main.tex`` are not text, nor are the coordinates in `DRAWING`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parent
THEORY = frozenset({"model", "structure", "complexity", "objectives", "solvers"})
"""Sections, by the names of their files, whose mathematics may hold digits."""

DRAWING = "drawing"
"""The file of the schematic first figure, which shows no result."""

NAMING = (
    *("cite", "citep", "citet", "citealp", "citeauthor", "ref", "eqref", "pageref", "autoref"),
    *("label", "input", "include", "includegraphics", "bibliography", "bibliographystyle"),
    *("begin", "end", "url", "texttt", "nolinkurl"),
)
"""Commands whose arguments are names."""

LAYOUT = ("vspace", "hspace", "setlength", "addtolength", "resizebox", "cmidrule", "multicolumn")
"""Commands whose first argument is a length or counts columns."""

NAMES = (
    *("A100", "NSDI'24", "SIGCOMM'24", "HotNets'24", "RTAS'24", "GPT-2", "GPT-3", "ResNet50"),
    *("3-Partition", "3-colourability", "ninety-ninth percentile", "parts in a million"),
)
"""Proper names, problems, measures and units whose names hold a number."""

_WORDS = re.compile(
    r"\b(eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty"
    r"|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million)\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?<!\\)%.*")
_OPTIONS = r"\*?(?:\s*\[[^\]]*\])*\s*"
_ARGUMENT = r"\{[^{}]*\}"
_NAMED = re.compile(rf"\\(?:{'|'.join(NAMING)}){_OPTIONS}{_ARGUMENT}(?:{_ARGUMENT})*")
_LAID_OUT = re.compile(rf"\\(?:{'|'.join(LAYOUT)}){_OPTIONS}{_ARGUMENT}(?:{_ARGUMENT})?")
_LINE_SKIP = re.compile(r"\\\\\[[^\]]*\]")
_MATHEMATICS = re.compile(
    r"\\\[.*?\\\]|\\\(.*?\\\)|\$\$.*?\$\$|(?<!\\)\$.*?(?<!\\)\$"
    r"|\\begin\{(equation|align|gather|multline)(\*?)\}.*?\\end\{\1\2\}",
    re.DOTALL,
)
_CITATION = re.compile(rf"\\cite[a-z]*{_OPTIONS}\{{([^{{}}]*)\}}")
_REFERENCE = re.compile(r"\\(?:ref|eqref|pageref|autoref|cref|Cref)\{([^{}]*)\}")
_LABEL = re.compile(r"\\label\{([^{}]*)\}")
_ENTRY = re.compile(r"^@(?!comment|string)\w+\{([^,\s]+)\s*,", re.MULTILINE)
_TABLE = re.compile(r"\\input\{generated/tables/([\w-]+)(?:\.tex)?\}")
_FIGURE = re.compile(r"\\includegraphics(?:\[[^\]]*\])?\{generated/figures/([\w-]+)(?:\.pdf)?\}")
_MACRO = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_DEFINED = re.compile(
    r"\\(?:re)?(?:newcommand|DeclareMathOperator|DeclarePairedDelimiter)\*?\{?\\([A-Za-z]+)"
)


@dataclass(frozen=True)
class Source:
    """A file of the text.

    Attributes
    ----------
    name
        Without folder and suffix.
    raw
        As it is written.
    """

    name: str
    raw: str

    @property
    def text(self) -> str:
        """The text without comments; lines keep their numbers."""
        return "\n".join(_COMMENT.sub("", line) for line in self.raw.split("\n"))

    @property
    def body(self) -> str:
        """The text without the preamble, of which only the ends of lines are left."""
        preamble, begin, body = self.text.partition(r"\begin{document}")
        return "\n" * preamble.count("\n") + body if begin else self.text


def read_sources(home: Path = HOME) -> list[Source]:
    """Return the files of the text, those of the sections last."""
    paths = [*sorted(home.glob("*.tex")), *sorted((home / "sections").glob("*.tex"))]
    return [Source(path.stem, path.read_text(encoding="utf-8")) for path in paths]


def stray_numbers(source: Source) -> list[str]:
    """Return the lines with a number that is neither a macro nor allowed, each with its number."""
    if source.name == DRAWING:
        return []
    text = source.body
    mathematics = [_MATHEMATICS] if source.name in THEORY else []
    for pattern in (*mathematics, _NAMED, _LAID_OUT, _LINE_SKIP):
        text = pattern.sub(_blank, text)
    for name in NAMES:
        text = text.replace(name, "")
    return [
        f"{source.name}.tex:{number}: {line.strip()}"
        for number, line in enumerate(text.split("\n"), start=1)
        if re.search(r"\d", line) or (source.name not in THEORY and _WORDS.search(line))
    ]


def commands(sources: Iterable[Source]) -> set[str]:
    """Return all commands that the text uses."""
    return {name for source in sources for name in _COMMAND.findall(source.text)}


def unknown_macros(sources: Iterable[Source], known: Iterable[str]) -> list[str]:
    """Return commands that look like macros of numbers, with capitals inside, and are none."""
    sources = list(sources)
    defined = {name for source in sources for name in _DEFINED.findall(source.text)} | set(known)
    looking = {name for name in commands(sources) if _MACRO.fullmatch(name)}
    return sorted(looking - defined)


def tables_in(sources: Iterable[Source]) -> set[str]:
    """Return the generated tables that the text shows."""
    return _found(_TABLE, sources)


def figures_in(sources: Iterable[Source]) -> set[str]:
    """Return the generated figures that the text shows."""
    return _found(_FIGURE, sources)


def citations(sources: Iterable[Source]) -> set[str]:
    """Return the keys that the text cites."""
    return set(_split(_found(_CITATION, sources)))


def references(sources: Iterable[Source]) -> set[str]:
    """Return the labels that the text refers to."""
    return set(_split(_found(_REFERENCE, sources)))


def labels(sources: Iterable[Source]) -> set[str]:
    """Return the labels that the text defines."""
    return _found(_LABEL, sources)


def entries(bibliography: str) -> set[str]:
    """Return the keys of a BibTeX file."""
    return set(_ENTRY.findall(bibliography))


def _found(pattern: re.Pattern[str], sources: Iterable[Source]) -> set[str]:
    return {match for source in sources for match in pattern.findall(source.text)}


def _split(keys: Iterable[str]) -> Iterator[str]:
    for each in keys:
        yield from (key.strip() for key in each.split(","))


def _blank(match: re.Match[str]) -> str:
    """Return what takes the place of a match: nothing but its ends of lines."""
    return "\n" * match[0].count("\n")
