"""A file of claims: what stands in it for one job, and whether it has changed.

The file is JSON or YAML. It holds STBandwidthClaim objects as ``metronome claims`` writes them and
``kubectl get -o json`` or ``-o yaml`` prints them, one, several documents or a list, beside which
other objects may stand. Or it holds the numbers alone, ``{"offset_ms": 40, "period_ms": 240}``,
with ``starts_ms``, ``cushion_ms``, ``job`` and ``gated`` if need be.
"""

from __future__ import annotations

import os
import stat
import time

from metronome_opt.gate.checks import ClaimError
from metronome_opt.gate.plan import Claim

LARGEST = 16 * 2**20
"""Bytes that a file may have."""

_SAID = 100  # characters of what a parser says
_UNSURE_NS = 20_000_000  # two changes within a tick of the file system's clock look like one


class ClaimFile:
    """A file of claims, read again when it has changed.

    Parameters
    ----------
    path
        The file; it may come and go.
    job, task
        Whose claims count. Without a job all have to be of one.
    """

    def __init__(self, path: str | os.PathLike[str], job: str, task: int | None) -> None:
        self._path = os.fspath(path)
        self._job, self._task = job, task
        self._changed = self._inode = self._size = -1  # when it was read
        self._found: Claim | ClaimError = ClaimError("not read yet")

    def look(self) -> Claim:
        """Return the claim that stands in the file now.

        Raises
        ------
        ClaimError
            If there is none that can be obeyed.
        """
        try:
            now = os.stat(self._path)  # noqa: PTH116 (one call, no more)
            if (
                now.st_mtime_ns != self._changed
                or now.st_ino != self._inode
                or now.st_size != self._size
            ):
                self._read_anew(now)
        except OSError as error:
            self._inode = -1
            why = error.strerror or type(error).__name__
            raise ClaimError(f"{self._path}: cannot be read ({why})") from None
        except ValueError as error:  # a path with a zero in it
            raise ClaimError(f"{self._path!r}: cannot be read ({error})") from None
        if isinstance(self._found, ClaimError):
            raise self._found
        return self._found

    def _read_anew(self, now: os.stat_result) -> None:
        self._inode = -1
        if not stat.S_ISREG(now.st_mode):
            raise ClaimError(f"{self._path}: is no file; name one that holds claims")
        sure = not 0 <= time.time_ns() - now.st_mtime_ns < _UNSURE_NS
        self._found = self._read()
        self._changed, self._size = now.st_mtime_ns, now.st_size
        self._inode = now.st_ino if sure else -1

    def _read(self) -> Claim | ClaimError:
        with open(self._path, "rb") as stream:  # noqa: PTH123
            content = stream.read(LARGEST + 1)
        try:
            if len(content) > LARGEST:
                raise ClaimError(f"has more than {LARGEST // 2**20} MiB; give a file of one job")
            from metronome_opt.gate.objects import claim_in

            return claim_in(content, self._job, self._task)
        except ClaimError as fault:
            return ClaimError(f"{self._path}: {fault}")
        except Exception as error:  # parsers raise more than they say
            said = f"{type(error).__name__}: {error}"[:_SAID]
            return ClaimError(f"{self._path}: cannot be understood ({said}); write it anew")
