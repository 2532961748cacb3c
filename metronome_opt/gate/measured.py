"""What became of bursts: counters, and the text in which Prometheus reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metronome_opt.gate.plan import Claim

if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst

_COUNTERS = {
    "sent_bytes": "Bytes that bursts sent, growing while one is under way.",
    "bursts": "Bursts that ended.",
    "waited_seconds": "Time that bursts waited for their slots.",
    "late_seconds": "Time by which bursts began after their slots.",
    "late_bursts": "Bursts that began after their slots by more than the cushion.",
    "burst_seconds": "Time in bursts.",
    "iterations": "Iterations from beginning to beginning.",
    "iteration_seconds": "Length of these iterations.",
}
_GAUGES = {
    "period_seconds": "Period of the claim that is obeyed.",
    "offset_seconds": "Offset of the claim that is obeyed.",
    "following": "Whether a claim is obeyed.",
}


class Measured:
    """Totals over the bursts of a gate.

    The counter of bytes grows while a burst is under way, evenly over the length of the last burst
    of the same phase and no further than what it was told to send, or what that one sent. So who
    scrapes it sees when a burst begins, and about how long it is. What was shown is never taken
    back: if less was sent in the end, the counter stands until the total has come up to it.

    Parameters
    ----------
    job, task
        Who this is; labels of every series, beside the pod by the name of its host.
    """

    def __init__(self, job: str, task: int | None) -> None:
        self.job, self.task = job, task
        self._totals = dict.fromkeys(_COUNTERS, 0)  # seconds are counted in nanoseconds
        self._shown = 0  # bytes, as they were scraped last
        self._last: dict[int, tuple[int, int]] = {}  # length and bytes, by phase
        self._iteration_began: int | None = None
        pod = os.environ.get("HOSTNAME", "")
        names = {"job": job, "task": "" if task is None else str(task), "pod": pod}
        self._labels = ",".join(
            f'{name}="{_escaped(value)}"' for name, value in names.items() if value
        )

    def begin(self, burst: Burst, now: int) -> None:
        """Note that a burst begins."""
        burst.began = now
        if burst.phase == 0:
            if self._iteration_began is not None:
                burst.iteration_ns = now - self._iteration_began
                self._totals["iterations"] += 1
                self._totals["iteration_seconds"] += burst.iteration_ns
            self._iteration_began = now

    def end(self, burst: Burst, now: int, sent: int | None) -> None:
        """Count a burst that has ended, and what it sent with all that was a part of it."""
        burst.ended, burst.sent_bytes = now, sent
        totals = self._totals
        totals["bursts"] += 1
        totals["sent_bytes"] += sent or 0
        totals["waited_seconds"] += burst.waited_ns
        totals["burst_seconds"] += now - burst.began
        late = burst.late_ns
        if late is not None:
            totals["late_seconds"] += late
            totals["late_bursts"] += late > burst.cushion
        self._last[burst.phase] = now - burst.began, sent or 0

    def text(self, claim: Claim | None, current: Burst | None, now: int) -> str:
        """Return all series in the text format of Prometheus.

        Parameters
        ----------
        claim
            The one that is obeyed.
        current
            The burst that is under way, or waits.
        now
            By the steady clock.
        """
        sent = self._totals["sent_bytes"]
        if current is not None and current.began >= 0:
            sent += self._so_far(current, now)
        self._shown = max(self._shown, sent)
        values = {**self._totals, "sent_bytes": self._shown}
        lines: list[str] = []
        for name, about in _COUNTERS.items():
            value = values[name] / 1e9 if name.endswith("seconds") else values[name]
            self._add(lines, f"{name}_total", "counter", about, value)
        gauges = {
            "period_seconds": claim.period_ns / 1e9 if claim else None,
            "offset_seconds": claim.offset_ns / 1e9 if claim else None,
            "following": int(claim is not None),
        }
        for name, about in _GAUGES.items():
            gauge = gauges[name]
            if gauge is not None:
                self._add(lines, name, "gauge", about, gauge)
        return "\n".join([*lines, ""])

    def _so_far(self, burst: Burst, now: int) -> int:
        """Return about how much a burst has sent that is under way."""
        length, before = self._last.get(burst.phase, (0, 0))
        expected = before if burst.sent_bytes is None else burst.sent_bytes
        return expected * min(now - burst.began, length) // length if length else 0

    def _add(self, lines: list[str], name: str, kind: str, about: str, value: float) -> None:
        name = f"metronome_gate_{name}"
        labels = f"{{{self._labels}}}" if self._labels else ""
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name}{labels} {value!r}"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
