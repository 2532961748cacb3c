"""Replacing a whole folder of files, so that it is the old one or the new one, never a mixture.

The new files are written to a folder beside the target and moved into place when they are on disk.
Only files that an export wrote are ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from metronome_opt.errors import InputError, show


class Replaceable:
    """A folder that exports write and replace.

    Parameters
    ----------
    directory
        The folder; it may be missing.
    names
        Every file name that an export may write.
    signed
        Name of the file by which an export is recognised.
    signature
        First line of that file.
    """

    def __init__(
        self, directory: str | Path, names: frozenset[str], signed: str, signature: str
    ) -> None:
        self.shown = Path(directory)
        self.target = Path(directory).resolve()  # a link stays, what it points to is replaced
        if not self.target.name:
            raise InputError(f"{self.shown}: cannot be replaced; name a folder below it")
        self.fresh = self.target.with_name(f".{self.target.name}.metronome-new")
        self.former = self.target.with_name(f".{self.target.name}.metronome-old")
        self.names = names
        self.signed = signed
        self.signature = signature

    def check(self) -> None:
        """Refuse a folder that cannot be replaced."""
        try:
            self._check_ours()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{self.shown}: cannot be written ({reason})") from None

    def replace(self, texts: Mapping[str, str]) -> None:
        """Make these the files of the folder.

        Raises
        ------
        InputError
            If the folder holds what no export wrote, is no folder or cannot be written.
        """
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self.target.parent):
                self._settle()
                self._check_ours()
                try:
                    self._fill(texts)
                    if self.target.exists():
                        self.target.rename(self.former)
                    self.fresh.rename(self.target)
                    _sync_folder(self.target.parent)
                finally:
                    self._settle()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{self.shown}: cannot be written ({reason})") from None

    def _settle(self) -> None:
        """Clear up after an export, this one or a killed one, keeping the last whole folder."""
        if self.former.exists():
            if not self.target.exists() or not any(self.target.iterdir()):
                self.former.rename(self.target)
            elif self._foreign() is None:
                self._remove(self.former)
        if self.fresh.exists():
            self._remove(self.fresh)

    def _check_ours(self) -> None:
        if not self.target.exists():
            return
        if not self.target.is_dir():
            raise InputError(f"{self.shown}: is a file; name a folder")
        foreign = self._foreign()
        if foreign is not None:
            raise InputError(
                f"{self.shown}: holds {show(foreign)}, which no export wrote; "
                "move it away or name another folder"
            )

    def _foreign(self) -> str | None:
        """Return the first thing in the target that no export wrote; None if it may be replaced."""
        entries = sorted(self.target.iterdir())
        for entry in entries:
            if entry.name not in self.names or entry.is_symlink() or not entry.is_file():
                return entry.name
        if not entries:
            return None
        signed = self.target / self.signed
        if signed not in entries:
            return entries[0].name
        with signed.open("rb") as stream:
            first = stream.readline(len(self.signature.encode()) + 2)
        return None if first.rstrip(b"\r\n") == self.signature.encode() else self.signed

    def _fill(self, texts: Mapping[str, str]) -> None:
        self.fresh.mkdir()
        for name, text in texts.items():
            with (self.fresh / name).open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        _sync_folder(self.fresh)

    def _remove(self, folder: Path) -> None:
        """Remove a folder of ours, but nothing in it that an export could not have written."""
        for name in sorted(self.names):
            (folder / name).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError:
            left = next(iter(sorted(entry.name for entry in folder.iterdir())), "")
            raise InputError(
                f"{folder}: left by an export, holds {show(left)}, which no export wrote; "
                "move it away"
            ) from None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other exports out of `folder`; where it cannot be locked, hope there are none."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems do not lock folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Bring the entries of a folder to disk, where the file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
