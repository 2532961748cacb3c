"""The processes of a test bed, and the network namespaces that they are in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

_WORKER = "benchmarks.testbed.worker"


def family(pid: int) -> list[psutil.Process]:
    """Return all processes that a process has started, and those that they have."""
    return psutil.Process(pid).children(recursive=True)


def ranks(pid: int) -> list[psutil.Process]:
    """Return the ranks that a process has started, in that order."""
    found = []
    for process in family(pid):
        try:
            if _WORKER in process.cmdline():
                found.append((process.create_time(), process.pid, process))
        except psutil.NoSuchProcess:
            continue
    return [process for _, _, process in sorted(found)]


def is_there(process: psutil.Process) -> bool:
    """Return whether a process has not ended; a zombie has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_namespaces() -> set[str]:
    """Return the network namespaces of all processes."""
    return namespaces_of(psutil.process_iter())


def namespaces_of(processes: Iterable[psutil.Process]) -> set[str]:
    """Return the network namespaces of some processes."""
    found = set()
    for process in processes:
        try:
            found.add(str(Path(f"/proc/{process.pid}/ns/net").readlink()))
        except OSError:  # it has ended
            continue
    return found
