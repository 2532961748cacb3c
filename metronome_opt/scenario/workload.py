"""Training models as data: the numbers that the traffic model needs, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    Name,
    Record,
    check_one,
    refuse,
)

WORKLOAD_FORMAT = "metronome-workload/1"

# Far beyond any machine, and near enough for every time and volume to have a decimal form.
_SMALLEST, _LARGEST = Fraction(1, 10**6), 10**9
MAX_COUNT = 10**18
IF_GIVEN = Field(exclude_if=lambda value: value is None)
FASTEST = 10**7
"""Mbit/s that no machine sends: 10 Tbit/s. More is taken for a mistake in the unit."""


def rational(value: Any) -> Fraction:
    """Read a positive number as it is written: 0.1 is a tenth, not the nearest binary number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise PydanticCustomError("rational", "must be a number")
    if not _SMALLEST <= value <= _LARGEST:  # nor is NaN
        raise PydanticCustomError("rational", "must be between 0.000001 and 1000000000")
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


Rational = Annotated[
    Fraction, BeforeValidator(rational, json_schema_input_type=Annotated[float, Field(gt=0)])
]


def megabits(field: str, gbps: Fraction | None, mbps: int | None) -> int:
    """Return a bandwidth in Mbit/s that one of two fields states, `field` with its unit.

    Both, neither, a fraction of a Mbit/s and what no machine has are refused.
    """
    if (gbps is None) == (mbps is None):
        refuse(f"{field}_gbps", f"give either {field}_gbps or {field}_mbps")
    stated, unit = (mbps, "mbps") if gbps is None else (float(gbps), "gbps")
    rate = Fraction(mbps or 0) if gbps is None else 1000 * gbps
    if rate.denominator != 1:
        refuse(f"{field}_{unit}", f"{stated}: must be a whole number of Mbit/s")
    if rate > FASTEST:
        refuse(
            f"{field}_{unit}",
            f"{quote(stated)}: no machine sends {float(rate / 10**6):,g} Tbit/s; look at the unit",
        )
    return int(rate)


class _Sourced(Record):
    """A number and where it comes from: either a source or the reason for assuming it."""

    source: Annotated[str, Field(min_length=1)] | None = None
    assumed: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.source is None) == (self.assumed is None):
            given = "neither" if self.source is None else "both"
            refuse("source", f"give either source or assumed for a number, got {given}")
        return self


class Count(_Sourced):
    """A whole number with its provenance."""

    value: Annotated[int, Field(ge=1, le=MAX_COUNT)]


class Quantity(_Sourced):
    """A positive rational number with its provenance; it is written such that it is read back."""

    value: Annotated[Rational, PlainSerializer(float)]


def _bare(value: Any) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {"value": value, "assumed": "stated without a source"} if is_number else value


Speed = Annotated[Quantity, BeforeValidator(_bare, json_schema_input_type=Quantity | float)]
"""A quantity that may be a bare number, for quick trials."""


class DataParallel(Record):
    """Every worker has the whole model; gradients are all-reduced once an iteration."""

    gradient_bytes: Count


class TensorParallel(Record):
    """Every layer is cut across all workers; activations are all-reduced in both passes."""

    layers: Count
    hidden: Count
    tokens: Count
    activation_bytes: Count
    rate_mbps: Count


class HybridParallel(Record):
    """Tensor groups inside pipeline stages inside data-parallel replicas."""

    layers: Count
    hidden: Count
    tokens: Count
    activation_bytes: Count
    gradient_bytes: Count
    embedding_parameters: Count
    rate_mbps: Count
    tensor: Count
    stages: Count
    microbatches: Count

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.layers.value % self.stages.value:
            refuse(
                "stages.value",
                f"{self.stages.value}: the {self.layers.value} layers cannot be shared out evenly",
            )
        return self


class EmbeddingParallel(Record):
    """Embedding tables are spread over the workers, the dense layers are data-parallel."""

    tables: Count
    dimension: Count
    embedding_bytes: Count
    gradient_bytes: Count


Parallelism = DataParallel | TensorParallel | HybridParallel | EmbeddingParallel

_PARALLELISMS = ("data_parallel", "tensor_parallel", "hybrid_parallel", "embedding_parallel")


class Workload(Record):
    """A training model, as its traffic sees it.

    Parameters
    ----------
    name, about
        Its name in jobs, and the variant of the model.
    sample
        The unit of a sample, such as an image or a number of tokens.
    parameters
        Trained numbers whose gradients are exchanged; for DLRM those outside the embeddings.
    forward_flops
        Floating-point operations of one forward pass of one sample, a multiply-add being two.
    data_parallel, tensor_parallel, hybrid_parallel, embedding_parallel
        The spread of the model over its workers; exactly one of them is given.
    """

    format: Literal["metronome-workload/1"] = "metronome-workload/1"
    name: Name
    about: str
    sample: str
    parameters: Count
    forward_flops: Count
    data_parallel: DataParallel | None = None
    tensor_parallel: TensorParallel | None = None
    hybrid_parallel: HybridParallel | None = None
    embedding_parallel: EmbeddingParallel | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_one(self, _PARALLELISMS)
        return self

    @property
    def kind(self) -> str:
        """The parallelism in words, such as ``tensor-parallel``."""
        return next(
            field.replace("_", "-") for field in _PARALLELISMS if getattr(self, field) is not None
        )

    @property
    def parallelism(self) -> Parallelism:
        """The parallelism with its numbers."""
        spread: Parallelism = getattr(self, self.kind.replace("-", "_"))
        return spread


def data_folder() -> Path:
    """Return the folder of the shipped data: inside an installed package, beside a checkout's."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "models", package.parent / "models"):
        if (folder / "workloads").is_dir():
            return folder
    raise InputError(f"{package / 'models'}: the shipped workloads are missing; install again")


@cache  # each scenario asks for their names
def published_files() -> Mapping[str, Path]:
    """Return the files of published iterations by name."""
    return find_files("published")


def find_files(kind: str, folder: str | Path | None = None) -> Mapping[str, Path]:
    """Return the files of a folder of the shipped data, and of one's own, by name in lower case.

    A file of one's own takes precedence over a shipped one of its name.
    """
    folders = [data_folder() / kind]
    if folder is not None:
        if not Path(folder).is_dir():
            raise InputError(f"{kind}: there is no folder {quote(str(folder))}")
        folders.append(Path(folder))
    return {
        path.stem.lower(): path
        for found in folders
        if found.is_dir()
        for path in sorted(found.iterdir())
        if path.suffix in {".yaml", ".yml", ".json"}
    }


def file_of(model: str, files: Mapping[str, Path], where: str, what: str) -> Path:
    """Return the file of a model by its name; an `InputError` says what there is instead."""
    path = files.get(model.lower())
    if path is None:
        known = ", ".join(sorted(files)) or "none"
        raise InputError(f"{where}: there is no {what} {quote(model)}; known are {known}")
    return path
