"""Claims are read from files exactly; a file that cannot be obeyed is one line."""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.gate import Claim
from metronome_opt.gate.checks import ClaimError
from metronome_opt.gate.files import MAX_BYTES, ClaimFile
from tests.gate.clock import MS

OBJECT: dict[str, Any] = {
    "apiVersion": "metronome.x-k8s.io/v1alpha1",
    "kind": "STBandwidthClaim",
    "metadata": {"name": "bert-0"},
    "spec": {
        "job": "bert",
        "task": 0,
        "traffic": {
            "periodMicroseconds": 240_000,
            "phases": [
                {"startMicroseconds": 10_000, "lengthMicroseconds": 50_000, "rate": "10G"},
                {"startMicroseconds": 130_000, "lengthMicroseconds": 20_000, "rate": "10G"},
            ],
            "priority": 4,
        },
        "allocation": {
            "node": "gpu-0",
            "offsetMicroseconds": 65_000,
            "stretchMicroseconds": 60_000,
            "cushionMicroseconds": 5000,
            "hyperperiodMicroseconds": 1_200_000,
        },
    },
}
READ = Claim(65 * MS, 300 * MS, (10 * MS, 130 * MS), 5 * MS, "bert")


def changed(path: str, value: Any = None, base: dict[str, Any] = OBJECT) -> dict[str, Any]:
    """Return the object with another value at a location; None takes it away."""
    document = copy.deepcopy(base)
    *way, last = path.split(".")
    part: Any = document
    for name in way:
        part = part[int(name)] if isinstance(part, list) else part[name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return document


def read(tmp_path: Path, text: str | bytes, job: str = "", task: int | None = None) -> Claim:
    path = tmp_path / "claims"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ClaimFile(path, job, task).current()


OTHER = changed("spec.job", "gpt")
SECOND = changed("spec.allocation.cushionMicroseconds", 3000, changed("spec.task", 1))
FREE = changed("spec.allocation.gated", False)
FREELY = READ._replace(gated=False)
CLASS = changed("spec.allocation.trafficClass", 4)


@pytest.mark.parametrize(
    ("text", "job", "task", "expected"),
    [
        (json.dumps(OBJECT), "", None, READ),
        ("\ufeff" + json.dumps(OBJECT), "bert", None, READ),
        (json.dumps({"kind": "List", "items": [OTHER, OBJECT]}), "bert", None, READ),
        (json.dumps([OTHER, OBJECT, {"kind": "Pod"}]), "bert", 7, READ),
        (json.dumps([OBJECT, SECOND]), "bert", None, READ._replace(cushion_ns=3 * MS)),
        (json.dumps([OBJECT, SECOND]), "bert", 0, READ),
        ('{"offset_ms": 1.000001, "period_ms": 0.1e3}', "x", None, Claim(1_000_001, 100 * MS)),
        (
            json.dumps({"offset_ms": 0, "period_ms": 9, "starts_ms": [1, 2.5], "job": "a"}),
            "a",
            None,
            Claim(0, 9 * MS, (MS, 2_500_000), 0, "a"),
        ),
        (json.dumps(FREE), "", None, FREELY),
        (json.dumps(CLASS), "", None, READ._replace(traffic_class=4)),
        (
            '{"offset_ms": 0, "period_ms": 5, "traffic_class": 2}',
            "",
            None,
            Claim(0, 5 * MS, traffic_class=2),
        ),
    ],
)
def test_claims_are_read(
    tmp_path: Path, text: str, job: str, task: int | None, expected: Claim
) -> None:
    assert read(tmp_path, text, job, task) == expected


TRAFFIC, ALLOCATION = "spec.traffic.", "spec.allocation."
BAD = [
    ("", "is empty; write claims to it"),
    ("\xff".encode("latin-1"), "is not UTF-8; write it again"),
    (json.dumps(OBJECT)[:200], "is not JSON (Unterminated string starting at"),
    ("[" * 100_000, "is nested deeper than 40 levels; write claims only"),
    ('{"offset_ms": ' + "9" * 5000 + "}", "is not JSON (Exceeds the limit (4300 digits)"),
    ("[7]", "items[0]: 7: is no object"),
    ('{"kind": "Pod"}', "holds no STBandwidthClaim; write one with kubectl get -o json"),
    (json.dumps(OTHER), "holds no claim of job 'bert', only of 'gpt'"),
    (changed("spec.job", 7), "spec.job: 7: must be the name of a job"),
    (
        changed("spec.allocation"),
        "spec.allocation: is missing: no offset was decided; schedule the job",
    ),
    (
        changed(ALLOCATION + "offsetMicroseconds", 300_000),
        "spec.allocation.offsetMicroseconds: 300000: must be from 0 to below the period, 300000",
    ),
    (
        changed(TRAFFIC + "periodMicroseconds", 0),
        "spec.traffic.periodMicroseconds: 0: must be at least 1",
    ),
    (
        changed(TRAFFIC + "periodMicroseconds", 3_600_000_000),
        "spec.traffic.periodMicroseconds: 3600060000: longer than an hour; check the unit",
    ),
    (changed(TRAFFIC + "phases", [5]), "spec.traffic.phases: list of 1: must be a list of bursts"),
    (
        changed(TRAFFIC + "phases.1.startMicroseconds", 10_000),
        "spec.traffic.phases.startMicroseconds: 10000: must be after the one before",
    ),
    (
        [OBJECT, changed(ALLOCATION + "offsetMicroseconds", 1)],
        "items[1].spec: not the windows of the first claim of its job; export all again",
    ),
    ({"offset_ms": 1}, "period_ms: None: must be a number of milliseconds, such as 12.5"),
    ({"offset_ms": 0, "period_ms": -0.5}, "period_ms: -0.5: must be positive"),
    (
        {"offset_ms": 0, "period_ms": 1.0000001},
        "period_ms: 1.0000001: finer than a nanosecond; give fewer decimals",
    ),
    ({"offset_ms": 0, "period_ms": 5, "cushion": 1}, "'cushion': is not known; there are ["),
]


@pytest.mark.parametrize(("content", "said"), BAD)
def test_invalid_claim_file_is_one_line(tmp_path: Path, content: Any, said: str) -> None:
    text = content if isinstance(content, (str, bytes)) else json.dumps(content)
    with pytest.raises(ClaimError) as caught:
        read(tmp_path, text, "bert")
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'claims'}: {said}")
    assert "\n" not in line
    assert len(line) < len(str(tmp_path)) + 250


def test_a_directory_a_pipe_and_nothing_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in [
        ("", "is no file; name one that holds claims"),
        ("pipe", "is no file; name one that holds claims"),
        ("missing", "cannot be read (No such file or directory)"),
        ("missing\0", "cannot be read (embedded null byte)"),
        ("a" * 5000, "cannot be read (File name too long)"),
    ]:
        with pytest.raises(ClaimError) as caught:
            ClaimFile(f"{tmp_path}/{name}", "", None).current()
        assert str(caught.value).endswith(said)


def test_file_size_is_limited(tmp_path: Path) -> None:
    text = json.dumps(OBJECT)
    assert read(tmp_path, text + " " * (MAX_BYTES - len(text))) == READ
    with pytest.raises(ClaimError, match="has more than 1 MiB; give a file of one job"):
        read(tmp_path, text + " " * (MAX_BYTES - len(text) + 1))


def test_large_file_is_read_beside_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "claims"
    path.write_text('{"offset_ms": 1, "period_ms": 5}')
    claims = ClaimFile(path, "", None)
    assert claims.current().offset_ns == MS  # the first is waited for, whatever its size
    one = {"offset_ms": 2, "period_ms": 3000, "starts_ms": list(range(1000))}
    path.write_text(json.dumps([one] * 200))
    took, offsets = [], [MS]
    while offsets[-1] == MS:
        began = time.thread_time()
        offsets.append(claims.current().offset_ns)
        took.append(time.thread_time() - began)
        time.sleep(0.001)
    assert offsets[-1] == 2 * MS
    assert len(took) > 10
    assert max(took) < 0.02  # of the 2 s that reading takes


HOSTILE = {
    "lists in lists": "[" * MAX_BYTES,
    "decimals": '{"offset_ms": 1.' + "3" * (MAX_BYTES - 30) + ', "period_ms": 2}',
    "quoted digits": '{"offset_ms": "' + "1" * 300_000 + '", "period_ms": 100}',
    "digits": '{"offset_ms": ' + "3" * (MAX_BYTES - 40) + ', "period_ms": 2}',
    "an exponent": '{"offset_ms": 1e999999999999999, "period_ms": 2}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_file_is_refused_in_bounded_time(tmp_path: Path, text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)  # as some training loops do
    began = time.process_time()
    try:
        with pytest.raises(ClaimError):
            read(tmp_path, text, "bert")
    finally:
        sys.setrecursionlimit(limit)
    assert time.process_time() - began < 5
