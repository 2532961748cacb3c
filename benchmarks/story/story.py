"""The story: what happens, and when; told with us and without."""

from __future__ import annotations

import time

from benchmarks.story.bed import Bed
from benchmarks.story.jobs import JOBS, UPLINK_MBPS
from benchmarks.story.servers import Program
from tests.kubernetes.cluster.server import ApiServer

_DOWN_S = 6.0  # how long what is killed stays away


def story(bed: Bed) -> None:
    """Let jobs come, change and go, a link fail by a part, and programs die."""
    usual = JOBS["b"].compute_ms
    with bed.step("three jobs come", 30):
        for name in "abc":
            bed.submit(name)
    with bed.step("a fourth comes", 25):
        bed.submit("d")
    with bed.step("controller killed, started again", 20):
        if bed.gated:
            _restart(bed.controller)
    with bed.step("b computes 60 ms longer", 45):
        bed.compute("b", usual + 60)
    with bed.step("b computes as before", 40):
        bed.compute("b", usual)
    with bed.step("uplink 1 carries 60 %", 45):
        bed.shape(1, UPLINK_MBPS * 6 // 10)
    with bed.step("uplink 1 carries all again", 40):
        bed.shape(1, UPLINK_MBPS)
    with bed.step("API server killed, started again", 25):
        _restart(bed.server)
    with bed.step("Prometheus killed, started again", 25):
        _restart(bed.prometheus)
    with bed.step("c ends", 25):
        bed.finish("c")


def _restart(program: Program | ApiServer) -> None:
    program.kill()
    time.sleep(_DOWN_S)
    program.start()
