"""Programs as child processes: with a hard limit, interruptible, gone when this process is."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from metronome_opt.solvers.budget import Budget, run_interruptibly


def run_child(
    run: Budget,
    command: Sequence[str],
    on_line: Callable[[str], None],
    *,
    first_line: str,
    folder: Path | None = None,
    max_requests: int = 30,
) -> tuple[int, bool]:
    """Run a program until it ends or the run stops.

    Parameters
    ----------
    on_line
        Receives what the program prints, errors included, line by line.
    first_line
        What the program reads. Its input is closed when this process ends: then it has to end.
    folder
        Its working directory; this one by default.
    max_requests
        Once the run is stopped, the program gets SIGINT; it is killed when asked this number of
        times, 50 ms apart.

    Returns
    -------
    tuple
        Its exit status, and whether it was asked to stop.
    """
    process = subprocess.Popen(  # noqa: S603 (the caller names the program)
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C in a terminal reaches it once, through us
    )
    requests = 0

    def work() -> None:
        assert process.stdin is not None  # noqa: S101 (pipes were asked for)
        assert process.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):  # it has ended; its output says why
            process.stdin.write(first_line + "\n")
            process.stdin.flush()
        for line in process.stdout:
            on_line(line.rstrip("\n"))
        process.wait()

    def cancel() -> None:
        nonlocal requests
        requests += 1
        if requests >= max_requests:
            process.kill()
        elif requests == 1:
            process.send_signal(signal.SIGINT)

    try:
        run_interruptibly(run, work, cancel)
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.communicate()
    return process.returncode, requests > 0
