"""What workloads say of their traffic: annotations, and the ``spec.traffic`` of claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from metronome_opt.documents import parse_yaml
from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.reading.fields import Field

_MEGA = 10**6
_LONGEST_US = 10**12  # eleven days, as far as a scenario goes
_NAMES = (
    "model",
    "batch",
    "traffic",
    "claim-template",
    "priority",
    "max-stretch-ms",
    "iterations",
    "ignore",
)


@dataclass(frozen=True)
class Burst:
    """One burst: microseconds from the iteration's start, microseconds, Mbit/s."""

    start_us: int
    length_us: int
    rate_mbps: Fraction


@dataclass(frozen=True)
class Pattern:
    """The traffic of one pod as a claim states it."""

    period_us: int
    bursts: tuple[Burst, ...]

    def document(self) -> dict[str, Any]:
        """Return it as a scenario has it; a rate that is no whole Mbit/s is the next one."""
        return {
            "period_ms": milliseconds(self.period_us),
            "phases": [
                {
                    "start_ms": milliseconds(burst.start_us),
                    "length_ms": milliseconds(burst.length_us),
                    "rate_mbps": -(-burst.rate_mbps.numerator // burst.rate_mbps.denominator),
                }
                for burst in self.bursts
            ],
        }


def milliseconds(microseconds: int) -> int | float:
    """Return a time in ms, as a decimal that reads back exactly."""
    whole, rest = divmod(microseconds, 1000)
    return microseconds / 1000 if rest else whole


def read_pattern(traffic: Field) -> Pattern:
    """Read what stands in ``spec.traffic`` of a claim.

    Raises
    ------
    InputError
        If it is not what the definition of claims allows, or bursts overlap.
    """
    period = (traffic / "periodMicroseconds").integer(1, most=_LONGEST_US)
    phases = traffic / "phases"
    bursts: list[Burst] = []
    end = 0
    for phase in phases.items():
        start = (phase / "startMicroseconds").integer(0, most=_LONGEST_US)
        length = (phase / "lengthMicroseconds").integer(1, most=_LONGEST_US)
        rate = (phase / "rate").quantity() / _MEGA
        if not rate:
            (phase / "rate").fail("must be above 0; leave out a burst that sends nothing")
        if start < end:
            (phase / "startMicroseconds").fail(
                f"must be at least {end}, where the burst before it ends"
            )
        end = start + length
        if end > period:
            (phase / "lengthMicroseconds").fail(
                f"the burst ends at {end}, after the period of {period}"
            )
        bursts.append(Burst(start, length, rate))
    if not bursts:
        phases.fail("missing; a pattern has at least one burst")
    return Pattern(period, tuple(bursts))


class Annotations:
    """The annotations of a workload that are meant for us.

    Parameters
    ----------
    annotations
        All that it has.
    group
        The prefix of ours.
    where
        The workload.

    Raises
    ------
    InputError
        If there is one with our prefix that means nothing.
    """

    def __init__(self, annotations: Mapping[str, str], group: str, where: str) -> None:
        self._group, self._where = group, where
        prefix = f"{group}/"
        self._given = {
            name.removeprefix(prefix): text
            for name, text in annotations.items()
            if name.startswith(prefix) and not name.startswith(f"{prefix}original-")
        }
        for name in self._given:
            if name not in _NAMES:
                near = get_close_matches(name, _NAMES, n=1)
                perhaps = f" (perhaps {near[0]})" if near else f"; known are {', '.join(_NAMES)}"
                self._fail(name, f"unknown annotation{perhaps}")

    @property
    def ignored(self) -> bool:
        """Whether the workload is to be left out."""
        return self._given.get("ignore", "false").lower() == "true"

    def integer(self, name: str, least: int) -> int | None:
        """Return a whole number; None if it is not given."""
        text = self._given.get(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
            self._fail(name, f"must be a whole number of at least {least}, got {show(text)}")
        return int(text)

    def text(self, name: str) -> str | None:
        """Return text; None if it is not given."""
        text = self._given.get(name)
        if text is not None and not text.strip():
            self._fail(name, "must not be empty")
        return text

    def source(self) -> str | None:
        """Return which annotation says what is sent: model, traffic, claim-template or none.

        Raises
        ------
        InputError
            If several do, or a model is there without a batch.
        """
        given = [
            name for name in ("model", "traffic", "claim-template") if self.text(name) is not None
        ]
        if len(given) > 1:
            self._fail(given[1], f"{given[0]} is there as well; keep one of them")
        if given != ["model"] and "batch" in self._given:
            self._fail("batch", "is for a model; name one")
        if given == ["model"] and self.integer("batch", 1) is None:
            self._fail("batch", "missing; a model needs the samples of a GPU in an iteration")
        return given[0] if given else None

    def pattern(self) -> Pattern:
        """Return the traffic that is stated in full.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        text = self._given["traffic"]
        where = f"{self._where}: annotation {self._group}/traffic"
        try:
            value = parse_yaml(text)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        return read_pattern(Field(value, where))

    def _fail(self, name: str, message: str) -> NoReturn:
        raise InputError(f"{self._where}: annotation {self._group}/{name}: {message}")
