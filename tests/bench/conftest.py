"""Fixtures of the tests of campaigns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.examples import write_suite
from tests.builders import two_jobs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let the processes of a campaign import the fake worker, and work in a folder of these tests.

    By the folder they are distinguished from those of other campaigns on this machine.
    """
    folder = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of one instance, two jobs that fit side by side."""
    return write_suite(tmp_path / "pair", [(two_jobs(), "test")])
