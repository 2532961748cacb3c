"""Whatever a file holds, `metronome profile` reads it, or refuses it in one line."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.scenario.traffic import Traffic
from tests.cli.test_profile import RATES
from tests.kubernetes.profiles import trace_files as written
from tests.kubernetes.profiles.test_profile import line

COUNT = 40
ODD: list[Any] = [None, True, -1, 0, 1e-320, 1e308, 10**400, 2**64, float("nan"), "", "7" * 5000]
ODD += ["\ud800", "1e400", [], {}, [[]], [1] * 70, [[10**17] * 5], "B", "E", "M", "kernel", "nccl"]
TEXT = [b"", b"0", b"-", b"9" * 20, b"e308", b'"', b"{", b"[", b"]}", b",", b"\n", b"\0", b"\xff"]

EVENTS = [*written.ahead(16, own="marks"), *written.ahead(16, own="launches")]
NODES = json.dumps({"workload_graph": [{"Id": 1, "Name": "n", "NodeType": 7, "comm_size": 9}]})
FILES: dict[str, str] = {
    "kineto.json": written.kineto(EVENTS),
    "ended.json": written.kineto(written.ended(written.MARKED)),
    "calls.json": written.kineto([*written.run(9), written.shaped([[4, 4]])]),
    "xla.json": written.xla("/device:GPU:0", "/host:CPU"),
    "packed.json.gz": written.kineto(EVENTS),
    "ranks.tar": written.kineto(EVENTS),
    "ranks.tgz": written.kineto(EVENTS),
    "recorder": written.recorded(duration_ms=8),
    "chakra.json": written.chakra(),
    "feeder.json": NODES,
    "inspector.jsonl": written.inspected(verbose=True),
    "inspector.log": written.inspected(verbose=False),
    "gate.jsonl": "".join(f"{line(0.2 * at, iteration_ms=200)}\n" for at in range(9)),
    "samples.csv": RATES,
}


def change_value(value: Any, rng: random.Random) -> Any:
    """Return a value with one of the values in it replaced."""
    if rng.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(ODD)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(keys)
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = change_value(value[key], rng)
    return changed


def change_text(raw: bytes, rng: random.Random) -> bytes:
    """Return bytes of which some are replaced, are missing or stand twice."""
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice([0, 1, 8, 300]))
        raw = raw[:at] + rng.choice([*TEXT, raw[at:end] * 2]) + raw[end:]
    return raw


def change(text: str, rng: random.Random) -> bytes:
    """Return a document, or lines, with a change of a value or of bytes."""
    if rng.random() < 0.4:
        return change_text(text.encode(), rng)
    try:
        return json.dumps(change_value(json.loads(text), rng)).encode()
    except ValueError:
        lines = text.splitlines()
        at = rng.randrange(len(lines))
        if lines[at].startswith("{"):
            lines[at] = json.dumps(change_value(json.loads(lines[at]), rng))
        else:
            lines[at] = ",".join(
                rng.choice([cell, "1e308", "nan"]) for cell in lines[at].split(",")
            )
        return "\n".join(lines).encode()


def pack(path: Path, raw: bytes, rng: random.Random) -> None:
    """Write bytes as the name of a file says, and damage one in four packed files."""
    if "tar" in path.suffix or path.suffix == ".tgz":
        written.pack(path, {"a.json": raw, "b.json.gz": gzip.compress(raw, 1), "README": b"b"})
        raw = path.read_bytes()
    elif path.suffix == ".gz":
        raw = gzip.compress(raw, 1)
    packed = raw[:2] == b"\x1f\x8b" or path.suffix == ".tar"
    path.write_bytes(change_text(raw, rng) if packed and rng.random() < 0.25 else raw)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_read_or_refused_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    path, rng = tmp_path / name, random.Random(name)
    for number in range(COUNT):
        pack(path, change(FILES[name], rng) if number else FILES[name].encode(), rng)
        status = main(["profile", str(path), "--json"])
        out, error = capsys.readouterr()
        where = f"change {number} of {name}"
        assert status in (0, 1, 2), where
        if status == 2:
            assert error.startswith("metronome: error: "), where
            assert (error.count("\n"), out) == (1, ""), where
            continue
        traffic = json.loads(out)["traffic"]
        assert (traffic is None) == (status == 1), where
        if traffic and all(phase["rate_mbps"] for phase in traffic["phases"]):
            Traffic.model_validate(traffic)
