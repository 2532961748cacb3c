"""Reading and writing files: strict JSON and YAML in, whole files or none out.

YAML is read by the core schema of YAML 1.2 (``1:30``, ``0b1`` and ``yes`` are text). Aliases and
merge keys are followed, but a small file cannot become a large document. Tags are refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from metronome_opt.errors import InputError, check_path, error_context, format_path, quote

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 40
MAX_VALUES = 1_000_000  # of YAML, which is read slowly
MAX_DIGITS = 100
_MARK = ".metronome_"  # in the names of temporary files
_SUFFIXES = (".json", ".yaml", ".yml")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # an escape of JSON


def is_database(path: str | Path) -> bool:
    """Return whether a file is an SQLite database, as that of a cluster's state."""
    try:
        return read_bytes(Path(path), 16) == b"SQLite format 3\0"
    except InputError:
        return False


def open_file(path: str | Path, remedy: str = "name a file") -> BinaryIO:
    """Open an ordinary file to be read; a pipe or a device, which might never end, is refused."""
    path = check_path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer blocks
        try:
            _check_regular(path, os.fstat(descriptor).st_mode, remedy)
            return os.fdopen(descriptor, "rb")
        except InputError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from None


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Return the first bytes of a file, or all."""
    with open_file(path) as stream:
        try:
            return stream.read(most)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({_reason(error)})") from None


def read_document(path: str | Path) -> dict[str, Any]:
    """Read a JSON or YAML file whose top level is a mapping.

    A name that ends in ``.json`` is read as JSON, ``.yaml`` and ``.yml`` as YAML; any other as JSON
    if it begins with a brace, else as YAML.

    Raises
    ------
    InputError
        If the file cannot be read, is too large or too deep, is not text, is malformed, repeats a
        key or is not a mapping.
    """
    (document,) = _read(check_path(path))
    if not isinstance(document, dict):
        raise InputError(f"{path}: the top level must be a mapping, got {quote(document)}")
    return document


def read_documents(path: str | Path) -> list[dict[str, Any]]:
    """Read a YAML stream, or a JSON file, of mappings: none, one or several.

    Empty ones are omitted, and a list is the documents in it. Names and errors are as of
    `read_document`; messages count documents from 0.
    """
    documents: list[Any] = []
    for document in _read(check_path(path), many=True):
        documents += document if isinstance(document, list) else [document]
    for index, document in enumerate(documents):
        if document is not None and not isinstance(document, dict):
            raise InputError(f"{path}: document {index}: must be a mapping, got {quote(document)}")
    return [document for document in documents if document is not None]


def find_documents(folder: Path, *formats: str) -> list[Path]:
    """Return the JSON and YAML files of a folder that mention one of some formats, by name.

    Much faster than reading them; a file may be malformed, or mention the format of another one.
    """
    return [path for path in list_documents(folder) if path.is_file() and _mentions(path, formats)]


def list_documents(folder: Path) -> list[Path]:
    """Return the JSON and YAML files of a folder by name, but for hidden ones."""
    try:
        paths = [path for path in sorted(folder.iterdir()) if path.suffix in _SUFFIXES]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({_reason(error)})") from None
    return [path for path in paths if not path.name.startswith(".")]


def _mentions(path: Path, formats: Iterable[str]) -> bool:
    try:
        raw = read_bytes(path, MAX_BYTES)
    except InputError:
        return False
    return any(name.encode() in raw for name in formats)


def read_text(path: Path) -> str:
    """Return the text of a file; errors as of `read_document`."""
    raw = read_bytes(path, MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes, the maximum")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is {raw[error.start]:#04x}, not UTF-8 text"
        ) from None
    if "\0" in text:
        raise InputError(f"{path}: character {text.index(chr(0))} is NUL, not text")
    return text


def parse_yaml(text: str) -> Any:
    """Return the value of YAML text inside another document; errors as of `read_document`."""
    (document,) = _parse_yaml(text)
    return document


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path`; the file is replaced whole or not at all."""
    with staged(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_folder(path: str | Path) -> None:
    """Make a folder and its parents, unless they exist."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be made a folder ({_reason(error)})") from None


def check_targets(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that cannot be written, before any work; None stands for no output.

    No output may be an input, or another output.
    """
    taken = {os.path.realpath(path): "is the input" for path in inputs}
    for path in outputs:
        if path is None:
            continue
        target = os.path.realpath(path)
        if target in taken:
            raise InputError(f"{path}: {taken[target]}; name another file to write")
        taken[target] = "is named for two outputs"
        with _temporary_for(path):
            pass


@contextmanager
def staged(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that replaces it if the block succeeds.

    The temporary file has the suffix of `path`, for writers that choose a format by it.
    """
    path = check_path(path)
    with _temporary_for(path) as temporary:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)


@contextmanager
def _temporary_for(path: Path) -> Iterator[Path]:
    """Yield a new file beside `path`, and remove it, and those that killed programs left there.

    Its lock, which ends with the program, states that it is in use.
    """
    try:
        with suppress(FileNotFoundError):
            _check_regular(path, path.stat().st_mode)
        _remove_left(path.parent)
        prefix = f".{path.stem[:40]}{_MARK}"
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=path.suffix)
        temporary = Path(name)
        try:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            temporary.touch()  # another program may have removed it before it was locked
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
            os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from None


@cache  # once for a folder: a list of it for every file takes quadratic time
def _remove_left(folder: Path) -> None:
    """Remove temporary files whose lock no program holds."""
    for left in filter(Path.is_file, folder.glob(f".*{_MARK}*")):
        with suppress(OSError), left.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _check_regular(path: Path, mode: int, remedy: str = "name a file") -> None:
    """Refuse a folder, and what is no file."""
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not an ordinary file"
        raise InputError(f"{path}: is {what}; {remedy}")


def _read(path: Path, *, many: bool = False) -> list[Any]:
    """Return the document in a file, or all of a YAML stream."""
    text = read_text(path)
    is_yaml = path.suffix in {".yaml", ".yml"}
    is_json = path.suffix == ".json" or (not is_yaml and text.lstrip()[:1] == "{")
    with error_context(path):
        return [_parse_json(text)] if is_json else _parse_yaml(text, many=many)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


# ------------------------------------------------------------------ JSON


def _parse_json(text: str) -> Any:
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=float, parse_int=_integer
        )
        _check_depth(document)
        if _SURROGATE.search(text):
            _check_text(document)
        return document
    except RecursionError:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"line {error.lineno}, column {error.colno}: not JSON ({error.msg})"
        ) from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise InputError(
            f"the integer {quote(digits)} has {len(digits)} digits, above the limit of {MAX_DIGITS}"
        )
    return int(digits)


def _check_depth(value: object, left: int = MAX_DEPTH) -> None:
    """Refuse a value of more levels than a YAML file may have."""
    if isinstance(value, (dict, list)):
        if not left:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, left - 1)


def _check_text(value: object, path: tuple[str | int, ...] = ()) -> None:
    """Refuse text with half of a character, a lone surrogate, which no file can have."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_text(key, path)
            _check_text(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_text(inner, (*path, index))
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            place = f"{format_path(path)}: " if path else ""
            raise InputError(f"{place}must be valid Unicode text, got {quote(value)}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise InputError(f"key {quote(key)} is given twice")
        mapping[key] = value
    return mapping


# ------------------------------------------------------------------ YAML


def _parse_yaml(text: str, *, many: bool = False) -> list[Any]:
    try:
        _check_text(text)
        return _YamlReader(text).documents(many)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{where}not YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML ({error})") from None


class _YamlReader:
    """Builder of values from the events of a YAML parser, in one pass.

    PyYAML's own composer is not used: it recurses without a limit in depth, and resolves scalars as
    YAML 1.1 does.
    """

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._count = 0  # values so far, with those of aliases
        self._anchors: dict[str, tuple[Any, int]] = {}  # values, and the number of values in them

    def documents(self, many: bool) -> list[Any]:
        """Return all documents; without `many` the only one, None if there is none."""
        documents: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if documents and not many:
                    raise InputError(f"line {_line(event)}: a second document begins; give one")
                self._anchors.clear()
                documents.append(self._value(next(self._events), MAX_DEPTH))
        return documents if documents or many else [None]

    def _value(self, event: Any, left: int) -> Any:
        """Return the value that begins with an event, of at most `left` levels."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, left)
        if event.tag is not None:
            raise InputError(f"line {_line(event)}: tag {quote(event.tag)} (tags are not accepted)")
        before = self._count
        self._add(1, event)
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = event.value if event.style else _scalar(event.value)
        elif not left:
            raise InputError(f"line {_line(event)}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.SequenceStartEvent):
            value = list(self._elements(left - 1))
        else:
            value = self._mapping(left - 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - before
        return value

    def _elements(self, left: int) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._value(event, left)

    def _mapping(self, left: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._value(event, left)
            value = self._value(next(self._events), left)
            if not isinstance(key, str):
                raise InputError(f"line {_line(event)}: keys must be text, got {quote(key)}")
            if key in mapping:
                raise InputError(f"line {_line(event)}: key {quote(key)} is given twice")
            if key == "<<":
                for base in reversed(value if isinstance(value, list) else [value]):
                    if not isinstance(base, dict):
                        raise InputError(f"line {_line(event)}: << merges mappings alone")
                    merged |= base
            else:
                mapping[key] = value
        return merged | mapping

    def _alias(self, event: yaml.AliasEvent, left: int) -> Any:
        """Return a copy of the value of an alias; copies count, so that bombs are refused."""
        if event.anchor not in self._anchors:
            raise InputError(
                f"line {_line(event)}: alias *{event.anchor}: no value before it has "
                f"the anchor &{event.anchor}"
            )
        value, size = self._anchors[event.anchor]
        self._add(size, event)
        _check_depth(value, left)
        return deepcopy(value)

    def _add(self, count: int, event: yaml.Event) -> None:
        self._count += count
        if self._count > MAX_VALUES:
            raise InputError(
                f"line {_line(event)}: more than {MAX_VALUES} values; use JSON for so many"
            )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


_CONSTANTS: Mapping[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _scalar(text: str) -> Any:
    """Return the value of a plain scalar by the core schema of YAML 1.2, but for 0o17 and 0x1F."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "+-.0123456789":
        if _INTEGER.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _SPECIAL.fullmatch(text):
            return float(text.replace(".", "").lower())
    return text
