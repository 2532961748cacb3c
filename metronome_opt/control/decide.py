"""Decisions: how much of a schedule is to be made anew, if anything is, and what is remembered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from immutabledict import immutabledict
from pydantic import Field

from metronome_opt.control.detect import Finding, Kind, Tolerance
from metronome_opt.control.reconfigure import PRICE, Reconfiguration, rephase_one, resolve
from metronome_opt.instance import Instance
from metronome_opt.presolve import split
from metronome_opt.records import FrozenMap, Name, Positive, Record, build


class Verdict(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    REPHASE = "rephase"
    BLOCK = "block"
    ALL = "all"


@dataclass(frozen=True)
class Settings:
    """How a monitor decides."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    persist: int = 2  # checks in a row in which a finding has to be there before it counts
    large: float = 4.0  # times its tolerance: a finding that exceeds this counts at once
    price: Fraction = PRICE  # of moves: 1 over the iterations in which one has to pay
    # What a plan has to gain, moves paid, and what more jobs have to gain over fewer: a share of
    # the weighted traffic that is no longer late.
    minimum_gain: Fraction = Fraction(1, 100)
    # For how long a job that was moved is left alone; doubled up to the longest if it flaps.
    pause_ms: float = 60_000.0
    longest_pause_ms: float = 3_600_000.0


# ------------------------------------------------------------------ what is remembered

_Milliseconds = Annotated[float, Field(allow_inf_nan=False)]


class Moved(Record):
    """When a job was moved last, and for how long after that it is left alone, in ms."""

    at_ms: _Milliseconds
    pause_ms: Annotated[_Milliseconds, Field(ge=0)]


class Memory(Record):
    """What a monitor remembers between two checks, so that it does not flap; a document.

    Counted is in how many checks in a row each finding was there, by kind and name; and kept is
    when each job was moved.
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
        return build(cls, data, "metronome-monitor/1")

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as a document."""
        return self.model_dump(mode="json")

    def noting(self, findings: Sequence[Finding], measured: Collection[str]) -> Memory:
        """Return the memory after a further check, in which some jobs and links were measured.

        What was found of others before stays as it was.
        """
        seen = {key: count for key, count in self.seen.items() if _name(key) not in measured}
        seen |= {_key(each): self.seen.get(_key(each), 0) + 1 for each in findings}
        return Memory(seen=seen, moved=self.moved)

    def is_ripe(self, finding: Finding, settings: Settings) -> bool:
        """Whether a finding is to be believed: it has lasted, is large, or the job is gone."""
        lasting = self.seen.get(_key(finding), 0) >= settings.persist
        return lasting or finding.excess >= settings.large or finding.kind is Kind.GONE

    def resting(self, now_ms: float) -> set[str]:
        """Return the jobs that were moved not long ago and are to be left alone."""
        return {name for name, moved in self.moved.items() if now_ms < moved.at_ms + moved.pause_ms}

    def after_moving(self, names: Collection[str], now_ms: float, settings: Settings) -> Memory:
        """Return the memory after some jobs were moved.

        One that is moved again within twice its pause is left alone for twice as long as before.
        """
        moved = dict(self.moved)
        for name in names:
            before, pause = moved.get(name), settings.pause_ms
            if before is not None and now_ms < before.at_ms + 2 * before.pause_ms:
                pause = min(settings.longest_pause_ms, 2 * before.pause_ms)
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


# ------------------------------------------------------------------ who is to move


def choose(
    part: Instance,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int = 0,
) -> tuple[Reconfiguration, bool, Fraction]:
    """Choose between moving nobody, one job, the jobs around the suspects, and all.

    The jobs of a part share links, directly or through others; something was found of the suspects,
    or of their links. Those that are resting must not be moved now.

    Returns
    -------
    way, postponed, most
        The offsets: nobody moves if that does not gain enough. Whether more would be gained if no
        job were resting. What the best plan of all would gain, moves paid, as a share of the
        weighted traffic.
    """
    way, most = _least_that_pays(part, suspects, resting, settings, seed)
    if way.moved or not any(job.name in resting for job in part.jobs):
        return way, False, most
    unbound, most = _least_that_pays(part, suspects, (), settings, seed)
    return way, bool(unbound.moved), most


def _least_that_pays(
    part: Instance,
    suspects: Collection[str],
    resting: Collection[str],
    settings: Settings,
    seed: int,
) -> tuple[Reconfiguration, Fraction]:
    """Return the smallest change of which no larger one gains enough more, and the most gained."""
    price = settings.price
    chosen = resolve(part, price=price, only=())
    if not chosen.contention_before:
        return chosen, Fraction(0)
    around = set(suspects)
    for block in split(part).blocks:
        members = {job.name for job in block.jobs}
        if not members.isdisjoint(suspects):
            around |= members
    ways = [
        rephase_one(part, price=price, held=resting),
        resolve(part, price=price, held=resting, only=around, seed=seed),
    ]
    if len(around) < len(part.jobs):
        ways.append(resolve(part, price=price, held=resting, seed=seed))
    for way in ways:
        if chosen.after - way.after >= settings.minimum_gain:
            chosen = way
    return chosen, max(way.gain for way in ways)


def verdict(moved: Collection[str], instance: Instance) -> Verdict:
    """Return what it is called to move some jobs of an instance."""
    if len(moved) < 2:
        return Verdict.REPHASE if moved else Verdict.NOTHING
    blocks = ({job.name for job in block.jobs} for block in split(instance).blocks)
    return Verdict.BLOCK if any(set(moved) <= block for block in blocks) else Verdict.ALL
