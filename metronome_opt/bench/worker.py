"""The child half of a task: ``python -m metronome_opt.bench.worker MEMORY_MB``.

It calls the task in its working directory, and appends messages to a file there, a JSON object a
line. The messages stay when it is killed. It ends when its standard input does, so that it does not
outlive the process that started it.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import sys
import threading
from pathlib import Path
from traceback import format_exception
from typing import Any

from metronome_opt.bench.process import MARK, MESSAGES_FILE, TASK_FILE, Task, kill_marked
from metronome_opt.errors import PluginError

_ERROR_LENGTH = 500
_MAX_LINES = 50  # of a traceback, its last ones


def main(memory_mb: int) -> int:
    """Run the task of the working directory; return the exit status.

    Parameters
    ----------
    memory_mb
        Limit of the data segment in 2**20 bytes; 0 for no limit.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if memory_mb:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_mb * 2**20
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with Path(MESSAGES_FILE).open("ab", buffering=0) as stream:

        def send(event: str, **content: Any) -> None:
            # One write a line: threads cannot mix, and the message stays when this process dies.
            stream.write(json.dumps({"event": event, **content}).encode() + b"\n")

        try:
            # The parent wrote it a moment ago.
            task: Task = pickle.loads(Path(TASK_FILE).read_bytes())  # noqa: S301
            task(send)
        except MemoryError:
            send("error", kind="out_of_memory", text=f"more memory than {memory_mb} MB was needed")
            return 1
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            if isinstance(error, PluginError):
                text = str(error)
            lines = "".join(format_exception(error.__cause__ or error)).splitlines()
            notes = [line[:_ERROR_LENGTH] for line in lines[-_MAX_LINES:]]
            send("error", kind="crash", text=text[:_ERROR_LENGTH], notes=notes)
            return 1
    return 0


def _end_with_parent() -> None:
    """End, with all descendants, when standard input ends."""
    while os.read(0, 1):
        pass
    kill_marked(os.environ[MARK])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
