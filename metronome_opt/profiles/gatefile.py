"""Samples from the record of a gate, which has a line of JSON for each burst."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from metronome_opt.errors import InputError, show
from metronome_opt.profiles.samples import Floats, Samples

_FINE = 64  # samples between the beginnings of two bursts
_STEP_S = 0.001  # at least
_PAUSE = 10  # times the usual distance of bursts: no iteration is that long
_MOST = 2_000_000  # samples, of which a profile takes half a minute
_MBIT = 8e-6  # per byte


def read_gate(path: str | Path) -> Samples:
    """Read the record of a gate.

    What a burst sent is spread evenly over its length, on a grid as fine as a scraper could hardly
    be. Of a record with pauses, as between two runs, the longest stretch counts. The rate of a
    burst whose bytes nobody told is not known, and a guess would end up in a claim; so such a
    record is refused.

    Parameters
    ----------
    path
        The file, of one task of one job. A line that broke off, because the job was killed, is left
        out.

    Raises
    ------
    InputError
        If the file cannot be read, holds fewer than two bursts, those of several tasks, lines that
        are none of a gate, bursts without their bytes, or bursts that overlap because the clock
        was set.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8") from None
    begins: list[float] = []
    ends: list[float] = []
    sent: list[float] = []
    whose: tuple[str, str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.endswith("}"):
            continue
        try:
            begin, end, count, who = _burst(line)
            if whose is not None and who != whose:
                raise InputError(
                    f"is of {_name(who)}, those before of {_name(whose)}; profile one of them"
                )
            if ends and begin < ends[-1]:
                raise InputError(
                    f"at: {show(begin)}: before the end of the burst before; the clock was set, "
                    "or two programs wrote here: profile a part by itself"
                )
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        whose = who
        begins.append(begin)
        ends.append(end)
        sent.append(count)
    if len(begins) < 2:
        raise InputError(f"{path}: has {len(begins)} bursts, from which no period can be told")
    return _samples(*_longest(np.array(begins), np.array(ends), np.array(sent)))


def _longest(begins: Floats, ends: Floats, sent: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the longest stretch of bursts without a pause, as between two runs of a job."""
    usual = float(np.median(np.diff(begins)))
    breaks = np.flatnonzero(begins[1:] - ends[:-1] > _PAUSE * usual) + 1
    edges = np.concatenate(([0], breaks, [len(begins)]))
    first = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[first]), int(edges[first + 1]))
    return begins[part], ends[part], sent[part]


def _samples(begins: Floats, ends: Floats, sent: Floats) -> Samples:
    step = max(_STEP_S, float(np.median(np.diff(begins))) / _FINE, (ends[-1] - begins[0]) / _MOST)
    knots = np.stack([begins, ends], axis=1).ravel()
    total = np.stack([np.cumsum(sent) - sent, np.cumsum(sent)], axis=1).ravel()
    times = np.arange(begins[0] - step, ends[-1] + 2 * step, step)
    volumes = np.diff(np.interp(times, knots, total))
    return Samples(times[1:], volumes * _MBIT / np.diff(times), np.diff(times))


def _burst(line: str) -> tuple[float, float, float, tuple[str, str]]:
    """Return when a burst began and ended, in seconds, its bytes, and whose it was."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{show(line)}: is not JSON") from None
    if not isinstance(record, dict):
        raise InputError(f"{show(record)}: is no burst of a gate")
    sent = record.get("sent_bytes", 0)
    if sent is None:
        raise InputError(
            "sent_bytes: null: nobody told what the burst sent, so its rate is not known; "
            "enter gate.burst(sent_bytes=...), or set sent_bytes of the burst before it ends"
        )
    begin = _number(record, "at")
    end = begin + _number(record, "burst_ms") / 1000
    who = (str(record.get("job")), str(record.get("task")))
    return begin, end, _number(record, "sent_bytes"), who


def _number(record: dict[str, Any], name: str) -> float:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        raise InputError(f"{name}: {show(value)}: must be a number, at least 0")
    return float(value)


def _name(who: tuple[str, str]) -> str:
    return f"task {show(who[1])} of job {show(who[0])}"
