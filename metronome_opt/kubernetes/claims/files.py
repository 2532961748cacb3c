"""Manifests as files: YAML of one meaning to all readers, in a folder that kubectl applies.

A file is the old one or the new one, never a part. Only files that an export wrote are ever
replaced or removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from metronome_opt.errors import InputError, quote
from metronome_opt.files.documents import (
    list_documents,
    make_folder,
    read_documents,
    write_text,
)
from metronome_opt.kubernetes.claims.names import Manifests, read_shipped

_HEADERS: Mapping[str, str] = read_shipped("headers.yaml")[0]
*OBJECT_FILES, _KUSTOMIZATION = _HEADERS
_GATES = "gates.json"  # a copy of the claims for gates, which read no YAML

# First line of the index, by which an export is recognised.
_SIGNATURE = f"# {_HEADERS[_KUSTOMIZATION].splitlines()[0]}"
# Files of an export, and temporary ones of a killed export.
_OURS = re.compile(
    "|".join(rf"\.?{Path(name).stem}(\.\w+)?\.(yaml|json)" for name in (*_HEADERS, _GATES))
)
_WIDTH = 96
_PLAIN = re.compile(r"\.?[A-Za-z].+", re.DOTALL)


def read_manifests(paths: Iterable[str | Path]) -> Iterator[tuple[str, Any]]:
    """Yield the documents of files and of the files in folders, with their locations."""
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = [file for file in list_documents(path) if file.name != _GATES]
        if not inside:
            raise InputError(f"{path}: holds no .yaml, .yml or .json; name a folder of manifests")
        for file in inside if path.is_dir() else ():
            if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(path)):
                raise InputError(f"{file}: is a link to elsewhere; name what it links to")
        for file in inside:
            documents = read_documents(file)
            for index, document in enumerate(documents, start=1):
                number = f": document {index}" if len(documents) > 1 else ""
                yield f"{file}{number}", document


def write_manifests(manifests: Manifests, directory: str | Path) -> list[Path]:
    """Write objects by file; return the files.

    The folder is missing, empty or written by an earlier export. Equal objects give equal bytes.
    """
    folder = Path(directory)
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    index = {**kind, "resources": list(manifests)}
    texts = {name: dump_objects(items, header=_HEADERS[name]) for name, items in manifests.items()}
    texts[_GATES] = json.dumps({"items": list(manifests.get("claims.yaml", ()))}, indent=1) + "\n"
    texts[_KUSTOMIZATION] = dump_objects([index], header=_HEADERS[_KUSTOMIZATION])
    old = check_folder(folder)
    make_folder(folder)
    # First the index, by which even an interrupted export is recognised.
    for name in sorted(texts, key=lambda name: name != _KUSTOMIZATION):
        write_text(folder / name, texts[name])
    for name in old - texts.keys():
        (folder / name).unlink(missing_ok=True)
    return [folder / name for name in texts]


def check_folder(directory: str | Path) -> set[str]:
    """Return the names of the files in a folder, all written by exports; refuse any other file."""
    folder = Path(directory)
    try:
        if not folder.exists():
            return set()
        if not folder.is_dir():
            raise InputError(f"{folder}: is a file; name a folder")
        entries = sorted(folder.iterdir())
        foreign = [
            path
            for path in entries
            if not _OURS.fullmatch(path.name) or path.is_symlink() or not path.is_file()
        ]
        index = folder / _KUSTOMIZATION
        if entries and not foreign:
            first = index.read_bytes().splitlines()[:1] if index in entries else []
            if first != [_SIGNATURE.encode()]:
                foreign = [index if index in entries else entries[0]]
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{folder}: cannot be written ({reason})") from None
    if foreign:
        name = quote(foreign[0].name)
        raise InputError(f"{folder}: holds {name}, which no export wrote; name another folder")
    return {entry.name for entry in entries}


class _Dumper(yaml.SafeDumper):
    """The safe dumper in pure Python, which writes equal bytes on all machines."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class asks for it)
        """Write everything out; anchors help no reader of a manifest."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent lists under their key."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote text that a YAML reader might take for a number or a truth value.

    To readers in Go ``1e3`` is a number and ``y`` a truth value. Only text of two characters or
    more that begins with a letter stays plain; PyYAML quotes words with a meaning, such as ``no``.
    """
    style = None if _PLAIN.fullmatch(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_objects(
    objects: Iterable[Mapping[str, Any]], header: str = "", *, compact: bool = False
) -> str:
    """Return plain values as a YAML stream, with their keys in order.

    Parameters
    ----------
    objects
        The values.
    header
        Comment lines that go before them.
    compact
        Write lists and mappings of plain values on one line, for people.
    """
    body: str = yaml.dump_all(
        [dict(item) for item in objects],
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=not compact,
        default_flow_style=None if compact else False,
        allow_unicode=True,
        width=_WIDTH,
    )
    return "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines()) + body
