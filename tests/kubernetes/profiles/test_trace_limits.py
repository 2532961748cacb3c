"""Files of traces: members of tar files, limits, and damage, refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles import source
from metronome_opt.kubernetes.profiles.measure import profile_file
from tests.kubernetes.profiles.trace_files import (
    MARKED,
    assert_found,
    inspected,
    kernel,
    kineto,
    pack,
    shaped,
    step,
)

# ------------------------------------------------------------------ tar files


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_members_that_are_no_traces_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    good = kineto(MARKED)
    pack(
        path,
        {
            "job": link("job", "", tarfile.DIRTYPE),
            "._rank0.json": b"\x00\x05\x16\x07Mac OS X",
            "rank0.json": good,
            "README.md": "of a run",
            "cut.json.gz": gzip.compress(good.encode())[:-90],
            "gemm.json": kineto([]),
            "again.json": link("again.json", "rank0.json", tarfile.SYMTYPE),
        },
    )
    found = profile_file(path)
    assert_found(found, 5)
    starts = ("._rank0.json: begins", "README.md: begins", "cut.json.gz: cut", "gemm.json: holds")
    assert len(found.notes) == 5
    for note, start in zip(found.notes, [*starts, "again.json: a link or a"], strict=True):
        assert note.startswith(f"omitted: {start}")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_of_a_tar_file_are_not_followed(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tgz"
    pack(path, {"a": link("a", "b", kind), "b": link("b", "a", kind)})
    with pytest.raises(InputError, match=r"a\.tgz: a tar file without traces: a: a link or a dev"):
        profile_file(path)


@pytest.mark.parametrize(
    ("unit", "limit"), [("bytes", 3 * 10**5), ("entries", 900), ("events of collectives", 200)]
)
def test_limits_hold_for_all_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, limit: int
) -> None:
    """Each of forty members is within them."""
    monkeypatch.setitem(source.LIMITS, unit, limit)
    packed = gzip.compress(kineto(MARKED).encode())
    path = tmp_path / "a.tar"
    pack(path, {"rank0.json.gz": packed})
    assert_found(profile_file(path), 5)
    pack(path, {f"rank{rank}.json.gz": packed for rank in range(40)})
    with pytest.raises(InputError, match=f"unpacks to more than {limit:,} {unit}; trace fewer"):
        profile_file(path)


# ------------------------------------------------------------------ damaged files

GOOD = kineto(MARKED)
FAST = [event for n in range(5) for event in (step(n), kernel(100 * n + 9, 0.001, 1e9))]
LINES = inspected(verbose=False)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.json", None, "cannot be read"),
        ("empty.json", b"", "begins with '': not JSON"),
        ("plain.json.gz", GOOD, "is no gzip file, it begins with b'{\\n'"),
        ("cut.json.gz", gzip.compress(GOOD.encode())[:-100], "cut off or damaged gzip after"),
        ("bad.json.gz", b"\x1f\x8b\x08" + bytes(40), "cut off or damaged gzip after 0 bytes"),
        ("cut.json", GOOD[:3000], "cut off, too long"),
        ("list.json", "[1, 2]", "line 1, entry 0: must be a mapping, got 1"),
        ("deep.json", '{"traceEvents": [' + "[" * 99_999, "line 1, entry 0: cut off, too long"),
        ("gemm.json", kineto([]), "holds no collectives"),
        ("text.json", "seconds,rate\n1,2\n", "begins with 'seconds,rate\\n1,2\\n'"),
        ("negative.json", kineto([kernel(1, -2, 1)]), "entry 5: dur: -2000: must be a number from"),
        ("nan.json", kineto([kernel(1, 2, 1, ts="soon")]), "ts: 'soon': must be a number"),
        ("few.json", kineto([kernel(1, 2, -1)]), "inmsgnelems: -1000000: must be a number"),
        ("alone.json", GOOD.replace('"Group size": 4', '"Group size": 1'), "of one rank alone"),
        ("field.jsonl", LINES.replace("coll_exec", "exec"), "line 2, entry 1: coll_exec_time_us"),
        ("orphan.log", '{"coll_perf": {}}\n', "entry 0: coll_perf: must be a mapping, with a head"),
        ("line.log", LINES.replace("}\n", "\n", 1), "line 1, entry 0: cut off, too long"),
        ("protobuf.et", bytes(range(1, 200)), "not JSON; give a trace of Kineto, XLA"),
        ("a.pickle", b"\x80\x04\x95" + bytes(90), "is a pickle; have a flight recorder dump JSON"),
        ("a.sqlite", b"SQLite format 3\0" + bytes(90), "is an SQLite database; give a trace of"),
        ("a.json.xz", b"\xfd7zXZ\0" + bytes(90), "is packed by xz; unpack it"),
        ("other.json", '{"model": "bert", "layers": [1, 2]}', "; it has 'model', 'layers'; give a"),
        ("slow.csv", "t,v\n0,1e308\n", "line 2: '0,1e308': must be a later time"),
        ("wide.csv", "t,v\n1," + "9" * 200_000, "no CSV file (field larger than field limit"),
        ("dims.json", kineto([shaped([[9] * 65])]), "holds no collectives"),
        ("fast.json", kineto(FAST), "phases[0].rate_mbps: 48000000000"),
        ("cut.tar", b"x" * 257 + b"ustar" + bytes(300), "damaged tar file"),
    ],
)  # fmt: skip
def test_damaged_files_end_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str | bytes | None,
    said: str,
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    assert main(["profile", str(path)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith(f"metronome: error: {path}: ")
    assert said in error
    assert [each.name for each in tmp_path.iterdir()] == [name] * (text is not None)


@pytest.mark.parametrize("text", [GOOD.encode(), gzip.compress(GOOD.encode())])
def test_standard_input_is_read(text: bytes) -> None:
    command = [sys.executable, "-m", "metronome_opt", "profile", "-"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"period 100.00 ")


@pytest.mark.slow
def test_of_a_large_trace_only_what_is_read_is_kept(tmp_path: Path) -> None:
    """Values may end in the next part of the text; the number of ranks may come last."""
    other = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "args": {"dims": [1] * 50}}
    document = json.loads(kineto(MARKED))
    events = document["traceEvents"] = [
        each for event in MARKED for each in (event, *[other] * 2500)
    ]
    for event in events:
        event.get("args", {}).pop("Group size", None)
    world = {"distributedInfo": document.pop("distributedInfo")}
    text = json.dumps({**document, **world}).encode()
    assert len(text) > 12e6
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    tracemalloc.start()
    assert_found(profile_file(path), 5)
    assert tracemalloc.get_traced_memory()[1] < 32e6
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_what_may_never_end_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match="is not an ordinary file; name a file, or - and"):
        profile_file(path)


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(source.LIMITS, "bytes", 10**6)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 10**8, 1))
    with pytest.raises(InputError, match="unpacks to more than 1,000,000 bytes; trace fewer"):
        profile_file(path)
