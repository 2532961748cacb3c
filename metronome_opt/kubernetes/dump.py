"""Objects as YAML that every reader understands alike and that diffs well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_WIDTH = 96
_PLAIN = re.compile(r"\.?[A-Za-z].+", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """The safe dumper in pure Python, so that the bytes are the same on every machine."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class asks for it)
        """Write everything out; anchors help no reader of a manifest."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent lists under their key."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote what any YAML reader might take for a number or a truth value.

    PyYAML itself quotes what *it* would read so. Readers in Go differ: to them ``1e3`` is a number
    and ``y`` a truth value. Only text of two characters or more that begins with a letter is
    left plain, and of that PyYAML quotes the words with a meaning, such as ``true`` and ``no``.
    """
    style = None if _PLAIN.fullmatch(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_objects(
    objects: Iterable[Mapping[str, Any]], header: str = "", *, compact: bool = False
) -> str:
    """Return plain values as a YAML stream, the keys in the order they have.

    Parameters
    ----------
    objects
        The documents.
    header
        Text for comment lines before the first one.
    compact
        For people: what holds nothing but plain values stands on one line.
    """
    body: str = yaml.dump_all(
        [dict(each) for each in objects],
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=not compact,
        default_flow_style=None if compact else False,
        allow_unicode=True,
        width=_WIDTH,
    )
    return "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines()) + body
