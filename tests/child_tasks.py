"""Tasks of child processes, most of which end badly or never, and what they load."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from typing import Any

_LOADERS: list[int] = []


def load() -> None:
    """Note the process that loads, as often as it does."""
    _LOADERS.append(os.getpid())


def fail_to_load() -> None:
    raise ValueError("nothing to load")


def die(*arguments: Any) -> None:
    """Send a bound, print a line and be killed; `send` is the last argument."""
    arguments[-1](bound=2.0)
    sys.stdout.write("about to be killed\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def end_abnormally(*arguments: Any) -> None:
    arguments[-1](bound=2.0)
    arguments[-1](status="ABNORMAL", objective=0.0, bound=0.0)


def never_end(*arguments: Any) -> None:
    arguments[-1](process=os.getpid())
    time.sleep(600)


def say_loaders(*arguments: Any) -> None:
    """Send the processes that have loaded for this one, and the limit of its data segment."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    arguments[-1](loaders=_LOADERS, process=os.getpid(), limit=limit)


def leave_fork(*arguments: Any) -> None:
    """Leave a process of another session, which has no program of its own."""
    child = os.fork()
    if not child:
        os.setsid()
        time.sleep(600)
    arguments[-1](process=child)
