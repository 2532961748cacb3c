"""Immutable, validated records, with errors that name location and value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)
from pydantic_core import PydanticCustomError, core_schema

from metronome_opt.errors import MAX_FAULTS, InputError, error_context, format_path, quote
from metronome_opt.files.documents import read_document

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import ErrorDetails, InitErrorDetails


def _label(name: str) -> str:
    if not name.isprintable() or name.strip() != name:
        raise PydanticCustomError("name", "must be printable text without spaces around it")
    return name


Name = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_label)]


def _whole(value: Any) -> Any:
    """Return a float with an integer value, such as 1e5, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Positive = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
NonNegative = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Jitter = Annotated[Share | None, Field(exclude_if=lambda share: share is None)]
"""Standard deviation of computing times as a share of them; None if unknown."""

_EXACT = re.compile(r"-?[0-9]+(/0*[1-9][0-9]*)?")
_MAX_EXACT = 1000  # characters


def _exact(value: Any) -> Any:
    """Return an exact number of a Fraction, an int, or text such as ``199/5``."""
    if isinstance(value, Fraction | int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, str) and len(value) <= _MAX_EXACT and _EXACT.fullmatch(value):
        return Fraction(value)
    raise PydanticCustomError("exact", "must be an exact number as text, such as '199/5'")


Exact = Annotated[Fraction, BeforeValidator(_exact), PlainSerializer(str, return_type=str)]


def _thaw(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(Mapping[K, V]):
    """An immutable mapping, hashed by its entries in any order."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._entries = dict(entries)

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


FrozenMap = Annotated[
    Mapping[K, V], BeforeValidator(_thaw), AfterValidator(FrozenDict), PlainSerializer(dict)
]


def _limit_faults(schema: Any, *, is_root: bool = False) -> Any:
    """Let validation of a model end after some faults; models inside have their own schemas."""
    if isinstance(schema, list):
        return [_limit_faults(inner) for inner in schema]
    if not isinstance(schema, dict) or (schema["type"] == "model" and not is_root):
        return schema
    for key in _INNER & schema.keys():
        schema[key] = _limit_faults(schema[key], is_root=is_root)
    kind = schema["type"]
    if kind == "model-fields":
        known = schema["fields"]
        for field in known.values():
            field["schema"] = _limit_faults(field["schema"])

        def drop_most(value: Any) -> Any:
            """Drop most unknown fields of one that has too many; the others are faults enough."""
            if not isinstance(value, dict) or len(value) <= len(known) + MAX_FAULTS:
                return value
            unknown = islice((name for name in value if name not in known), MAX_FAULTS)
            return {name: value[name] for name in (*known, *unknown) if name in value}

        return core_schema.no_info_before_validator_function(drop_most, schema)
    if kind in ("list", "dict") or "variadic_item_index" in schema:
        schema["fail_fast"] = True
        return core_schema.no_info_wrap_validator_function(_find_faults, schema)
    return schema


_INNER = {"schema", "items_schema", "keys_schema", "values_schema", "choices", "steps"}


def _find_faults(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Validate a list or mapping, one item at a time if it is at fault."""
    try:
        return validate(value)
    except ValidationError as error:
        if not isinstance(value, list | tuple | dict) or len(value) < 2:
            raise
        found = [_restate(fault) for fault in error.errors(include_url=False) if not fault["loc"]]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        try:
            validate({key: item} if isinstance(value, dict) else [item])
        except ValidationError as error:
            faults = error.errors(include_url=False)
            found += [_restate(fault, key) for fault in faults if fault["loc"]]
        if len(found) >= MAX_FAULTS:
            break
    raise ValidationError.from_exception_data("", found)


def _restate(fault: ErrorDetails, *key: Any) -> InitErrorDetails:
    context = {**fault.get("ctx", {}), "said": fault["msg"]}
    kind = PydanticCustomError(fault["type"], "{said}", context)
    return {"type": kind, "loc": (*key, *fault["loc"][len(key) :]), "input": fault["input"]}


class Record(BaseModel):
    """An immutable record with strictly checked fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def __init__(self, /, *unnamed: Any, **values: Any) -> None:
        """Set the fields by name; a wrong value is an `InputError` of one line."""
        cls = type(self)
        if unnamed:
            named = ", ".join(f"{name}=..." for name in cls.model_fields if name != "format")
            raise InputError(f"{cls.__name__}: takes its fields by name: {cls.__name__}({named})")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(f"{cls.__name__}: {explain(error, cls)}") from None

    # Pydantic then builds nested records itself, so that their faults keep the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Return the schema, which finds `MAX_FAULTS` faults rather than collect millions."""
        return _limit_faults(handler(source), is_root=True)


R = TypeVar("R", bound=Record)


def parse_record(
    cls: type[R], data: Mapping[str, Any], tag: str, context: Mapping[str, Any] | None = None
) -> R:
    """Return the record of a document.

    Parameters
    ----------
    cls, data
        The class of the record, and the document.
    tag
        The format that the document must state.
    context
        The context of validators.

    Raises
    ------
    InputError
        With all faults of the document.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"document: must be a mapping, got {quote(data)}")
    if "format" not in data:
        raise InputError(f"format: missing; this should say {quote(tag)}")
    if data["format"] != tag:
        raise InputError(f"format: must be {quote(tag)}, got {quote(data['format'])}")
    try:
        return cls.model_validate(data, context=dict(context or {}))
    except ValidationError as error:
        first, *others = faults(error, cls)
        raise InputError(first, others) from None


T = TypeVar("T")


def read_document_as(path: str | Path, make: Callable[[dict[str, Any]], T]) -> T:
    """Apply `make` to the document in a file; its errors name the file."""
    document = read_document(path)
    with error_context(path):
        return make(document)


def read_record(cls: type[R], path: str | Path) -> R:
    """Read a record from a JSON or YAML file; errors name the file, the location and the value."""
    tag = cls.model_fields["format"].default
    return read_document_as(path, lambda document: parse_record(cls, document, tag))


def faults(error: ValidationError, cls: type[Record] | None = None) -> list[str]:
    """Return the faults of a validation in lines: location, fault and value.

    Unknown fields come first, since a mistyped name is often missing as well. Suggestions are
    fields of the class of the document.
    """
    details = error.errors(include_url=False)
    inner = {fault["loc"][:length] for fault in details for length in range(len(fault["loc"]))}
    # Pydantic counts wrong elements as missing ones.
    details = [
        fault for fault in details if fault["type"] != "too_short" or fault["loc"] not in inner
    ]
    details.sort(key=lambda fault: fault["type"] != "extra_forbidden")
    return [_line(fault, details, cls) for fault in details]


def explain(error: ValidationError, cls: type[Record] | None = None) -> str:
    """Return the first of the `faults` of a validation, with the number of the others."""
    first, *others = faults(error, cls)
    return str(InputError(first, others))


def _line(fault: ErrorDetails, details: list[ErrorDetails], cls: type[Record] | None) -> str:
    path = list(fault["loc"])
    if fault["type"] == "inconsistent":
        inner = fault["ctx"]["location"]
        where = format_path(path) + ("." if path and not inner.startswith("[") else "") + inner
        return f"{where}: {fault['msg']}"
    if path and path[-1] == "[key]":
        path.pop()
    words = _WORDS.get(fault["type"])
    message = words.format(**fault.get("ctx", {})) if words else fault["msg"]
    if fault["type"] == "extra_forbidden":
        missing = [
            other["loc"][-1]
            for other in details
            if other["type"] == "missing" and other["loc"][:-1] == fault["loc"][:-1]
        ]
        known = [*(cls.model_fields if cls and len(path) == 1 else ()), *map(str, missing)]
        near = get_close_matches(str(path[-1]), {*known} - {path[-1]}, n=1, cutoff=0.8)
        message += f" (perhaps {near[0]})" if near else ""
    value = "" if fault["type"] == "missing" else f", got {quote(fault['input'])}"
    return f"{format_path(path) or 'document'}: {message}{value}"


_WORDS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters",
    "literal_error": "must be {expected}",
    "missing": "missing",
    "extra_forbidden": "unknown field",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "must be valid Unicode text",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} in it",
    "too_long": "must have at most {max_length} in it",
}


def dump_document(document: Mapping[str, Any], *, one_per_line: Iterable[str] = ()) -> str:
    """Return a document as JSON, with one line for every element of lists in `one_per_line`."""
    keys = set(one_per_line)
    lines = []
    for key, value in document.items():
        if key in keys and value:
            rows = ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n    {rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def refuse(location: str, message: str) -> NoReturn:
    """Fail the validation of a record, for a fault at a location inside it."""
    context = {"location": location, "message": message}
    raise PydanticCustomError("inconsistent", "{message}", context)


def check_one(record: Record, fields: Sequence[str]) -> None:
    """Refuse a record that does not have exactly one of some fields."""
    given = [field for field in fields if getattr(record, field) is not None]
    if len(given) != 1:
        location = given[1] if given else fields[0]
        refuse(location, f"give exactly one of {', '.join(fields)}, got {len(given)}")


def check_unique(field: str, names: Sequence[str]) -> None:
    """Refuse a name of two records of the list `field`."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            refuse(f"{field}[{index}].name", f"{quote(name)} is also {field}[{first[name]}]")
        first[name] = index
