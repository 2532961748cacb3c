"""Annotations by which workloads and pods state their traffic."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from metronome_opt.errors import InputError, sanitize
from metronome_opt.files.documents import parse_yaml
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.kinds import TRAFFIC_SOURCES
from metronome_opt.scenario.cluster import ANY_COST
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.scenario.workload import FASTEST

_MAX_US = 10**12  # eleven days, as far as a scenario goes
_SHARE = re.compile(r"0(\.[0-9]{1,18})?|1(\.0{1,18})?")
_MAX_TEXT = 63  # characters of a name of an annotation
_NUMBERS = {  # with their ranges
    **dict.fromkeys(("batch", "iterations", "most-racks", "tasks"), (1, 10**18)),
    **dict.fromkeys(("priority", "max-stretch-ms", "move-cost"), (0, 10**18)),
    "traffic-class": (0, 7),
    "max-network-cost": (0, ANY_COST),
}
_OF_JOB = ("priority", "iterations", "max-network-cost", "most-racks")  # in all that makes jobs
_KNOWN = (*TRAFFIC_SOURCES, *_NUMBERS, "jitter", "allreduce", "ignore", "job")
_TRAFFIC = {f"{DEFAULT_GROUP}/{name}" for name in (*TRAFFIC_SOURCES, "batch")}


class Annotations:
    """Annotations of the object `where` with the prefix of this package, of all its annotations."""

    def __init__(self, where: str, stated: Mapping[str, str]) -> None:
        self._where = f"{where}: annotation {DEFAULT_GROUP}/"
        self._stated = {
            full.removeprefix(f"{DEFAULT_GROUP}/"): text
            for full, text in stated.items()
            if full.startswith(f"{DEFAULT_GROUP}/")
        }

    def __getitem__(self, name: str) -> Field:
        """Return an annotation, an empty field if it is missing."""
        value: Any = self._stated.get(name)
        if value is not None:
            is_number = name in _NUMBERS and re.fullmatch("[0-9]{1,18}", value)
            value = int(value) if is_number else value.strip()
        return Field(value, self._where + sanitize(name, _MAX_TEXT))

    def number(self, name: str) -> int | None:
        """Return a whole number; None if it is missing."""
        minimum, maximum = _NUMBERS[name]
        return self[name].integer(minimum, maximum=maximum) if self[name] else None

    def _jitter(self) -> float | None:
        field = self["jitter"]
        if field and _SHARE.fullmatch(field.value) is None:
            field.fail("must be a number from 0 to 1, such as 0.03")
        return float(field.value) if field else None

    @property
    def ignored(self) -> bool:
        """Return True if the object is to be ignored."""
        return str(self["ignore"].value).lower() == "true"

    def check(self) -> None:
        """Refuse unknown names, and numbers that are none."""
        for name in self._stated:
            if name not in _KNOWN and not name.startswith("original-"):
                near = get_close_matches(name[:_MAX_TEXT], _KNOWN, n=1)
                known = f"perhaps {near[0]}" if near else f"known are {', '.join(_KNOWN)}"
                self[name].fail(f"unknown annotation ({known})")
        for name in _NUMBERS:
            self.number(name)
        self._jitter()

    def job_fields(self) -> dict[str, Any]:
        """Return the optional fields of a job that are stated."""
        fields = {
            "allreduce": self["allreduce"].text("") or None,
            "jitter": self._jitter(),
            **{name.replace("-", "_"): self.number(name) for name in _OF_JOB},
        }
        return {name: value for name, value in fields.items() if value is not None}

    def traffic(self) -> dict[str, Any]:
        """Return the traffic of a task as fields of a scenario's job; none if it is not stated."""
        model, traffic, batch = (self[name] for name in (*TRAFFIC_SOURCES, "batch"))
        if model and traffic:
            traffic.fail("model is there as well; keep one of the two")
        if model:
            return {"model": model.text(), "batch": batch.integer(1)}
        if batch:
            batch.fail("is for a model; name one")
        if traffic:
            try:
                value = parse_yaml(traffic.value)
            except InputError as error:
                traffic.fail(str(error))
            return {"traffic": read_pattern(Field(value, traffic.where))}
        return {}


def merge(*stated: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a workload and its templates; the first mapping has precedence.

    Traffic is taken from the first mapping with any, so that a template does not add to it.
    """
    merged: dict[str, str] = {}
    for mapping in stated:
        taken = set(merged) | (_TRAFFIC if _TRAFFIC & set(merged) else set())
        merged |= {name: text for name, text in mapping.items() if name not in taken}
    return merged


def read_pattern(traffic: Field) -> dict[str, Any]:
    """Return ``spec.traffic`` of a claim for a scenario; rates are rounded up to Mbit/s."""
    phases = []
    for phase in (traffic / "phases").items():
        rate = (phase / "rate").quantity()
        if not 1 <= rate / 10**6 <= FASTEST:
            (phase / "rate").fail(f"no node sends {float(rate):,g} bit/s; write a unit, as 25G")
        burst = {
            "start_ms": _milliseconds(phase / "startMicroseconds", 0),
            "length_ms": _milliseconds(phase / "lengthMicroseconds", 1),
            "rate_mbps": math.ceil(rate / 10**6),
        }
        known = {name: (phase / name).value for name in ("collective", "bytes")}
        phases.append(burst | {name: value for name, value in known.items() if value is not None})
    document = {"period_ms": _milliseconds(traffic / "periodMicroseconds", 1), "phases": phases}
    try:
        Traffic.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{traffic.position}: {explain(error, Traffic)}") from None
    return document


def _milliseconds(field: Field, minimum: int) -> int | float:
    """Return microseconds as ms, as a decimal that reads back exactly."""
    microseconds = field.integer(minimum, maximum=_MAX_US)
    whole, rest = divmod(microseconds, 1000)
    return microseconds / 1000 if rest else whole
