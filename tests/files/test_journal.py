"""Records are appended whole or not at all, and torn ends are cut off."""

from __future__ import annotations

import lzma
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.files.journal import Journal, dump_line, read_journal
from metronome_opt.files.records import Name, NonNegative, Record


class Line(Record):
    """A name and a number."""

    name: Name
    number: NonNegative = 0


ONE, TWO, THREE = Line(name="one"), Line(name="two", number=2), Line(name="drei ü", number=3)


def test_appended_records_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path, Line, resume=False) as journal:
        assert not journal.records
        journal.append(ONE)
        assert read_journal([path], Line) == [ONE]
        journal.append(THREE)
        assert journal.records == (ONE, THREE)
    assert path.read_text(encoding="utf-8") == dump_line(ONE) + dump_line(THREE)
    with Journal(path, Line, resume=True) as journal:
        assert journal.records == (ONE, THREE)
        journal.append(TWO)
    assert read_journal([path], Line) == [ONE, THREE, TWO]


def test_compressed_journal_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl.xz"
    whole = lzma.compress((dump_line(ONE) + dump_line(TWO)).encode())
    path.write_bytes(whole)
    assert read_journal([path], Line) == [ONE, TWO]
    with pytest.raises(InputError, match=r"j\.jsonl\.xz: is compressed, and is only read; unpack"):
        Journal(path, Line, resume=True)
    for broken in (whole[:-9], b"plain"):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="is not compressed by xz, or not whole"):
            read_journal([path], Line)


@pytest.mark.parametrize(
    "torn", [b"", b"{", dump_line(TWO).encode()[:-1], b"\0" * 100, b"\xff\xfe"]
)
def test_torn_end_is_cut_off(torn: bytes, tmp_path: Path) -> None:
    """No reader takes a file for complete: a case whose record is missing runs again."""
    path = tmp_path / "j.jsonl"
    path.write_bytes(dump_line(ONE).encode() + torn)
    assert read_journal([path], Line) == [ONE]
    with Journal(path, Line, resume=True) as journal:
        journal.append(TWO)
    assert path.read_text(encoding="utf-8") == dump_line(ONE) + dump_line(TWO)


@pytest.mark.parametrize("garbage", [b"\n", b"{}\n", b"\xff\n", b"\0\0\n", b'{"name":"x"}{}\n'])
def test_garbage_in_the_middle_is_named_by_its_line(garbage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    raw = dump_line(ONE).encode() + garbage + dump_line(TWO).encode()
    path.write_bytes(raw)
    for read in (
        lambda: read_journal([path], Line),
        lambda: Journal(path, Line, resume=True),
    ):
        with pytest.raises(InputError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: line 2: ")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == raw


def test_full_disk_leaves_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path, Line, resume=True) as journal:
        journal.append(ONE)
        before = path.read_bytes()
        with at_most(len(before) + 5), pytest.raises(OSError, match="too large"):
            journal.append(TWO)
        assert (path.read_bytes(), journal.records) == (before, (ONE,))
        journal.append(TWO)
    assert read_journal([path], Line) == [ONE, TWO]


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Let files grow no further than so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_journal_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    message = r"j\.jsonl: another process is writing it; let it"
    with Journal(path, Line, resume=True), pytest.raises(InputError, match=message):
        Journal(path, Line, resume=True)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "j.jsonl")
    with pytest.raises(InputError, match=r"j\.jsonl: is not an ordinary file; name a file"):
        read_journal([tmp_path / "j.jsonl"], Line)
    with pytest.raises(InputError, match=r"j\.jsonl: is not an ordinary file; name a file"):
        Journal(tmp_path / "j.jsonl", Line, resume=True)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/j\.jsonl: cannot be written"):
        Journal(tmp_path / "none" / "j.jsonl", Line, resume=True)
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        read_journal([tmp_path / "none.jsonl"], Line)
