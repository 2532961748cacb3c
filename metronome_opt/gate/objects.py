"""Claims as objects: what JSON or YAML says of a job's slots."""

from __future__ import annotations

import re
from decimal import Decimal

from metronome_opt.gate.checks import ClaimError, Names, checked, show, some, whole
from metronome_opt.gate.milliseconds import nanoseconds
from metronome_opt.gate.plan import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_KIND = "STBandwidthClaim"
_PLAIN = {"offset_ms", "period_ms", "starts_ms", "cushion_ms", "job", "gated"}
_MOST_YAML = 2**20  # characters; JSON is read a hundred times as fast
_SAID = 100  # characters of what a parser says


def claim_in(content: bytes, job: str, task: int | None) -> Claim:
    """Return the claim of a job that stands in a file.

    All tasks of a job burst at the same time. Where their cushions differ the least one counts,
    unless it is said which task this is.

    Parameters
    ----------
    content
        Of the file.
    job, task
        Whose it is; without a job all claims have to be of one.

    Raises
    ------
    ClaimError
        If there is none, or none that can be obeyed.
    """
    found = list(_claims(content, job))
    if not any(whose in (job, "") for whose, _, _ in found):
        found = list(_claims(content, ""))
    if not found:
        raise ClaimError(f"holds no {_KIND}; write one with metronome claims or kubectl get")
    jobs = sorted({whose for whose, _, _ in found})
    if job and job not in jobs and jobs != [""]:
        raise ClaimError(f"holds no claim of job {show(job)}, only of {some(jobs)}")
    if not job and len(jobs) > 1:
        raise ClaimError(f"holds claims of {some(jobs)}; say in METRONOME_JOB which counts")
    own = [(place, document) for whose, place, document in found if whose in (job, "") or not job]
    mine = [each for each in own if task is not None and _task(each[1]) == task]
    claims = [_read(document, place) for place, document in mine or own]
    first = claims[0]
    for claim, (place, _) in zip(claims, mine or own, strict=True):
        if (claim.slots, claim.gated) != (first.slots, first.gated):
            raise ClaimError(
                f"{_at(place)}not the slots of the first claim of its job; export all anew"
            )
    cushion = min(claim.cushion_ns for claim in claims)
    return Claim(*first.slots, cushion, first.job, first.gated)


def _claims(content: bytes, job: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield whose each claim is, where it stands, and what it is."""
    for place, document in _objects(content, job):
        if not isinstance(document, dict):
            raise ClaimError(f"{_at(place)}{show(document)}: is no object")
        if _PLAIN & set(document):
            whose = document.get("job", "")
        elif document.get("kind") == _KIND:
            whose = _part(document, "spec", place).get("job")
            place += "spec."
        else:
            continue
        if not isinstance(whose, str):
            raise ClaimError(f"{place}job: {show(whose)}: must be the name of a job")
        yield whose, place, document


def _objects(content: bytes, job: str) -> Iterator[tuple[str, Any]]:
    """Yield objects, those of lists one by one, each with its place."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ClaimError("is not UTF-8; write it anew") from None
    if not text.strip():
        raise ClaimError("is empty; write claims to it")
    documents = [_json(text)] if text.lstrip()[0] in "{[" else _yaml(text, job)
    for number, document in enumerate(documents, start=1):
        place = f"document {number}: " if len(documents) > 1 else ""
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            document = document["items"]
        if isinstance(document, list):
            for index, item in enumerate(document):
                yield f"{place}items[{index}].", item
        elif document is not None:
            yield place, document


def _json(text: str) -> Any:
    import json

    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ClaimError(f"is not JSON ({str(error)[:_SAID]}); write it in one go") from None


def _yaml(text: str, job: str) -> list[Any]:
    """Return documents; of a file with many claims only those in which the job is named."""
    try:
        import yaml
    except ImportError:
        raise ClaimError(
            "is no JSON, and for YAML there is no PyYAML; install pyyaml, or write JSON "
            "(kubectl get -o json)"
        ) from None
    pieces = re.split(r"(?m)^---\s*$", text)
    of_job = re.compile(rf"""(?m)^\s*job:\s*(["']?){re.escape(job)}\1\s*$""")
    named = [piece if not job or of_job.search(piece) else "" for piece in pieces]
    needed = named if any(named) else pieces
    if sum(map(len, needed)) > _MOST_YAML:  # it would hold up training for seconds
        raise ClaimError(
            f"has more than {_MOST_YAML // 2**20} MiB of YAML to read for job {show(job)}; give "
            "JSON (kubectl get -o json) or a file of one job"
        )
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [yaml.load(piece, loader) for piece in needed]  # noqa: S506 (both are safe)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:_SAID]
        raise ClaimError(f"is not YAML ({said}); write it in one go") from None


def _at(place: str) -> str:
    """Return a place of which nothing in particular is said."""
    return f"{place.rstrip(': .')}: " if place else ""


def _part(document: dict[str, Any], name: str, place: str) -> dict[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise ClaimError(f"{place}{name}: {show(found)}: must be an object")
    return found


def _task(document: dict[str, Any]) -> Any:
    spec = document.get("spec")
    return spec.get("task") if isinstance(spec, dict) else None


def _read(document: dict[str, Any], place: str) -> Claim:
    return _plain(document, place) if _PLAIN & set(document) else _custom(document["spec"], place)


def _plain(document: dict[str, Any], place: str) -> Claim:
    names = Names(
        f"{place}offset_ms",
        f"{place}period_ms",
        f"{place}starts_ms",
        f"{place}cushion_ms",
        f"{place}gated",
        10**6,
    )
    unknown = sorted(str(name) for name in set(document) - _PLAIN)
    if unknown:
        raise ClaimError(f"{place}{show(unknown[0])}: is not known; there are {sorted(_PLAIN)}")
    starts = document.get("starts_ms", [0])
    if not isinstance(starts, list):
        raise ClaimError(f"{names.starts}: {show(starts)}: must be a list")
    claim = Claim(
        offset_ns=nanoseconds(document.get("offset_ms"), names.offset),
        period_ns=nanoseconds(document.get("period_ms"), names.period),
        starts_ns=tuple(nanoseconds(start, names.starts) for start in starts),
        cushion_ns=nanoseconds(document.get("cushion_ms", 0), names.cushion),
        job=document.get("job", ""),
        gated=document.get("gated", True),
    )
    return checked(claim, names)


def _custom(spec: dict[str, Any], place: str) -> Claim:
    traffic = _part(spec, "traffic", place)
    if spec.get("allocation") is None:
        raise ClaimError(f"{place}allocation: is missing: no offset was decided; schedule the job")
    allocation = _part(spec, "allocation", place)
    names = Names(
        f"{place}allocation.offsetMicroseconds",
        f"{place}traffic.periodMicroseconds",
        f"{place}traffic.phases.startMicroseconds",
        f"{place}allocation.cushionMicroseconds",
        f"{place}allocation.gated",
        1000,
    )
    stretch = whole(
        allocation.get("stretchMicroseconds", 0), f"{place}allocation.stretchMicroseconds"
    )
    if stretch < 0:
        raise ClaimError(f"{place}allocation.stretchMicroseconds: {stretch}: must be at least 0")
    phases = traffic.get("phases")
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ClaimError(f"{place}traffic.phases: {show(phases)}: must be a list of bursts")
    period = whole(traffic.get("periodMicroseconds"), names.period)
    if period <= 0:
        raise ClaimError(f"{names.period}: {show(period)}: must be positive")
    claim = Claim(
        offset_ns=1000 * whole(allocation.get("offsetMicroseconds"), names.offset),
        period_ns=1000 * (period + stretch),
        starts_ns=tuple(
            1000 * whole(phase.get("startMicroseconds"), names.starts) for phase in phases
        ),
        cushion_ns=1000 * whole(allocation.get("cushionMicroseconds", 0), names.cushion),
        job=spec["job"],
        gated=allocation.get("gated", True),
    )
    return checked(claim, names)
