"""Documents are read strictly, and written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.files import documents
from metronome_opt.files.documents import (
    MAX_DEPTH,
    MAX_DIGITS,
    check_targets,
    find_documents,
    is_database,
    list_documents,
    parse_yaml,
    read_document,
    staged,
    write_text,
)
from metronome_opt.problem.instance import Instance


def read(folder: Path, text: str | bytes, name: str = "file.yaml") -> dict[str, Any]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(path)


def refusal(folder: Path, text: str | bytes, name: str = "file.yaml") -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text, name)
    message = str(caught.value)
    assert message.startswith(str(folder / name))
    assert "\n" not in message
    return message.removeprefix(f"{folder / name}: ")


# ------------------------------------------------------------------ reading


@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a.yml", "a", "a.JSON"])
def test_json_is_read_under_any_name(name: str, tmp_path: Path) -> None:
    assert read(tmp_path, '\n {"a": [1, 2.5, "x", null, true]}', name) == {
        "a": [1, 2.5, "x", None, True]
    }


def test_byte_order_mark_is_no_part_of_text(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("010", 10),  # octal in YAML 1.1
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("1:30", "1:30"),  # 90 in YAML 1.1
        ("0x1F", "0x1F"),
        ("2024-01-02", "2024-01-02"),  # a date in YAML 1.1
        ("yes", "yes"),  # true in YAML 1.1
        ("true", True),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ("<<", "<<"),
    ],
)
def test_yaml_scalars_follow_version_1_2(text: str, value: object, tmp_path: Path) -> None:
    document = read(tmp_path, f"a: {text}\n")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x {k: 1}\nb: *x\n", {"a": {"k": 1}, "b": {"k": 1}}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n", {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}),
        ("<<: [{a: 1}, {a: 2, b: 3}]\n", {"a": 1, "b": 3}),  # the first one counts
    ],
)
def test_aliases_and_merge_keys_are_followed(
    text: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert read(tmp_path, text) == expected


def test_alias_is_copied(tmp_path: Path) -> None:
    document = read(tmp_path, "a: &x {k: [1]}\nb: *x\n")
    document["a"]["k"].append(2)
    assert document["b"] == {"k": [1]}


# ------------------------------------------------------------------ what is refused


def test_alias_expansion_is_limited(tmp_path: Path) -> None:
    """Ten to the power of nine values, from 400 bytes; and 2,000 levels, each one value more."""
    lines = ["a: &a [" + "x, " * 10 + "]"]
    lines += [
        f"{b}: &{b} [" + f"*{a}, " * 10 + "]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "more than 1000000 values" in refusal(tmp_path, "\n".join(lines))
    chain = [f"k{i}: &k{i} [*k{i - 1}]" for i in range(1, 2000)]
    said = refusal(tmp_path, "\n".join(["k0: &k0 []", *chain]))
    assert said.endswith(f"nested deeper than {MAX_DEPTH} levels")


def test_all_faults_of_document_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    links = "".join(f"- {{name: link-{i}, capacity: -{i + 1}}}\n" for i in range(30))
    path.write_text(
        f"format: metronome-instance/1\nname: bad\nslot_ms: x\njobs: []\nlinks:\n{links}"
    )
    assert main(["validate", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    begin = f"metronome: error: {path}: "
    assert lines[0] == f"{begin}slot_ms: must be an integer, got 'x'"
    assert lines[1] == f"{begin}links[0].capacity: must be at least 1, got -1"
    assert lines[19:] == [
        f"{begin}links[18].capacity: must be at least 1, got -19",
        "metronome: error: and 11 more",
    ]


MANY = 50_000
BURST = {"start": 0, "length": 1, "rate": 1}
GOOD = {"name": "a", "period": 5, "phases": [BURST], "links": {"l": 1}}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"jobs": [{}] * MANY}, "jobs[0].name: missing"),
        ({"jobs": [GOOD] * 300 + [None] * MANY}, "jobs[300]: must be a mapping, got None"),
        ({"links": [{"name": 3}] * MANY}, "links[0].name: must be text, got 3"),
        ({f"k{i}": 1 for i in range(MANY)}, "k0: unknown field, got 1"),
        (
            {"jobs": [GOOD, {**GOOD, "links": {f"l{i}": "x" for i in range(MANY)}}]},
            "jobs[1].links.l0: must be an integer, got 'x'",
        ),
        (
            {"jobs": [{**GOOD, "phases": [BURST, *[{}] * 200]}] * 200},
            "jobs[0].phases[1].start: missing",
        ),
    ],
)
def test_few_of_many_faults_are_collected(changes: dict[str, Any], first: str) -> None:
    """As all 6 million of a file of 6 MB they took 3.9 GB."""
    document = {
        "format": "metronome-instance/1",
        "name": "x",
        "slot_ms": 1,
        "links": [{"name": "l", "capacity": 1}],
        "jobs": [],
        **changes,
    }
    tracemalloc.start()
    with pytest.raises(InputError, match=r"\(and at least \d+ more\)$") as caught:
        Instance.from_dict(document)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert caught.value.lines[0] == first
    assert len(caught.value.lines) < 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("? [a, b]\n: c\n", "line 1: keys must be text, got a list of 2"),
        ("a: !!map [b]\n", "line 1: tag"),
        ("a: ! 5\n", "line 1: tag '!'"),
        ("a: '\x07'", "not YAML"),
        ("a: &a {x: *a}\n", "line 1: alias *a: no value before it has the anchor &a"),
        ("a: 1\nb: *c\n", "line 2: alias *c: no value before it has the anchor &c"),
        ("a: 1\n<<: 2\n", "line 2: << merges mappings alone"),
        ("a: 1\n---\nb: 1\n", "line 2: a second document begins; give one"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_depth_and_digits_have_limits(name: str, tmp_path: Path) -> None:
    def nested(levels: int) -> str:
        return '{"a": ' * levels + "1" + "}" * levels

    assert read(tmp_path, nested(MAX_DEPTH), name)
    for levels in (MAX_DEPTH + 1, 5000):
        said = refusal(tmp_path, nested(levels), name)
        assert said.endswith(f"nested deeper than {MAX_DEPTH} levels")
    assert read(tmp_path, f'{{"a": {"9" * MAX_DIGITS}}}', name) == {"a": int("9" * MAX_DIGITS)}
    for digits in (MAX_DIGITS + 1, 10_000):  # Python itself refuses more than 4300
        said = refusal(tmp_path, f'{{"a": {"9" * digits}}}', name)
        assert f"has {digits} digits" in said
        assert len(said) < 200


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lists.json", '{"format": ' + "[" * 10**6 + "]" * 10**6),
        ("mappings.json", '{"format": ' * 10**6 + "}" * 10**6),
        ("mappings.yaml", "{a: " * 10**6 + "}" * 10**6),
        ("never-closed.yaml", "- " * 10**6),
    ],
    ids=lambda value: value[:20],
)
def test_million_levels_are_refused(name: str, text: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text, name).endswith(f"nested deeper than {MAX_DEPTH} levels")


def test_size_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 100)
    assert read(tmp_path, "a: " + "x" * 97)
    assert "larger than 100 bytes" in refusal(tmp_path, "a: " + "x" * 98)


# ------------------------------------------------------------------ writing


def test_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_text(path, "first")
    write_text(path, "größer")
    assert path.read_text(encoding="utf-8") == "größer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]
    plain_file = tmp_path / "plain"
    plain_file.write_text("made by open")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain_file.stat().st_mode)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_interrupted_write_leaves_file_unchanged(
    failure: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "picture.svg"
    path.write_text("before")

    def interrupted() -> None:
        with staged(path) as temporary:
            assert temporary.suffix == ".svg"
            temporary.write_text("half of")
            raise failure

    with pytest.raises(failure):
        interrupted()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_only_ordinary_files_are_written(tmp_path: Path) -> None:
    loop, blocked = tmp_path / "loop.json", tmp_path / "file"
    loop.symlink_to(loop)
    blocked.write_text("x")
    for path, said in [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "where.json", "cannot be written (No such file or directory)"),
        (blocked / "inside.json", "cannot be written (Not a directory)"),
        (loop, "cannot be written (Too many levels"),
        (Path("/dev/null"), "is not an ordinary file; name a file"),
    ]:
        with pytest.raises(InputError) as caught:
            check_targets([], [path])
        assert str(caught.value).startswith(f"{path}: {said}")
    for path, said in [
        (tmp_path / "missing.json", "cannot be read (No such file"),
        (tmp_path, "is a folder; name a file"),
        (loop, "cannot be read (Too many levels"),
    ]:
        with pytest.raises(InputError) as caught:
            read_document(path)
        assert str(caught.value).startswith(f"{path}: {said}")


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    """They might never end, or never begin."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError, match=f"^{path}: is not an ordinary file; name a file$"):
            read_document(path)
        assert not is_database(path)
    assert find_documents(tmp_path, "format") == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (r'{"a": [{"b": "\ud800"}]}', "a[0].b: must be valid Unicode text, got '\\ud800'"),
        (r'{"\udc00x": 1}', "must be valid Unicode text, got '\\udc00x'"),
        (r'"\ude00\ud83d"', "must be valid Unicode text, got"),
    ],
)
def test_half_a_character_is_refused(text: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value).startswith(f"{path}: {where}")
    with pytest.raises(InputError, match="must be valid Unicode text"):
        parse_yaml("\ud800")
    path.write_text(r'{"a": "\ud83d\ude00"}')  # both halves
    assert read_document(path) == {"a": "\U0001f600"}


def test_what_a_killed_program_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    path, other = tmp_path / "out.json", tmp_path / ".out.mine.json"
    other.write_text("of the user")
    code = (
        "import os, signal\n"
        "from metronome_opt.files.documents import staged\n"
        f"with staged({str(path)!r}) as temporary:\n"
        "    temporary.write_text('half of')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = set(tmp_path.iterdir()) - {other}
    assert left.name.startswith(".")
    assert list_documents(tmp_path) == []  # hidden files are no documents
    with staged(path) as first:
        write_text(path, "second")  # what is in use stays
        first.write_text("first")
    assert path.read_text() == "first"
    assert set(tmp_path.iterdir()) == {path, other}
