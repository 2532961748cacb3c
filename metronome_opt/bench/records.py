"""What came of each case: one JSON object a line, exact, appended one at a time.

A file of records may end in the middle of a line, where a campaign was killed while it wrote. Such
a line has no end and is left out; whatever else is not a record is an error that names the line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from metronome_opt.documents import check_targets
from metronome_opt.errors import InputError
from metronome_opt.records import FrozenMap, NonNegative, Positive, explain
from metronome_opt.schedule import Exact

Kind = Literal["schedule", "no_schedule", "infeasible", "out_of_memory", "crash", "invalid"]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Moment = tuple[Seconds, Exact | None, Exact | None, str]
Key = tuple[str, str, int, float, int | None, int]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class Record:
    """One case and its outcome.

    Attributes
    ----------
    kind
        ``schedule``: there is one, and the judge found nothing false; ``no_schedule``: the time was
        over without one; ``infeasible``: the solver says that there is none; ``out_of_memory``: the
        memory limit ended it; ``crash``: an exception or a signal ended it; ``invalid``: the judge
        refuses what the solver stated, see `faults`.
    suite, split, instance, instance_sha256
        What was solved; the checksum is that of the stored file.
    solver, seed, time_limit_s, memory_limit_mb, workers
        How; memory None for no limit, workers are threads.
    status, objective, lower_bound, offsets
        What the solver stated, None where it stated nothing; slots per job name.
    stop
        Why it stopped; ``killed`` if it did not stop by itself.
    runtime_s, build_s
        Seconds as the solver's own clock has them, compiling and imports left out; None if it did
        not end by itself.
    wall_s, peak_memory_mb
        From outside: seconds from the start of the process to its end, imports included, and the
        largest memory of all its processes together that was seen.
    trajectory
        (seconds, incumbent, bound, source) of every new incumbent and better bound, in order.
    notes
        What the solver had to say.
    error, faults
        Why there is no schedule; what the judge calls false.
    started, machine, versions, commit
        When (UTC), where and what ran; ``+`` ends the commit of a changed checkout.
    """

    format: Literal["metronome-record/1"] = "metronome-record/1"
    kind: Kind
    suite: str
    split: str
    instance: str
    instance_sha256: str
    solver: str
    seed: NonNegative
    time_limit_s: Seconds
    memory_limit_mb: Positive | None
    workers: Positive
    status: Literal["optimal", "feasible", "infeasible", "unknown"] | None
    objective: Exact | None
    lower_bound: Exact | None
    stop: str | None
    runtime_s: Seconds | None
    build_s: Seconds | None
    wall_s: Seconds
    peak_memory_mb: Seconds | None
    trajectory: tuple[Moment, ...]
    offsets: FrozenMap[str, int] | None
    notes: tuple[str, ...]
    error: str | None
    faults: tuple[str, ...]
    started: str
    machine: FrozenMap[str, str | int | None]
    versions: FrozenMap[str, str]
    commit: str | None

    @property
    def key(self) -> Key:
        """What tells this case from every other one."""
        return (
            self.instance_sha256,
            self.solver,
            self.seed,
            self.time_limit_s,
            self.memory_limit_mb,
            self.workers,
        )

    @property
    def value(self) -> Fraction | None:
        """The objective, where the judge found it true."""
        return self.objective if self.kind == "schedule" else None


_ADAPTER = TypeAdapter(Record)


def read_records(paths: Iterable[str | Path]) -> list[Record]:
    """Read files of records, in order.

    Raises
    ------
    InputError
        If a file cannot be read or a whole line of it is not a record.
    """
    records: list[Record] = []
    for path in map(Path, paths):
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        records += _parse(raw, path)
    return records


def dump_record(record: Record) -> str:
    """Return a record as one line, its end included."""
    return _ADAPTER.dump_json(record).decode() + "\n"


class RecordFile:
    """A file of records that this process alone appends to, until it is closed.

    Parameters
    ----------
    path
        Made if it does not exist.
    resume
        Go on after the records that it holds; a torn last line is cut off. Otherwise a file that
        holds anything is refused.

    Raises
    ------
    InputError
        If the file cannot be written, is in use, or holds something it should not.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        path = Path(path)
        check_targets([], [path])
        self._stream = path.open("a+b")
        try:
            self._lock(path)
            self._stream.seek(0)
            raw = self._stream.read()
            if raw and not resume:
                raise InputError(
                    f"{path}: is not empty; go on with --resume, or name another --output"
                )
            self.records: tuple[Record, ...] = tuple(_parse(raw, path))
            self._stream.truncate(raw.rfind(b"\n") + 1)
        except BaseException:
            self._stream.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{path}: another campaign is writing it; name another --output"
            ) from None

    def append(self, record: Record) -> None:
        """Append a record; when this returns it is on the disk."""
        self._stream.write(dump_record(record).encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()


def _parse(raw: bytes, path: Path) -> list[Record]:
    records = []
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        try:
            records.append(_ADAPTER.validate_json(line))
        except ValidationError as error:
            raise InputError(f"{path}: line {number}: {explain(error)}") from None
    return records
