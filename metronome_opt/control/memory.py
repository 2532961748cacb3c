"""What a monitor remembers between two checks, so that it does not flap; a document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from immutabledict import immutabledict
from pydantic import Field

from metronome_opt.control.detect import Finding, Kind
from metronome_opt.records import FrozenMap, Name, Positive, Record, build

MEMORY_FORMAT = "metronome-monitor/1"

Milliseconds = Annotated[float, Field(allow_inf_nan=False)]


class Moved(Record):
    """When a job was moved last, and for how long after that it is left alone, in ms."""

    at_ms: Milliseconds
    pause_ms: Annotated[Milliseconds, Field(ge=0)]


class Memory(Record):
    """Findings that wait to be believed, and jobs that were moved.

    Parameters
    ----------
    seen
        In how many checks in a row each finding was there, by kind and name.
    moved
        By job.
    """

    format: Literal["metronome-monitor/1"] = "metronome-monitor/1"
    seen: FrozenMap[str, Positive] = immutabledict()
    moved: FrozenMap[Name, Moved] = immutabledict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a memory from a document of format ``metronome-monitor/1``.

        Raises
        ------
        InputError
            If anything is unknown, missing or out of range.
        """
        return build(cls, data, MEMORY_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as a document."""
        return self.model_dump(mode="json")

    def noting(self, findings: Sequence[Finding], measured: Collection[str]) -> Memory:
        """Return the memory after a further check.

        Parameters
        ----------
        findings
            Of this check.
        measured
            Jobs and links that were measured. What was found of others before stays as it was.
        """
        seen = {key: count for key, count in self.seen.items() if _name(key) not in measured}
        seen |= {_key(each): self.seen.get(_key(each), 0) + 1 for each in findings}
        return Memory(seen=seen, moved=self.moved)

    def is_ripe(self, finding: Finding, *, persist: int, large: float) -> bool:
        """Whether a finding is to be believed: it has lasted, is large, or the job is gone."""
        lasting = self.seen.get(_key(finding), 0) >= persist
        return lasting or finding.excess >= large or finding.kind is Kind.GONE

    def resting(self, now_ms: float) -> set[str]:
        """Return the jobs that were moved not long ago and are to be left alone."""
        return {name for name, moved in self.moved.items() if now_ms < moved.at_ms + moved.pause_ms}

    def after_moving(
        self, names: Collection[str], now_ms: float, *, pause_ms: float, longest_ms: float
    ) -> Memory:
        """Return the memory after some jobs were moved.

        One that is moved again within twice its pause is left alone for twice as long as before.
        """
        moved = dict(self.moved)
        for name in names:
            before = moved.get(name)
            pause = pause_ms
            if before is not None and now_ms < before.at_ms + 2 * before.pause_ms:
                pause = min(longest_ms, 2 * before.pause_ms)
            moved[name] = Moved(at_ms=now_ms, pause_ms=pause)
        return Memory(seen=self.seen, moved=moved)

    def only(self, names: Collection[str]) -> Memory:
        """Return what it remembers of some jobs and links."""
        return Memory(
            seen={key: count for key, count in self.seen.items() if _name(key) in names},
            moved={name: moved for name, moved in self.moved.items() if name in names},
        )


def _key(finding: Finding) -> str:
    return f"{finding.kind} {finding.name}"


def _name(key: str) -> str:
    return key.partition(" ")[2]
