"""A state on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from metronome_opt.kubernetes.state.store import Store
from tests.kubernetes.state.small import change, cluster


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Keep a state of four events: two jobs, a slow link, a node that is down."""
    with Store.create(tmp_path / "state", cluster([2, 2])) as store:
        change(store.state)
    return tmp_path / "state"
