"""Values of a JSON document of entries, or of lines of JSON, read one at a time.

Text is taken for Latin-1, one byte for a character, and is not kept, so that memory is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.source import Budget, Source

LISTS = ("traceEvents", "nodes", "workload_graph", "entries")
"""Keys of lists of entries."""

BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may stand before JSON."""

_MAX_ENTRY = 2**22  # bytes of an event, a node or a line
_BETWEEN = re.compile(r"[\s,:ï»¿]*")
_DECODER = json.JSONDecoder(strict=False)


class JsonStream:
    """A JSON document of entries, or lines of JSON, read from its beginning to its end.

    `fields` are what the document, or its last line, has beside its entries.
    """

    def __init__(self, source: Source, budget: Budget) -> None:
        self._source, self._budget = source, budget
        self._text, self._at, self._has_more = "", 0, True  # text from the line on
        self._line, self._counted = 1, 0  # number of the line of the last value, and where it is
        self._place = (1, 0)  # line and number of an entry
        self.fields: dict[str, Any] = {}

    def pass_to(self, take: Callable[[Any], None]) -> None:
        """Pass entries of known lists, or lines, to a function."""
        lines = 0
        while letter := self._letter():
            begin = self._mark(lines)
            try:
                if letter == "{":
                    lines += self._mapping(take, lines)
                else:
                    self._list(take)
            except (ValueError, RecursionError) as error:
                (line, entry), known = self._place, isinstance(error, InputError)
                if lines and not self._budget.is_spent and self._ends_in(begin):
                    return  # the job was killed while it wrote a line
                what = str(error) if known else "cut off, too long, or not JSON; trace again"
                raise InputError(f"line {line}, entry {entry}: {what}") from None

    def _mark(self, entry: int) -> int:
        """Note that an entry begins here; return the number of its line."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        self._place = self._line, entry
        return self._line

    def _ends_in(self, line: int) -> bool:
        """Return whether a line is the last one, and has no end."""
        self._fill()
        is_there = self._line + self._text.count("\n", self._counted) == line
        return is_there and not self._has_more

    def _fill(self) -> None:
        """Drop the text before this position, and read more."""
        self._line += self._text.count("\n", self._counted, self._at)
        more = self._source.read(_MAX_ENTRY) if self._has_more else b""
        self._has_more = len(more) == _MAX_ENTRY
        self._text = self._text[self._at :] + more.decode("latin-1")
        self._at = self._counted = 0

    def _letter(self) -> str:
        """Return the letter at which the next value begins, or a list or mapping ends."""
        while True:
            between = _BETWEEN.match(self._text, self._at)
            self._at = between.end() if between else self._at
            if self._at < len(self._text) or not self._has_more:
                return self._text[self._at : self._at + 1]
            self._fill()

    def _value(self) -> Any:
        """Return the value that begins here."""
        try:
            value, end = _DECODER.raw_decode(self._text, self._at)
        except (ValueError, IndexError):  # it ends in the next part, or nowhere
            end = -1
        if not 0 <= end < len(self._text) and self._has_more:
            if len(self._text) - self._at < _MAX_ENTRY:
                self._fill()
            end = -1
        if end < 0:
            value, end = _DECODER.raw_decode(self._text, self._at)
        self._at = end
        return value

    def _list(self, take: Callable[[Any], None] | None) -> None:
        """Pass the values of a list."""
        if self._letter() != "[":
            raise ValueError
        self._at, count = self._at + 1, 0
        while self._letter() != "]":
            self._mark(count)
            value = self._value()
            self._budget.take("entries")
            if take is not None:
                take(value)
            count += 1
        self._at += 1

    def _mapping(self, take: Callable[[Any], None], count: int) -> bool:
        """Pass the lists of a mapping, else the mapping as a line; return whether it is one."""
        fields: dict[str, Any] = {}
        self.fields = fields
        is_line, place = True, self._place
        self._at += 1
        while self._letter() != "}":
            self._mark(count)
            key = self._value()
            self._budget.take("entries")
            if not isinstance(key, str):
                self._place = place
                raise ValueError
            if key in LISTS and self._letter() == "[":
                is_line, fields[key] = False, None
                self._list(take)
            else:
                fields[key] = self._field()
        self._at += 1
        if is_line:
            self._place = place
            take(fields)
        return is_line

    def _field(self) -> Any:
        """Return the value that begins here; of a list that is too long, nothing."""
        letter = self._letter()
        try:
            return self._value()
        except ValueError:
            if letter != "[":
                raise
            return self._list(None)
