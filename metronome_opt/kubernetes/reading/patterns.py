"""Patterns of Go's RE2, which Volcano takes, as Python reads them."""

from __future__ import annotations

import re
from warnings import catch_warnings

from metronome_opt.errors import quote
from metronome_opt.kubernetes.reading.fields import Field

_POSIX = {  # ranges of characters
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t\ ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r\ ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(
    r"\\Q(?P<literal>.*?)(?:\\E|$)"
    r"|\\(?P<escape>.)"
    r"|\[(?P<inverted>\^?)(?P<first>\]?)(?P<inner>(?:\[:\^?\w+:\]|\\.|[^]\\])*)\]"
    r"|\(\?(?P<flags>P?<(?![=!])|[imsU-]*[:)])"
    r"|(?P<foreign>\(\?..?|[*+?}]\+)",
    re.DOTALL,
)
_IN_CLASS = re.compile(r"\[:(\^?)(\w+):\]|\\.|[\[&~|]|-(?=-)", re.DOTALL)
_ESCAPES_OF_PYTHON = "ZNuU123456789"

_PLAIN = re.compile(r"\\.|\[\^?\]?(\[:\^?\w+:\]|\\.|[^]\\])*\]")  # no choices
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEAT = re.compile(r"[*+]|\{[0-9]*,|(?<!\()\?")
_MAX_CHOICES = 4  # repeats and groups of alternatives in a pattern, which multiply the attempts


def compile_pattern(pattern: Field) -> re.Pattern[str]:
    """Return a pattern that matches as RE2 does; refuse one that Python cannot read so."""
    text = pattern.text(longest=10**4)
    try:
        with catch_warnings(action="error"):
            regex = re.compile(_TOKEN.sub(_translate, text), re.ASCII)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        must = "must be a regular expression that RE2 and Python read in the same way"
        pattern.fail(f"{must} ({error}); write it otherwise, or names by exactMatch")
    if not _is_fast(text):
        most = f"must repeat no group, and have at most {_MAX_CHOICES} repeats and groups"
        pattern.fail(f"{most}, or it may match for ever; write several members")
    return regex


def _translate(token: re.Match[str]) -> str:
    """Return a part of a pattern of RE2 as Python reads it."""
    literal, escape, first, flags, foreign = token.group(
        "literal", "escape", "first", "flags", "foreign"
    )
    if foreign is not None or (escape is not None and escape in _ESCAPES_OF_PYTHON):
        raise re.error(f"{quote(token[0])} is not of RE2")
    if literal is not None:
        return re.escape(literal)
    if escape is not None:
        return r"\Z" if escape == "z" else token[0]
    if flags is not None:
        return "(?P<" if flags.endswith("<") else token[0]
    bracket = "\\]" if first else ""  # which is no end there
    return f"[{token['inverted']}{bracket}{_IN_CLASS.sub(_in_class, token['inner'])}]"


def _in_class(part: re.Match[str]) -> str:
    """Return a part of a class of characters: POSIX names as ranges, signs of Python escaped."""
    if part[2] is None:
        return part[0] if part[0].startswith("\\") else f"\\{part[0]}"
    if part[2] not in _POSIX:
        raise re.error(f"{quote(part[0])} is no class of RE2")
    if not part[1]:
        return _POSIX[part[2]]
    inside = re.compile(f"[{_POSIX[part[2]]}]")
    others = (rf"\x{code:02x}" for code in range(128) if not inside.match(chr(code)))
    return "".join(others) + r"\x80-\U0010ffff"


def _is_fast(pattern: str) -> bool:
    """Return True if backtracking through a pattern is sure to end soon."""
    plain = _PLAIN.sub("x", pattern)
    groups = plain.count("(") if "|" in plain else 0
    choices = len(_REPEAT.findall(plain)) + groups
    return _REPEATED_GROUP.search(plain) is None and choices <= _MAX_CHOICES
