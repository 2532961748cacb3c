"""The script that measures training steps, run on tiny models of this machine's CPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.running import ROOT, python_with

# Parameters, worked out by hand: perceptrons 13-512-256-64 and 415-512-512-256-1 with biases; a
# block of 12 h^2 + 13 h for h = 64; the published 25,557,032 less 990 of 1,000 classes of 2,048
# weights and a bias; and so on for two layers of width 64.
PARAMETERS = {"dlrm": 762_177, "gpt3": 49_984, "resnet50": 25_557_032 - 990 * 2_049}
NEEDS = {"dlrm": ["torch"], "gpt3": ["torch"], "resnet50": ["torch", "torchvision"]}

pytestmark = pytest.mark.slow


def measure(*words: str, modules: list[str]) -> subprocess.CompletedProcess[str]:
    interpreter = python_with(*modules)
    if interpreter is None:
        pytest.skip(f"not installed: {', '.join(modules)} (Debian: python3-{modules[-1]})")
    return subprocess.run(
        [interpreter, "models/measure/measure.py", *words], cwd=ROOT, capture_output=True, text=True
    )


def tiny(model: str, folder: Path, modules: list[str]) -> dict[str, Any]:
    words = [model, "--tiny", "--device", "cpu", "--steps", "4", "--warmup", "2", "--threads", "1"]
    done = measure(*words, "--output", str(folder), modules=modules)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"wrote {folder / model}.json: forward ")
    record: dict[str, Any] = json.loads((folder / f"{model}.json").read_text())
    return record


def assert_sound(record: dict[str, Any]) -> None:
    """Assert what holds of every step that was measured."""
    assert record["format"] == "metronome-measured/1"
    assert record["device"]["kind"] == "cpu"
    assert record["device"]["threads"] == 1
    for times in [record["forward_ms"], record["backward_ms"], record["optimizer_ms"]]:
        assert 0 < times["low"] <= times["median"] <= times["high"]
    assert sum(bucket["bytes"] for bucket in record["buckets"]) == 4 * record["parameters"]
    ready = [bucket["ready_ms"]["median"] for bucket in record["buckets"]]
    assert ready == sorted(ready)
    assert ready[-1] <= record["backward_ms"]["median"]


@pytest.mark.parametrize("model", list(PARAMETERS))
def test_record_of_tiny_model(model: str, tmp_path: Path) -> None:
    record = tiny(model, tmp_path, NEEDS[model])
    assert_sound(record)
    assert record["parameters"] == PARAMETERS[model]
    assert record["configuration"].startswith("tiny, for tests: ")


def test_exchanges_are_what_a_worker_sends_besides(tmp_path: Path) -> None:
    clicks = tiny("dlrm", tmp_path, ["torch"])["exchanges"]
    assert [each["kind"] for each in clicks] == ["all-to-all"] * 2
    assert [each["begin"] for each in clicks] == ["forward", "backward"]
    assert {each["bytes"] for each in clicks} == {26 * 64 * 4}  # a vector of 64 floats per table
    stage = tiny("gpt3", tmp_path, ["torch"])
    assert (stage["stages"], stage["microbatches"]) == (2, 2)
    assert {each["bytes"] for each in stage["exchanges"]} == {64 * 64 * 4}  # tokens, hidden, floats
    for record, begin in ((stage, "forward"), (stage, "backward")):
        last = [each["after_ms"] for each in record["exchanges"] if each["begin"] == begin]
        assert last[0] <= record[f"{begin}_ms"]["median"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alexnet"], "alexnet: no such model; there are all, vgg11,"),
        (["dlrm", "--tokens", "5"], "--tokens: clicks have none; leave it out"),
        (["dlrm", "--batch", "0"], "--batch: 0: must be at least 1"),
        (["dlrm", "--warmup", "1"], "--warmup: 1: must be at least 2"),
        (["dlrm", "--device", "cpu", "--precision", "tf32"], "--precision: tf32: a CPU has none"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = measure(*words, "--output", str(tmp_path), modules=["torch"])
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
