"""A back end in a process of its own: read line by line, stopped by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from metronome_opt.solvers.search import Search, run_interruptibly

_PATIENCE = 30  # requests to stop, some 50 ms apart, before the process is killed


def program(name: str) -> list[str]:
    """Return the command that runs a file of this folder as a program.

    By its path, not as a module: importing the package would take as long as the back end does. -P
    keeps the folder, in which there is a random.py, off the path.
    """
    return [sys.executable, "-P", str(Path(__file__).with_name(name))]


def how_it_ended(exit_status: int) -> str:
    """Return how a process ended that should not have, in words."""
    if exit_status >= 0:
        return f"exit status {exit_status}"
    name = signal.Signals(-exit_status).name
    # The system kills what takes too much; what is refused memory most often aborts.
    return f"signal {name}{' (out of memory?)' if name in ('SIGKILL', 'SIGABRT') else ''}"


def run_process(
    search: Search, command: Sequence[str], folder: Path, on_line: Callable[[str], None]
) -> tuple[int, bool]:
    """Run a program until it ends or `search` stops.

    Parameters
    ----------
    command
        Program and arguments.
    folder
        Its working folder.
    on_line
        Called with every line that the program prints.

    Returns
    -------
    tuple
        Its exit status, and whether it was told to stop.
    """
    process = subprocess.Popen(  # noqa: S603 (the caller names the program)
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C in a terminal reaches it once, through us
    )
    asked = 0

    def work() -> None:
        assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
        for line in process.stdout:
            on_line(line.rstrip("\n"))
        process.wait()

    def cancel() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            process.send_signal(signal.SIGINT)
        elif asked == _PATIENCE:
            process.kill()

    try:
        run_interruptibly(search, work, cancel)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return process.returncode, asked > 0
