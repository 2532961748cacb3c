"""A complete folder of recorded results, and the paper's own, each read once."""

from __future__ import annotations

import pytest

from paper.catalogue import Recorded
from paper.generate import Generated, generate
from paper.prose import HOME, Source, read_sources
from tests.paper.examples import fill


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return results that hold everything that the paper can show."""
    folder = tmp_path_factory.mktemp("recorded")
    fill(folder, tmp_path_factory.mktemp("scratch"))
    return Recorded(folder)


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Return the text of the paper."""
    return read_sources()


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    """Return the results of the paper."""
    return Recorded(HOME / "results")


@pytest.fixture(scope="session")
def generated(sources: list[Source], recorded: Recorded) -> Generated:
    """Return what is to stand in ``generated/``."""
    return generate(sources, recorded)
