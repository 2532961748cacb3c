"""Counters of bursts, and their text format for Prometheus."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metronome_opt.gate.burst import Burst
    from metronome_opt.gate.windows import Claim

_COUNTERS = {
    "sent_bytes": "Bytes that bursts sent.",
    "bursts": "Bursts that ended.",
    "waited_seconds": "Time that bursts waited for their windows.",
    "late_seconds": "Time by which bursts began after their windows.",
    "late_bursts": "Bursts that began after their windows by more than the cushion.",
    "burst_seconds": "Time in bursts.",
    "fastest_bytes": "Bytes of the fastest of each sixteen bursts.",
    "fastest_seconds": "Time in these.",
    "iterations": "Iterations from beginning to beginning.",
    "iteration_seconds": "Length of these iterations.",
    "computing_products": "Products of computing times before a burst and an iteration earlier.",
    "computing_differences": "Squares of the differences of these times.",
}
_GAUGES = {
    "period_seconds": "Period of the claim that is obeyed.",
    "offset_seconds": "Offset of the claim that is obeyed.",
    "following": "1 while a claim is obeyed.",
}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})  # in labels
_BLOCK = 16  # bursts, of which the fastest is counted
_PAUSE = 3  # times another computing time: the longer one is a checkpoint or a restart
_UNITS = {"seconds": 1e9, "products": 1e18, "differences": 1e18}  # of what is counted


def _escape(value: str) -> str:
    """Return the value of a label as the text format has it, also one that is no UTF-8."""
    return value.encode(errors="backslashreplace").decode().translate(_ESCAPES)


class BurstCounters:
    """Totals over the bursts of a gate; series are labelled with job, task and the host's name."""

    def __init__(self, job: str, task: int | None) -> None:
        self.job, self.task = job, task
        self._totals = dict.fromkeys(_COUNTERS, 0)  # times are counted in nanoseconds
        self._ended: int | None = None  # when the burst before did
        self._computed: dict[int, int] = {}  # by burst of an iteration: how long, before it
        self._fastest = 0, 1  # bytes and length, since one was counted
        pod = os.environ.get("HOSTNAME", "")
        names = {"job": job, "task": "" if task is None else str(task), "pod": pod}
        stated = {name: _escape(value) for name, value in names.items() if value}
        labels = ",".join(f'{name}="{value}"' for name, value in stated.items())
        self._labels = f"{{{labels}}}" if labels else ""

    def add(self, burst: Burst) -> None:
        """Count a burst that has ended."""
        totals, length, sent = self._totals, burst.ended - burst.began, burst.size or 0
        totals["bursts"] += 1
        totals["sent_bytes"] += sent
        totals["waited_seconds"] += burst.waited_ns
        totals["burst_seconds"] += length
        late, iteration = burst.late_ns, burst.iteration_ns
        if late is not None:
            totals["late_seconds"] += late
            totals["late_bursts"] += late > burst.cushion
        if iteration is not None:
            totals["iterations"] += 1
            totals["iteration_seconds"] += iteration
        if self._ended is not None:
            # Compared with the time in the iteration before, unless one of the two is a pause.
            computed = burst.ready - self._ended
            before, self._computed[burst.phase] = self._computed.get(burst.phase, 0), computed
            if max(before, computed) <= _PAUSE * min(before, computed):
                totals["computing_products"] += before * computed
                totals["computing_differences"] += (before - computed) ** 2
        self._ended = burst.ended
        fastest, shortest = self._fastest
        if sent * shortest > fastest * length:
            self._fastest = fastest, shortest = sent, length
        if fastest and totals["bursts"] % _BLOCK == 0:
            totals["fastest_bytes"] += fastest
            totals["fastest_seconds"] += shortest
            self._fastest = 0, 1

    def text(self, claim: Claim | None) -> str:
        """Return all series in the text format of Prometheus, with the claim that is obeyed."""
        values = {**self._totals, "following": int(claim is not None)}
        if claim is not None:
            values.update(period_seconds=claim.period_ns, offset_seconds=claim.offset_ns)
        lines = []
        for name, value in values.items():
            unit = _UNITS.get(name.rpartition("_")[2])
            series, kind = f"metronome_gate_{name}", "gauge"
            if name in _COUNTERS:
                series, kind = f"{series}_total", "counter"
            lines += [
                f"# HELP {series} {_COUNTERS.get(name) or _GAUGES[name]}",
                f"# TYPE {series} {kind}",
                f"{series}{self._labels} {value / unit if unit else value!r}",
            ]
        return "\n".join([*lines, ""])
