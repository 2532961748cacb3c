"""A file of claims: the claim of one job in it, read again when the file has changed.

The file is JSON: an STBandwidthClaim as ``kubectl get -o json`` prints it, or a list of objects
with claims among them. Or it holds the numbers alone, ``{"offset_ms": 40, "period_ms": 240}``,
optionally with ``starts_ms``, ``cushion_ms``, ``job``, ``gated`` and ``traffic_class``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from decimal import Decimal

from metronome_opt.gate.checks import (
    FIELDS,
    ClaimError,
    checked,
    from_milliseconds,
    quote,
    some,
    whole,
)
from metronome_opt.gate.windows import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Reader = Callable[[dict[str, Any], str], Claim]

MAX_BYTES = 2**20
"""The size of a file, of which a burst may have to wait until it is read."""

_KIND = "STBandwidthClaim"
_PLAIN = {*FIELDS, "job"}
_CUSTOM = {  # where they stand in the specification of an object
    "offset_ms": "allocation.offsetMicroseconds",
    "period_ms": "traffic.periodMicroseconds",
    "starts_ms": "traffic.phases.startMicroseconds",
    "cushion_ms": "allocation.cushionMicroseconds",
    "gated": "allocation.gated",
    "traffic_class": "allocation.trafficClass",
}
_MAX_REASON = 100  # characters of what a parser says
_MAX_DEPTH = 40
_MAX_DIGITS = 64

# It never looks at a character more than a few times.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_UNSURE_NS = 20_000_000  # two changes within a tick of the file system's clock look like one


class ClaimFile:
    """A file of claims, read again when it has changed.

    Parameters
    ----------
    path
        The file; it may come and go.
    job, task
        Whose claims count. Without a job all have to be of one.
    """

    def __init__(self, path: str | os.PathLike[str], job: str, task: int | None) -> None:
        self._path = os.fspath(path)
        self._job, self._task = job, task
        self._state: tuple[int, ...] | None = None  # of the file when it was read, if that is sure
        self._result: Claim | ClaimError = ClaimError("not read yet")

    def current(self) -> Claim:
        """Return the claim that stands in the file now.

        Raises
        ------
        ClaimError
            If there is none that can be obeyed.
        """
        try:
            now = os.stat(self._path)  # noqa: PTH116 (one call, no more)
            if self._state != (now.st_mtime_ns, now.st_ino, now.st_size):
                self._read_anew(now)
        except OSError as error:
            self._state = None
            why = error.strerror or type(error).__name__
            raise ClaimError(f"{self._path}: cannot be read ({why})") from None
        except ValueError as error:  # a path with a zero in it
            raise ClaimError(f"{self._path!r}: cannot be read ({error})") from None
        if isinstance(self._result, ClaimError):
            raise self._result
        return self._result

    def _read_anew(self, now: os.stat_result) -> None:
        self._state = None
        if not stat.S_ISREG(now.st_mode):
            raise ClaimError(f"{self._path}: is no file; name one that holds claims")
        sure = not 0 <= time.time_ns() - now.st_mtime_ns < _UNSURE_NS
        self._result = self._read()
        if sure:
            self._state = now.st_mtime_ns, now.st_ino, now.st_size

    def _read(self) -> Claim | ClaimError:
        with open(self._path, "rb") as stream:  # noqa: PTH123
            content = stream.read(MAX_BYTES + 1)
        try:
            if len(content) > MAX_BYTES:
                raise ClaimError(f"has more than {MAX_BYTES // 2**20} MiB; give a file of one job")
            return _claim_in(content, self._job, self._task)
        except ClaimError as fault:
            return ClaimError(f"{self._path}: {fault}")
        except Exception as error:  # parsers raise more than they say
            said = f"{type(error).__name__}: {error}"[:_MAX_REASON]
            return ClaimError(f"{self._path}: cannot be understood ({said}); write it anew")


def _claim_in(content: bytes, job: str, task: int | None) -> Claim:
    """Return the claim of a job that stands in a file; without a job all have to be of one.

    All tasks of a job burst at the same time. Where their cushions differ the smallest one counts,
    unless it is said which task this is.
    """
    claimed = list(_claims(content))
    if not claimed:
        raise ClaimError(f"holds no {_KIND}; write one with kubectl get -o json")
    jobs = sorted({whose for whose, *_ in claimed})
    if job and job not in jobs and jobs != [""]:
        raise ClaimError(f"holds no claim of job {quote(job)}, only of {some(jobs)}")
    if not job and len(jobs) > 1:
        raise ClaimError(f"holds claims of {some(jobs)}; say in METRONOME_JOB which counts")
    own = [each for each in claimed if not job or each[0] in (job, "")]
    mine = [each for each in own if task is not None and each[1] == task] or own
    claims = [(place, read(document, place)) for _, _, read, document, place in mine]
    first = claims[0][1]
    cushion = min(claim.cushion_ns for _, claim in claims)
    for place, claim in claims:
        if claim._replace(cushion_ns=first.cushion_ns, job=first.job) != first:
            raise ClaimError(
                f"{_at(place)}not the slots of the first claim of its job; export all anew"
            )
    return first._replace(cushion_ns=cushion)


def _claims(content: bytes) -> Iterator[tuple[str, Any, Reader, dict[str, Any], str]]:
    """Yield job and task of each claim, and what reads it from a document at a place."""
    for place, document in _objects(content):
        if not isinstance(document, dict):
            raise ClaimError(f"{_at(place)}{quote(document)}: is no object")
        reader: Reader = _plain
        if not _PLAIN & set(document):
            if document.get("kind") != _KIND:
                continue
            reader, document, place = _custom, _part(document, "spec", place), f"{place}spec."
        whose = document.get("job", "" if reader is _plain else None)
        if not isinstance(whose, str):
            raise ClaimError(f"{place}job: {quote(whose)}: must be the name of a job")
        yield whose, document.get("task"), reader, document, place


def _objects(content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield objects, those of lists one by one, each with its place."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ClaimError("is not UTF-8; write it anew") from None
    if not text.strip():
        raise ClaimError("is empty; write claims to it")
    document = _parse(text)
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document = document["items"]
    if not isinstance(document, list):
        yield "", document
        return
    for index, item in enumerate(document):
        yield f"items[{index}].", item


def _parse(text: str) -> Any:
    """Return a JSON value; numbers with a point are decimals, endless ones stay text."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        # Only here is there a limit: the interpreter's is one that training loops raise.
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > _MAX_DEPTH:
            raise ClaimError(f"is nested deeper than {_MAX_DEPTH} levels; write claims alone")
    try:
        return json.loads(
            text,
            parse_float=lambda digits: Decimal(digits) if len(digits) <= _MAX_DIGITS else digits,
            parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else digits,
        )
    except ValueError as error:
        raise ClaimError(f"is not JSON ({str(error)[:_MAX_REASON]}); export gates.json") from None


def _at(place: str) -> str:
    """Return a place of which nothing in particular is said."""
    return f"{place.rstrip(': .')}: " if place else ""


def _part(document: dict[str, Any], name: str, place: str) -> dict[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise ClaimError(f"{place}{name}: {quote(part)}: must be an object")
    return part


def _plain(document: dict[str, Any], place: str) -> Claim:
    unknown = sorted(str(name) for name in set(document) - _PLAIN)
    if unknown:
        raise ClaimError(f"{place}{quote(unknown[0])}: is not known; there are {sorted(_PLAIN)}")
    return from_milliseconds(document, lambda key: f"{place}{key}", document.get("job", ""))


def _custom(spec: dict[str, Any], place: str) -> Claim:
    traffic = _part(spec, "traffic", place)
    if spec.get("allocation") is None:
        raise ClaimError(f"{place}allocation: is missing: no offset was decided; schedule the job")
    allocation = _part(spec, "allocation", place)
    called = {key: f"{place}{path}" for key, path in _CUSTOM.items()}
    offset_name, period_name, starts_name, cushion_name, *_ = called.values()
    stretch = whole(
        allocation.get("stretchMicroseconds", 0), f"{place}allocation.stretchMicroseconds"
    )
    if stretch < 0:
        raise ClaimError(f"{place}allocation.stretchMicroseconds: {stretch}: must be at least 0")
    phases = traffic.get("phases")
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ClaimError(f"{place}traffic.phases: {quote(phases)}: must be a list of bursts")
    period = whole(traffic.get("periodMicroseconds"), period_name)
    if period <= 0:
        raise ClaimError(f"{period_name}: {quote(period)}: must be positive")
    claim = Claim(
        offset_ns=1000 * whole(allocation.get("offsetMicroseconds"), offset_name),
        period_ns=1000 * (period + stretch),
        starts_ns=tuple(
            1000 * whole(phase.get("startMicroseconds"), starts_name) for phase in phases
        ),
        cushion_ns=1000 * whole(allocation.get("cushionMicroseconds", 0), cushion_name),
        job=spec["job"],
        gated=allocation.get("gated", True),
        traffic_class=allocation.get("trafficClass", 0),
    )
    return checked(claim, called.__getitem__, 1000)
