"""The command ``metronome`` in a process of its own, which says how much memory it took.

What a parent learns of a child's memory begins with its own, so the child has to look itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import sys
from pathlib import Path
from metronome_opt.__main__ import main

status = main(sys.argv[1:])
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(peak)
sys.exit(status)
"""


def run_measured(arguments: Sequence[str]) -> tuple[list[str], int]:
    """Run the command; return the lines that it printed, and its peak memory in KiB."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"metronome ended with {done.returncode}: {done.stdout}")
    *lines, peak = done.stdout.splitlines()
    return lines, int(peak)
