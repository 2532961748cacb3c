"""Tasks of child processes that end badly, or never."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any


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
