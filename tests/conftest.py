"""Settings of all tests: property tests have no deadlines; CI draws the same cases each time."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.tiers import examples

# Begun first, or one process would be at them alone while the other has nothing left to do.
LONGEST = ("test_notebooks.py", "test_wheel.py")

settings.register_profile(
    "local",
    examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell's background job starts with Ctrl-C ignored, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)
