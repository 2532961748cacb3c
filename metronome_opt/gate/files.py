"""A file of claims: the claim of one job in it, read again when the file has changed.

The file is JSON: an STBandwidthClaim as ``kubectl get -o json`` prints it, or a list of objects
with claims among them. Or it holds only the numbers, ``{"offset_ms": 40, "period_ms": 240}``,
optionally with ``starts_ms``, ``cushion_ms``, ``job``, ``gated`` and ``traffic_class``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from decimal import Decimal
from functools import partial

from metronome_opt.gate.checks import FIELDS, ClaimError, parse_claim, quote, whole
from metronome_opt.gate.windows import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_BYTES = 2**20
"""The largest size of a file."""
_INLINE_BYTES = 2**14  # while a larger file is read beside the loop, the claim before holds

_KIND = "STBandwidthClaim"
_PLAIN = {*FIELDS, "job"}
_CUSTOM = {  # locations of the fields in the specification of an object
    "offset_ms": "allocation.offsetMicroseconds",
    "period_ms": "traffic.periodMicroseconds",
    "starts_ms": "traffic.phases.startMicroseconds",
    "cushion_ms": "allocation.cushionMicroseconds",
    "gated": "allocation.gated",
    "traffic_class": "allocation.trafficClass",
}
_MAX_REASON = 100  # characters of what a parser says
_MAX_DEPTH = 40

# It never looks at a character more than a few times.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_UNSURE_NS = 20_000_000  # two changes within a tick of the file system's clock look like one


class ClaimFile:
    """Claims of a job and task in a file, which may come and go, read again when it has changed.

    Without a job all claims have to be of one.
    """

    def __init__(self, path: str | os.PathLike[str], job: str, task: int | None) -> None:
        self._path = os.fspath(path)
        self._job, self._task = job, task
        self._state: tuple[int, ...] | None = None  # of the file when it was read, if that is sure
        self._result: Claim | ClaimError | None = None
        self._reader: threading.Thread | None = None

    def current(self) -> Claim:
        """Return the claim that stands in the file now; a `ClaimError` if none can be obeyed."""
        try:
            now = os.stat(self._path)  # noqa: PTH116 (one call, no more)
            if self._state != (now.st_mtime_ns, now.st_ino, now.st_size):
                self._update(now)
        except OSError as error:
            self._state = None
            raise ClaimError(f"{self._path}: {_reason(error)}") from None
        except ValueError as error:  # a path with a zero in it
            raise ClaimError(f"{self._path!r}: cannot be read ({error})") from None
        result = self._result
        if not isinstance(result, Claim):
            raise result or ClaimError(f"{self._path}: is not read yet")
        return result

    def _update(self, now: os.stat_result) -> None:
        """Read the file, a large one beside the loop unless it is the first or no thread starts."""
        if self._reader is not None and self._reader.is_alive():
            return
        if now.st_size > _INLINE_BYTES and self._result is not None:
            self._reader = threading.Thread(target=self._read, args=(now,), daemon=True)
            try:
                self._reader.start()
            except RuntimeError:
                self._reader = None
            else:
                return
        self._read(now)

    def _read(self, now: os.stat_result) -> None:
        self._state = None
        sure = not 0 <= time.time_ns() - now.st_mtime_ns < _UNSURE_NS
        try:
            if not stat.S_ISREG(now.st_mode):
                raise ClaimError("is no file; name one that holds claims")
            with open(self._path, "rb") as stream:  # noqa: PTH123
                content = stream.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise ClaimError(f"has more than {MAX_BYTES // 2**20} MiB; give a file of one job")
            self._result = _claim_in(content, self._job, self._task)
        except ClaimError as fault:
            self._result = ClaimError(f"{self._path}: {fault}")
        except OSError as error:
            self._result, sure = ClaimError(f"{self._path}: {_reason(error)}"), False
        except Exception as error:  # parsers raise more than they say
            said = f"{type(error).__name__}: {error}"[:_MAX_REASON]
            self._result = ClaimError(f"{self._path}: cannot be read ({said}); write it again")
        if sure:
            self._state = now.st_mtime_ns, now.st_ino, now.st_size


def _reason(error: OSError) -> str:
    return f"cannot be read ({error.strerror or type(error).__name__})"


def _claim_in(content: bytes, job: str, task: int | None) -> Claim:
    """Return the claim of a job in a file; of an unknown task, that with the smallest cushion."""
    claimed = list(_claims(content))
    if not claimed:
        raise ClaimError(f"holds no {_KIND}; write one with kubectl get -o json")
    jobs = sorted({its for its, *_ in claimed})
    if job and job not in jobs and jobs != [""]:
        raise ClaimError(f"holds no claim of job {quote(job)}, only of {_first_few(jobs)}")
    if not job and len(jobs) > 1:
        raise ClaimError(f"holds claims of {_first_few(jobs)}; say in METRONOME_JOB which counts")
    own = [item for item in claimed if not job or item[0] in (job, "")]
    mine = [item for item in own if task is not None and item[1] == task] or own
    claims = [(place, read()) for _, _, place, read in mine]
    first = claims[0][1]
    for place, claim in claims:
        if claim._replace(cushion_ns=first.cushion_ns, job=first.job) != first:
            fault = "not the windows of the first claim of its job; export all again"
            raise ClaimError(f"{_at(place)}{fault}")
    return first._replace(cushion_ns=min(claim.cushion_ns for _, claim in claims))


def _claims(content: bytes) -> Iterator[tuple[str, Any, str, Callable[[], Claim]]]:
    """Yield job, task and location of each claim, and what reads it."""
    for place, document in _objects(content):
        if not isinstance(document, dict):
            raise ClaimError(f"{_at(place)}{quote(document)}: is no object")
        read: Callable[[dict[str, Any], str], Claim] = _plain
        if not _PLAIN & set(document):
            if document.get("kind") != _KIND:
                continue
            document, read, place = _part(document, "spec", place), _custom, f"{place}spec."
        job = document.get("job", "" if read is _plain else None)
        if not isinstance(job, str):
            raise ClaimError(f"{place}job: {quote(job)}: must be the name of a job")
        yield job, document.get("task"), place, partial(read, document, place)


def _objects(content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield objects, those of lists one by one, each with its location."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ClaimError("is not UTF-8; write it again") from None
    if not text.strip():
        raise ClaimError("is empty; write claims to it")
    document = _parse(text)
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        document = document["items"]
    if isinstance(document, list):
        yield from ((f"items[{index}].", item) for index, item in enumerate(document))
    else:
        yield "", document


def _parse(text: str) -> Any:
    """Return a JSON value; numbers with a point are decimals."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = found[0]
        # Only here is there a limit: the interpreter's is one that training loops raise.
        depth += (bracket in "[{") - (bracket in "]}")
        if depth > _MAX_DEPTH:
            raise ClaimError(f"is nested deeper than {_MAX_DEPTH} levels; write claims only")
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise ClaimError(f"is not JSON ({str(error)[:_MAX_REASON]}); export gates.json") from None


def _first_few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(quote, names[:3])) + more


def _at(place: str) -> str:
    """Return a location of which nothing in particular is said."""
    return f"{place.rstrip(': .')}: " if place else ""


def _part(document: dict[str, Any], name: str, place: str) -> dict[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise ClaimError(f"{place}{name}: {quote(part)}: must be an object")
    return part


def _plain(document: dict[str, Any], place: str) -> Claim:
    """Return the claim of numbers in milliseconds."""
    unknown = sorted(str(name) for name in set(document) - _PLAIN)
    if unknown:
        raise ClaimError(f"{place}{quote(unknown[0])}: is not known; there are {sorted(_PLAIN)}")
    return parse_claim(document, lambda key: f"{place}{key}", document.get("job", ""))


def _custom(spec: dict[str, Any], place: str) -> Claim:
    """Return the claim of an object's specification, in microseconds."""
    traffic = _part(spec, "traffic", place)
    if spec.get("allocation") is None:
        raise ClaimError(f"{place}allocation: is missing: no offset was decided; schedule the job")
    allocation = _part(spec, "allocation", place)

    def length(name: str, value: Any, lowest: int) -> int:
        if whole(value, f"{place}{name}") < lowest:
            raise ClaimError(f"{place}{name}: {quote(value)}: must be at least {lowest}")
        return int(value)

    period = length("traffic.periodMicroseconds", traffic.get("periodMicroseconds"), 1)
    period += length("allocation.stretchMicroseconds", allocation.get("stretchMicroseconds", 0), 0)
    phases = traffic.get("phases")
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ClaimError(f"{place}traffic.phases: {quote(phases)}: must be a list of bursts")
    names = {key: path.rpartition(".")[2] for key, path in _CUSTOM.items()}
    stated = {key: allocation[name] for key, name in names.items() if name in allocation}
    stated |= {"period_ms": period}
    stated |= {"starts_ms": [phase.get("startMicroseconds") for phase in phases]}
    return parse_claim(stated, lambda key: f"{place}{_CUSTOM[key]}", spec["job"], 1000)
