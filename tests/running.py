"""Programs that are let run for a while before something happens to them, and interpreters."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
PATIENCE_S = 200.0
_INTERPRETERS = (sys.executable, ROOT / "build/measure/bin/python", "/usr/bin/python3")


@cache
def python_with(*modules: str) -> str | None:
    """Return an interpreter that has modules such as torch; None if there is none."""
    for candidate in map(str, _INTERPRETERS):
        asked = f"import sys, {', '.join(modules)}; assert sys.version_info >= (3, 11)"
        if (
            Path(candidate).exists()
            and not subprocess.run([candidate, "-c", asked], capture_output=True).returncode
        ):
            return candidate
    return None


def let_work(process: subprocess.Popen[str], cpu_s: float = 3.0) -> None:
    """Wait until a program and those it started have used so much time of a processor.

    How far a program has come by then does not depend on what else the machine does.
    """
    end = time.monotonic() + PATIENCE_S
    while used_s(process.pid) < cpu_s:
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_until(condition: Callable[[], Any], patience_s: float = 90) -> None:
    """Wait until something is so."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def used_s(pid: int) -> float:
    """Return the processor time of a process and of its descendants that are there."""
    total = 0.0
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return total
    for member in family:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
