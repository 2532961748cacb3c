"""What came of each case of a campaign of solvers."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from metronome_opt.journal import read_journal
from metronome_opt.records import FrozenMap, NonNegative, Positive
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

    @property
    def title(self) -> str:
        """Which case it was, for people."""
        return f"{self.instance} {self.solver} seed {self.seed}"

    @property
    def went_well(self) -> bool:
        """Whether there is a schedule."""
        return self.kind == "schedule"

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""
        if self.went_well:
            bound = "none" if self.lower_bound is None else f"{float(self.lower_bound):,.6g}"
            seconds = self.wall_s if self.runtime_s is None else self.runtime_s
            value = f"{float(self.objective):,.6g}" if self.objective is not None else "-"
            return f"{self.status} {value}, bound {bound}, {seconds:.2f} s"
        reasons = (*self.faults, self.error or "")
        return f"{self.kind.replace('_', ' ')} ({reasons[0]})" if reasons[0] else self.kind


def read_records(paths: Iterable[str | Path]) -> list[Record]:
    """Read files of such records, in order; see `read_journal`."""
    return read_journal(paths, Record)
