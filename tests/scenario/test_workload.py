"""Every number of a workload has a source or an assumption; errors name the number."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.files.documents import read_document
from metronome_opt.files.records import read_record
from metronome_opt.scenario.workload import Workload, find_files
from tests.builders import fault_of


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return every mapping that holds a number, and every number that stands alone."""
    if isinstance(value, dict):
        if "value" in value:
            return [(path, value)]
        return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}")]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner, f"{path}[]")]
    return [(path, value)] if isinstance(value, (int, float)) else []


def test_every_number_says_where_it_comes_from() -> None:
    for path in find_files("workloads").values():
        numbers = leaves(read_document(path))
        assert len(numbers) >= 3
        for place, number in numbers:
            assert isinstance(number, dict), f"{path}: {place}: {number} has no provenance"
            (reason,) = (number[key] for key in ("source", "assumed") if key in number)
            assert len(reason) > 10, f"{path}: {place}"


def test_sizes_of_transformers_agree_with_rules_of_thumb() -> None:
    # A block has 12 h^2 weights; a forward pass does 2 operations per weight and token.
    for name, layers, hidden, tokens in [
        ("bert", 24, 1024, 512),
        ("camembert", 12, 768, 512),
        ("xlm", 12, 2048, 256),
        ("gpt1", 12, 768, 512),
        ("gpt2", 48, 1600, 1024),
        ("gpt3", 24, 2048, 2048),
    ]:
        model = read_record(Workload, find_files("workloads")[name])
        weights = 12 * layers * hidden**2
        assert weights < model.parameters.value < 1.5 * weights
        assert 1 < model.forward_flops.value / (2 * weights * tokens) < 1.2


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("parameters.source", None, "parameters.source: give either source or assumed for a num"),
        ("parameters.value", 1.5, "parameters.value: must be an integer, got 1.5"),
        ("parameters", 138357544, "parameters: must be a mapping, got 138357544"),
        ("data_parallel", None, "data_parallel: give exactly one of data_parallel, tensor_paralle"),
        ("data_parallel.gradient_bytes", None, "data_parallel.gradient_bytes: missing"),
        ("embedding_parallel", {}, "embedding_parallel.tables: missing"),
        ("format", "metronome-instance/1", "format: must be 'metronome-workload/1'"),
    ],
)
def test_bad_workloads(path: str, value: Any, message: str, tmp_path: Path) -> None:
    document = read_document(find_files("workloads")["vgg16"])
    *parents, last = path.split(".")
    inner = reduce(getitem, parents, document)
    inner[last] = value
    if value is None:
        del inner[last]
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    assert fault_of(lambda: read_record(Workload, file)).startswith(f"{file}: {message}")
