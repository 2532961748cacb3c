"""Readers of JSON and of plain YAML that need little time and memory whatever they are given.

Plain YAML is what ``metronome claims`` and ``kubectl get -o yaml`` write: mappings and lists by
indentation, a value a line, text in quotes or in a block, and lists and mappings in brackets as
JSON has them. Anchors, aliases, tags and text over several lines are refused.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from metronome_opt.gate.checks import ClaimError, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 40
_MAX_DIGITS = 64
_MAX_REASON = 100  # characters of the message of a parser

# None of these ever looks at a character more than a few times.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_PAIR = re.compile(
    r"""("[^"\\]*(?:\\.[^"\\]*)*"|'[^']*(?:''[^']*)*'|[^\s"'\[\]{}&*!|>%@`?].*?):(?: +(.*))?"""
)
_BLOCK = re.compile(r"[|>][-+0-9]*")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}


def parse_json(text: str) -> Any:
    """Return a JSON value; numbers with a point are decimals, endless ones stay text."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        # Only here is there a limit: the interpreter's is one that training loops raise.
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > _MAX_DEPTH:
            raise ClaimError(f"is nested deeper than {_MAX_DEPTH} levels; write claims alone")
    try:
        return json.loads(
            text,
            parse_float=lambda digits: Decimal(digits) if len(digits) <= _MAX_DIGITS else digits,
            parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else digits,
        )
    except ValueError as error:
        raise ClaimError(f"is not JSON ({str(error)[:_MAX_REASON]}); write it in one go") from None


def parse_yaml(text: str, word: str = "") -> list[Any]:
    """Return the documents of a stream of plain YAML, None for those without a word in them."""
    pieces = re.split(r"(?m)^---(?=\s|$)", text)
    return [_Document(piece).value() if word in piece else None for piece in pieces]


class _Document:
    """One document, line by line."""

    def __init__(self, text: str) -> None:
        self._lines: list[tuple[int, str]] = []  # indentation and what follows it
        for line in text.split("\n"):
            content = line.strip(" \r")
            if content and not content.startswith("#"):
                self._lines.append((len(line) - len(line.lstrip(" ")), content))
        self._next = 0

    def value(self) -> Any:
        """Return the value of the whole document."""
        if not self._lines:
            return None
        value = self._node(self._lines[0][0], _MAX_DEPTH)
        if self._next < len(self._lines):
            raise self._fault()
        return value

    def _fault(self) -> ClaimError:
        text = self._lines[min(self._next, len(self._lines) - 1)][1]
        return ClaimError(f"{quote(text)}: is not plain YAML; write JSON (kubectl get -o json)")

    def _at(self, indent: int) -> str | None:
        """Return the next line if it has this indentation."""
        if self._next == len(self._lines):
            return None
        actual, text = self._lines[self._next]
        return text if actual == indent else None

    def _node(self, indent: int, left: int) -> Any:
        """Return the value that begins in the next line, at its indentation."""
        if not left:
            raise ClaimError(f"is nested deeper than {_MAX_DEPTH} levels; write claims alone")
        text = self._at(indent) or ""
        if text == "-" or text.startswith("- "):
            return self._list(indent, left)
        if _PAIR.fullmatch(text):
            return self._mapping(indent, left)
        value = self._scalar(text)
        self._next += 1
        return value

    def _list(self, indent: int, left: int) -> list[Any]:
        values = []
        while (text := self._at(indent)) is not None and (text == "-" or text.startswith("- ")):
            rest = text[1:].lstrip()
            if rest:  # as if it stood in a line of its own
                inner = indent + len(text) - len(rest)
                self._lines[self._next] = inner, rest
                values.append(self._node(inner, left - 1))
            else:
                self._next += 1
                values.append(self._below(indent, left))
        return values

    def _mapping(self, indent: int, left: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while (text := self._at(indent)) is not None and (pair := _PAIR.fullmatch(text)):
            key, rest = str(self._scalar(pair[1].rstrip())), pair[2] or ""
            if key in values:
                raise ClaimError(f"{quote(key)}: is given twice; leave one out")
            if rest and not rest.startswith("#"):
                values[key] = "" if _BLOCK.fullmatch(rest) else self._scalar(rest)
                self._next += 1
                while _BLOCK.fullmatch(rest) and self._is_below(indent):
                    self._next += 1
            else:
                self._next += 1
                dash = (self._at(indent) or "").startswith("-")
                values[key] = self._list(indent, left - 1) if dash else self._below(indent, left)
        return values

    def _below(self, indent: int, left: int) -> Any:
        """Return the value in the next lines if they are indented by more than `indent`."""
        if not self._is_below(indent):
            return None
        return self._node(self._lines[self._next][0], left - 1)

    def _is_below(self, indent: int) -> bool:
        return self._next < len(self._lines) and self._lines[self._next][0] > indent

    def _scalar(self, text: str) -> Any:
        if text[0] in '"[{':
            return parse_json(text)
        if text[0] == "'":
            if len(text) < 2 or text[-1] != "'":
                raise self._fault()
            return text[1:-1].replace("''", "'")
        if text[0] in "&*!|>%@`?,]}":
            raise self._fault()
        text = text.partition(" #")[0].rstrip()
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text) and len(text) <= _MAX_DIGITS:
            return int(text)
        return text
