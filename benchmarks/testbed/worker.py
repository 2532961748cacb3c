"""One rank of a job: computes, which is sleeping, then sends, again and again.

A program of its own, of the standard library and the gate alone. It reads a line of JSON that says
what to do, connects to its neighbours in the ring, says that it is ready, waits for the moment at
which to begin, and prints what happened as JSON. It ends when its input is closed.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

from benchmarks.testbed import clock
from metronome_opt.gate import Claim, Gate

PORT = 29_400
STALLED_S = 20.0
WARM_UP = 4_000_000  # bytes of each step before the start: windows grow as they do in long jobs
_BUFFER = memoryview(bytearray(1 << 18))
_PRIORITY = 10
_CUT = 3.0  # standard deviations


def main() -> None:
    """Run one rank."""
    task = json.loads(sys.stdin.readline())
    starts = hear_starts()
    real_time = take_precedence()
    to, origin = connect(task)
    for _ in range(2 * (len(task["addresses"]) - 1)):
        exchange(to, origin, WARM_UP)
    print("ready", flush=True)
    start_ns = starts.get()
    rank = Rank(task, to, origin, start_ns)
    rank.run()
    print(json.dumps({**rank.seen(), "real_time": real_time}), flush=True)


def connect(task: dict[str, Any]) -> tuple[socket.socket, socket.socket]:
    """Return the connection to the next rank and the one from the rank before."""
    rank, addresses = task["rank"], task["addresses"]
    with socket.create_server((addresses[rank], PORT)) as server:
        to = _connection(addresses[(rank + 1) % len(addresses)], task["congestion"])
        server.settimeout(STALLED_S)
        origin, _ = server.accept()
    origin.setblocking(False)
    to.setblocking(False)
    return to, origin


def _connection(address: str, congestion: str) -> socket.socket:
    until = time.monotonic() + STALLED_S
    while True:
        made = socket.socket()
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        except OSError:
            raise OSError(
                f"no congestion control {congestion}; modprobe tcp_{congestion}"
            ) from None
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            made.connect((address, PORT))
            return made
        except OSError:
            made.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


class Rank:
    """One rank as it runs.

    Parameters
    ----------
    task
        `bursts`: pairs of ms of computing and of bytes to send; `rest_ms` of computing after them;
        `begin_ms` and `end_ms` since the start; `jitter` of computing and its `seed`; perhaps a
        `claim`; and `iterations` at most.
    to, origin
        The next rank, and the one before.
    start_ns
        Since the Unix epoch.
    """

    def __init__(
        self, task: dict[str, Any], to: socket.socket, origin: socket.socket, start_ns: int
    ) -> None:
        self._task, self._to, self._origin, self._start_ns = task, to, origin, start_ns
        self._factors = factors(task["seed"], task["jitter"])
        self._steps = 2 * (len(task["addresses"]) - 1)
        self._gate = gate_of(task["claim"], start_ns) if task["claim"] else None
        self._begins: list[float] = []
        self._bursts: list[tuple[float, float, float]] = []
        self._late: list[float] = []
        self._ended: str | None = None

    def run(self) -> None:
        """Iterate until it is time to end; the first rank decides, the others see it leave."""
        task = self._task
        sleep(self._left_ms(task["begin_ms"]) / 1e3)
        try:
            while not self._is_over():
                self._begins.append(self._now_ms())
                for compute_ms, size in task["bursts"]:
                    self._compute(compute_ms)
                    self._burst(size)
                self._compute(task["rest_ms"])
        except (OSError, EOFError) as error:
            self._ended = str(error) or type(error).__name__
        self._begins.append(self._now_ms())
        self._to.close()
        self._origin.close()

    def seen(self) -> dict[str, Any]:
        """Return what happened, in ms since the start."""
        late = sorted(self._late)
        return {
            "begins_ms": [round(each, 3) for each in self._begins],
            "bursts_ms": [[round(each, 3) for each in burst] for burst in self._bursts],
            "late_p95_ms": round(late[int(0.95 * (len(late) - 1))], 3) if late else 0.0,
            "late_max_ms": round(late[-1], 3) if late else 0.0,
            "ended": self._ended,
        }

    def _is_over(self) -> bool:
        task = self._task
        if task["rank"]:
            return False
        late: bool = self._now_ms() >= task["end_ms"]
        return late or len(self._begins) == task["iterations"]

    def _compute(self, length_ms: float) -> None:
        if length_ms:
            self._late.append(1e3 * sleep(length_ms / 1e3 * next(self._factors)))

    def _burst(self, size: int) -> None:
        ready = self._now_ms()
        if self._gate is None:
            begin = ready
            self._all_reduce(size)
        else:
            with self._gate.burst(sent_bytes=size):
                begin = self._now_ms()
                self._all_reduce(size)
        self._bursts.append((ready, begin, self._now_ms()))

    def _all_reduce(self, size: int) -> None:
        """Send and receive so many bytes in the steps of a ring, each after the one before."""
        for step in range(self._steps):
            sent = (step + 1) * size // self._steps - step * size // self._steps
            exchange(self._to, self._origin, sent)

    def _left_ms(self, moment_ms: float) -> float:
        return max(0.0, moment_ms - self._now_ms())

    def _now_ms(self) -> float:
        return (clock.wall_ns() - self._start_ns) / 1e6


def factors(seed: str, jitter: float) -> Iterator[float]:
    """Yield factors on computing times; all ranks of a job draw the same."""
    draw = random.Random(seed)
    while True:
        yield max(0.0, 1 + jitter * min(max(draw.gauss(0, 1), -_CUT), _CUT))


def sleep(length_s: float) -> float:
    """Sleep for some seconds; return how late the machine woke us, in s."""
    until = clock.steady_ns() + round(1e9 * length_s)
    while (left := until - clock.steady_ns()) > 0:
        time.sleep(left / 1e9)
    return (clock.steady_ns() - until) / 1e9


def exchange(to: socket.socket, origin: socket.socket, size: int) -> None:
    """Send so many bytes to the next rank while as many come from the one before."""
    outgoing = incoming = size
    while outgoing or incoming:
        readable, writable, _ = select.select(
            [origin] if incoming else [], [to] if outgoing else [], [], STALLED_S
        )
        if not readable and not writable:
            raise TimeoutError("nothing sent or received for too long")
        if writable:
            outgoing -= to.send(_BUFFER[: min(outgoing, len(_BUFFER))])
        if readable:
            received = origin.recv_into(_BUFFER, min(incoming, len(_BUFFER)))
            if not received:
                raise EOFError("left by the rank before")
            incoming -= received


def gate_of(stated: dict[str, Any], start_ns: int) -> Gate:
    """Return a gate with a claim whose offset counts from the start."""
    period_ns = stated["period_ms"] * 1_000_000
    claim = Claim(
        offset_ns=(start_ns + stated["offset_ms"] * 1_000_000) % period_ns,
        period_ns=period_ns,
        starts_ns=tuple(1_000_000 * start for start in stated["starts_ms"]),
        cushion_ns=stated["cushion_ms"] * 1_000_000,
    )
    return Gate(claim, wall=clock.wall_ns, steady=clock.steady_ns)


def take_precedence() -> bool:
    """Run before whatever else this machine does, where that is allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError:
        return False
    return True


def hear_starts() -> SimpleQueue[int]:
    """Return where moments to start will be; end as soon as whoever is to tell them is gone.

    The network goes at the same time, and connecting to a node that is not there takes minutes.
    """
    starts: SimpleQueue[int] = SimpleQueue()

    def hear() -> None:
        line = b""
        while letter := os.read(0, 1):
            line += letter
            if letter == b"\n":
                starts.put(int(line))
                line = b""
        os._exit(1)

    threading.Thread(target=hear, daemon=True).start()
    return starts


if __name__ == "__main__":
    main()
