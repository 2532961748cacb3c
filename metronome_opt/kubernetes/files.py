"""Manifests as files: YAML that every reader understands alike, in a folder that kubectl applies.

The folder is the old one or the new one, never a mixture: the new files are written to a folder
beside it and moved into place when they are on disk. Only files that an export wrote are ever
removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from metronome_opt.documents import read_documents
from metronome_opt.errors import InputError, quote
from metronome_opt.kubernetes.schemas import KUSTOMIZATION, Manifests, read_shipped

_SUFFIXES = (".yaml", ".yml", ".json")
_HEADERS: Mapping[str, str] = read_shipped("headers.yaml")[0]
*OBJECT_FILES, _KUSTOMIZATION = _HEADERS

# First line of the index, by which an export is recognised.
_SIGNATURE = f"# {_HEADERS[_KUSTOMIZATION].splitlines()[0]}"
_WIDTH = 96
_PLAIN = re.compile(r"\.?[A-Za-z].+", re.DOTALL)


def read_manifests(paths: Iterable[str | Path]) -> Iterator[tuple[str, Any]]:
    """Yield the documents of files and of the files in folders, each with its place.

    Raises
    ------
    InputError
        If a file cannot be read, or a folder holds no YAML or JSON.
    """
    for path in map(Path, paths):
        inside = [path]
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not inside:
            raise InputError(f"{path}: holds no .yaml, .yml or .json; name a folder of manifests")
        for file in inside:
            documents = read_documents(file)
            for index, document in enumerate(documents, start=1):
                number = f": document {index}" if len(documents) > 1 else ""
                yield f"{file}{number}", document


def write_manifests(manifests: Manifests, directory: str | Path) -> list[Path]:
    """Write objects by file; all files or none. Return the files.

    The folder is missing, empty or written by an earlier export. An interrupted export leaves the
    previous one whole. What was written for the same objects before comes out byte for byte the
    same.

    Raises
    ------
    InputError
        If the folder cannot be written or holds files of others.
    """
    texts = _texts(manifests)
    _Folder(directory).replace(texts)
    return [Path(directory) / name for name in texts]


def check_folder(directory: str | Path) -> None:
    """Raise InputError if an export could not replace a folder: it holds what no export wrote."""
    _Folder(directory).check()


def _texts(manifests: Manifests) -> dict[str, str]:
    """Return the text of each file."""
    version, kind = KUSTOMIZATION
    index = {"apiVersion": version, "kind": kind, "resources": list(manifests)}
    files = {**manifests, _KUSTOMIZATION: [index]}
    return {name: dump_objects(items, header=_HEADERS[name]) for name, items in files.items()}


class _Folder:
    """A folder that exports write and replace; it may be missing."""

    def __init__(self, directory: str | Path) -> None:
        self.name = Path(directory)
        self.target = Path(directory).resolve()  # a link stays, what it points to is replaced
        if not self.target.name:
            raise InputError(f"{self.name}: cannot be replaced; name a folder below it")
        self.fresh = self.target.with_name(f".{self.target.name}.metronome-new")
        self.former = self.target.with_name(f".{self.target.name}.metronome-old")

    def check(self) -> None:
        """Refuse a folder that cannot be replaced."""
        with self._writing():
            if not self.target.exists():
                return
            if not self.target.is_dir():
                raise InputError(f"{self.name}: is a file; name a folder")
            foreign = self._foreign()
            if foreign is not None:
                raise InputError(
                    f"{self.name}: holds {quote(foreign)}, which no export wrote; "
                    "move it away or name another folder"
                )

    def replace(self, texts: Mapping[str, str]) -> None:
        """Make these the files of the folder."""
        with self._writing():
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with _opened(self.target.parent) as parent:
                with contextlib.suppress(OSError):  # some network file systems do not lock folders
                    fcntl.flock(parent, fcntl.LOCK_EX)
                self._settle()
                self.check()
                try:
                    self.fresh.mkdir()
                    for name, text in texts.items():
                        with (self.fresh / name).open("w", encoding="utf-8", newline="\n") as file:
                            file.write(text)
                            file.flush()
                            os.fsync(file.fileno())
                    with _opened(self.fresh) as folder:
                        _sync(folder)
                    if self.target.exists():
                        self.target.rename(self.former)
                    self.fresh.rename(self.target)
                    _sync(parent)
                finally:
                    self._settle()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn failures of the system into errors that name the folder."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{self.name}: cannot be written ({reason})") from None

    def _settle(self) -> None:
        """Clear up after an export, this one or a killed one, keeping the last whole folder."""
        if self.former.exists():
            if not self.target.exists() or not any(self.target.iterdir()):
                self.former.rename(self.target)
            elif self._foreign() is None:
                self._remove(self.former)
        if self.fresh.exists():
            self._remove(self.fresh)

    def _foreign(self) -> str | None:
        """Return the first entry of the target that no export wrote; None if there is none."""
        entries = sorted(self.target.iterdir())
        for entry in entries:
            if entry.name not in _HEADERS or entry.is_symlink() or not entry.is_file():
                return entry.name
        if not entries:
            return None
        signed = self.target / _KUSTOMIZATION
        if signed not in entries:
            return entries[0].name
        with signed.open("rb") as stream:
            first = stream.readline(len(_SIGNATURE) + 2)
        return None if first.rstrip(b"\r\n") == _SIGNATURE.encode() else signed.name

    def _remove(self, folder: Path) -> None:
        """Remove a folder of ours, but nothing in it that an export could not have written."""
        for name in _HEADERS:
            (folder / name).unlink(missing_ok=True)
        left = sorted(entry.name for entry in folder.iterdir())
        if left:
            raise InputError(
                f"{folder}: left by an export, holds {quote(left[0])}, which no export wrote; "
                "move it away"
            )
        folder.rmdir()


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _sync(folder: int) -> None:
    """Bring the entries of a folder to disk, where the file system can."""
    with contextlib.suppress(OSError):
        os.fsync(folder)


class _Dumper(yaml.SafeDumper):
    """The safe dumper in pure Python, so that the bytes are the same on every machine."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class asks for it)
        """Write everything out; anchors help no reader of a manifest."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent lists under their key."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote text that a YAML reader might take for a number or a truth value.

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
    """Return plain values as a YAML stream, after comment lines, the keys in the order they have.

    Compact is for people: what holds nothing but plain values stands on one line.
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
