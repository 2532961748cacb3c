"""Manifests from files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from metronome_opt.documents import read_documents
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.objects import Document

_SUFFIXES = (".yaml", ".yml", ".json")


def read_manifests(paths: Iterable[str | Path]) -> Iterator[tuple[str, Document]]:
    """Yield the documents of files and of the files in folders, each with where it stands.

    Raises
    ------
    InputError
        If a file cannot be read, or a folder holds no YAML or JSON.
    """
    for path in _files(paths):
        documents = read_documents(path)
        for index, document in enumerate(documents, start=1):
            place = f": document {index}" if len(documents) > 1 else ""
            yield f"{path}{place}", document


def _files(paths: Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        inside = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not inside:
            raise InputError(f"{path}: holds no .yaml, .yml or .json; name a folder of manifests")
        yield from inside
