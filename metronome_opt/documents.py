"""Reading and writing files: strict JSON and YAML in, whole files or none out.

YAML is read by the core schema of YAML 1.2 as far as numbers go (``1:30`` and ``0b1`` are text),
without aliases, so that a small file cannot become a large document, and without tags, so that
every value is what it looks like.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from metronome_opt.errors import InputError, quote

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 40
MAX_EVENTS = 2_000_000  # YAML is read slowly
MAX_DIGITS = 100
PATIENCE_S = 10  # for a pipe


def read_document(path: str | Path, *, most_bytes: int | None = None) -> dict[str, Any]:
    """Read a JSON or YAML file whose top level is a mapping.

    Parameters
    ----------
    path
        The file. A name that ends in ``.json`` is read as JSON, ``.yaml`` and ``.yml`` as YAML;
        any other as JSON if it begins with a brace, else as YAML.
    most_bytes
        How large it may be; `MAX_BYTES` if left out, more for files that we have written.

    Returns
    -------
    dict
        The document as plain Python values.

    Raises
    ------
    InputError
        If the file cannot be read, is too large or too deep, is not text, is malformed, repeats a
        key or is not a mapping.
    """
    (document,) = _read(Path(path), MAX_BYTES if most_bytes is None else most_bytes)
    if not isinstance(document, dict):
        raise InputError(f"{path}: the top level must be a mapping, got {quote(document)}")
    return document


def read_documents(path: str | Path) -> list[dict[str, Any]]:
    """Read a YAML stream, or a JSON file, of mappings: none, one or several.

    Parameters
    ----------
    path
        The file; its name says what it is, as in `read_document`.

    Returns
    -------
    list of dict
        The documents as plain Python values, without empty ones.

    Raises
    ------
    InputError
        As `read_document` does; the message counts documents from 0.
    """
    documents = _read(Path(path), MAX_BYTES, many=True)
    for index, document in enumerate(documents):
        if document is not None and not isinstance(document, dict):
            raise InputError(f"{path}: document {index}: must be a mapping, got {quote(document)}")
    return [document for document in documents if document is not None]


def parse_yaml(text: str) -> Any:
    """Return what YAML inside another document says, as plain Python values.

    Raises
    ------
    InputError
        If it is malformed, too deep or repeats a key.
    """
    (document,) = _parse_yaml(text)
    return document


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` so that the file is whole or untouched, whatever happens."""
    with staged(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_folder(path: str | Path) -> None:
    """Make a folder and its parents; one that exists stays as it is."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be made a folder ({_reason(error)})") from None


def check_targets(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Refuse what cannot be written, before the work that is to fill it.

    Parameters
    ----------
    inputs
        Files that are read; none of them may be written.
    outputs
        Files to be written, each another one; None stands for an output that nobody wants.
    """
    taken = {os.path.realpath(path): "is the input" for path in inputs}
    for path in outputs:
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise InputError(f"{path}: {taken[place]}; name another place to write")
        taken[place] = "is named for two outputs"
        _temporary_for(path).unlink()


@contextmanager
def staged(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that takes its place when the block ends well.

    The temporary file keeps the suffix of `path`, for writers that choose a format by it.
    """
    path = Path(path)
    temporary = _temporary_for(path)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _temporary_for(path: Path) -> Path:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(f"{path}: is a folder; name a file")
        if not stat.S_ISREG(kind):
            raise InputError(f"{path}: is not an ordinary file; name one")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from None
    try:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.stem[:40]}.", suffix=path.suffix
        )
        os.close(handle)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from None
    return Path(name)


def _read(path: Path, most_bytes: int, *, many: bool = False) -> list[Any]:
    """Return the document in a file, or all of a YAML stream."""
    text = _read_text(path, most_bytes)
    is_yaml = path.suffix in {".yaml", ".yml"}
    try:
        if path.suffix == ".json" or (not is_yaml and text.lstrip()[:1] == "{"):
            return [_parse_json(text)]
        return _parse_yaml(text, many=many)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_text(path: Path, most_bytes: int) -> str:
    try:
        with _opened(path) as stream:
            raw = stream.read(most_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({_reason(error)})") from None
    if len(raw) > most_bytes:
        raise InputError(f"{path}: larger than {most_bytes} bytes, the most that is read")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is {raw[error.start]:#04x}, not UTF-8 text"
        ) from None
    if "\0" in text:
        raise InputError(f"{path}: character {text.index(chr(0))} is NUL, not text")
    return text


def _opened(path: Path) -> BinaryIO:
    """Open a file, or a pipe into which somebody writes, for reading."""
    # Opened as other files are, a pipe would be waited for until somebody writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    stream = os.fdopen(handle, "rb")
    if (
        stat.S_ISFIFO(os.fstat(handle).st_mode)
        and not select.select([handle], [], [], PATIENCE_S)[0]
    ):
        stream.close()
        raise InputError(f"{path}: nobody has written into this pipe for {PATIENCE_S} s")
    os.set_blocking(handle, True)
    return stream


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


# ------------------------------------------------------------------ JSON


def _parse_json(text: str) -> Any:
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=float, parse_int=_integer
        )
        _check_depth(document)
        return document
    except InputError:
        raise
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
    """Refuse what YAML would be refused for as well."""
    if isinstance(value, (dict, list)):
        if not left:
            raise InputError(f"nested deeper than {MAX_DEPTH} levels")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_depth(inner, left - 1)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InputError(f"key {quote(key)} is given twice")
            seen.add(key)
    return mapping


# ------------------------------------------------------------------ YAML


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, with decimal numbers and truth values as in YAML 1.2 and unique keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own attribute)


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise InputError(f"line {line}: keys must be text, got {quote(key)}")
        if key in mapping:
            raise InputError(f"line {line}: key {quote(key)} is given twice")
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_SCALARS = {
    "null": (r"^(?:null|Null|NULL|~|)$", "nN~\0"),
    "bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    "int": (r"^[-+]?[0-9]+$", "-+0123456789"),
    "float": (
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
}
for _tag, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: _integer(node.value))


def _parse_yaml(text: str, *, many: bool = False) -> list[Any]:
    try:
        _check_events(text)
        if many:
            return list(yaml.load_all(text, Loader=_Loader))
        return [yaml.load(text, Loader=_Loader)]  # noqa: S506 (derived from the safe loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise InputError(f"{where}not YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML ({error})") from None


def _check_events(text: str) -> None:
    """Refuse aliases, tags and deep nesting before any object is built from the text."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if count > MAX_EVENTS:
            raise InputError(f"line {line}: more than {MAX_EVENTS} values; use JSON for so many")
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"line {line}: alias *{event.anchor} (aliases are not accepted)")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise InputError(f"line {line}: tag {quote(tag)} (tags are not accepted)")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise InputError(f"line {line}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
