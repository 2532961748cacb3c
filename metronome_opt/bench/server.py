"""Processes that have a module loaded and fork a child for each task, so that it begins at once."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import psutil

OUTPUT_FILE = "output.txt"
MARK = "METRONOME_TASK"
_LAST_WORD_S = 5.0  # for a server to notice that its child was killed


class Server:
    """One of these processes; `metronome_opt.bench.worker.serve` is its other half.

    The end of its standard input says that we are gone, to it and to its child.

    Parameters
    ----------
    module
        Run as ``python -m module``.
    folder
        Of the first task, where it says why it cannot start.
    """

    def __init__(self, module: str, folder: Path) -> None:
        with (folder / OUTPUT_FILE).open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 (this Python, a module of the caller's)
                # -P: a file in the folder must not pass for a module.
                [sys.executable, "-P", "-m", module],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, MARK: str(folder.with_name("server"))},
                start_new_session=True,  # Ctrl-C in a terminal reaches it through us alone
            )
        self.module = module
        self._process, self._busy = process, False
        self._folders = cast("IO[bytes]", process.stdin)
        self._statuses = cast("IO[bytes]", process.stdout)
        self._poll = select.poll()
        self._poll.register(self._statuses, select.POLLIN)

    @property
    def alive(self) -> bool:
        """Whether it can take another task."""
        return self._process.poll() is None

    @property
    def resident(self) -> int:
        """Resident bytes of the task and all that it has started."""
        total = 0
        for process in self._children():
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def begin(self, folder: Path) -> None:
        """Have a child take the task of a folder."""
        self._busy = True
        with suppress(BrokenPipeError):  # it has died; waiting for the child says so
            self._folders.write(json.dumps(str(folder)).encode() + b"\n")
            self._folders.flush()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status of the child, or of a server that has died; None if it runs."""
        if not self._poll.poll(1000 * seconds):
            return None
        self._busy = False
        line = self._statuses.readline()
        return int(line) if line else self._process.wait()

    def end_task(self) -> None:
        """Kill the child if it still runs."""
        if not self._busy:
            return
        children = self._children()
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if not children or self.wait(_LAST_WORD_S) is None:
            self.close()

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        with suppress(BrokenPipeError, ValueError):  # closed before
            self._process.communicate()

    def _children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []


_IDLE: defaultdict[str, list[Server]] = defaultdict(list)
"""Servers that wait for another task, by module."""


def take_server(module: str, folder: Path) -> Server:
    """Return a server that waits, or a new one if there is none."""
    while True:
        try:
            server = _IDLE[module].pop()
        except IndexError:
            return Server(module, folder)
        if server.alive:
            return server
        server.close()


def give_back(server: Server) -> None:
    """Keep a server for another task, unless it has died."""
    if server.alive:
        _IDLE[server.module].append(server)
    else:
        server.close()


def close_idle() -> None:
    """End the servers that wait for another task."""
    for servers in list(_IDLE.values()):
        while servers:
            servers.pop().close()
