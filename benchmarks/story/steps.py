"""The story: what happens when, told twice at the same moments, with us and without."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.story.bed import JOBS, UPLINK_MBPS, Bed, bed
from metronome_opt.documents import write_text

STEPS_FILE = "steps.json"

_DOWN_S = 6.0  # how long what is killed stays away


class Step(NamedTuple):
    """Something that happens, and how long it is watched.

    Attributes
    ----------
    act
        May take a part of the step.
    """

    name: str
    seconds: int
    act: Callable[[Bed], None]


class Told(NamedTuple):
    """A step as it happened.

    Attributes
    ----------
    begin, end
        Seconds since the epoch.
    alone_ms
        Of each job that was there at its end, the iteration on a network of its own.
    """

    name: str
    begin: float
    end: float
    alone_ms: dict[str, float]


def _three_come(bed: Bed) -> None:
    for name in "abc":
        bed.submit(name)


def _fourth_comes(bed: Bed) -> None:
    bed.submit("d")


def _controller_dies(bed: Bed) -> None:
    bed.controller.kill()
    time.sleep(_DOWN_S)
    if bed.gated:
        bed.controller.start()


def _api_server_dies(bed: Bed) -> None:
    bed.server.kill()
    time.sleep(_DOWN_S)
    bed.server.start()


def _prometheus_dies(bed: Bed) -> None:
    bed.prometheus.kill()
    time.sleep(_DOWN_S)
    bed.prometheus.start()


STORY = (
    Step("three jobs come", 30, _three_come),
    Step("a fourth comes", 25, _fourth_comes),
    Step("controller killed, started again", 20, _controller_dies),
    Step("b computes 60 ms longer", 35, lambda bed: bed.compute("b", JOBS["b"].compute_ms + 60)),
    Step("b computes as before", 30, lambda bed: bed.compute("b", JOBS["b"].compute_ms)),
    Step("uplink 1 carries 60 %", 35, lambda bed: bed.shape(1, UPLINK_MBPS * 6 // 10)),
    Step("uplink 1 carries all again", 30, lambda bed: bed.shape(1, UPLINK_MBPS)),
    Step("API server killed, started again", 25, _api_server_dies),
    Step("Prometheus killed, started again", 25, _prometheus_dies),
    Step("c ends", 25, lambda bed: bed.finish("c")),
)


def tell(
    folder: Path,
    *,
    gated: bool,
    story: Sequence[Step] = STORY,
    options: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> list[Told]:
    """Let the story happen in a new cluster; its folder holds what every rank recorded.

    Parameters
    ----------
    gated, options
        See `bed`.
    say
        Hears of each step as it begins.
    """
    told: list[Told] = []
    with bed(folder, gated=gated, options=options) as running:
        for step in story:
            begin = time.time()
            say(step.name)
            step.act(running)
            time.sleep(max(0.0, begin + step.seconds - time.time()))
            told.append(Told(step.name, begin, time.time(), running.alone_ms))
            write_text(folder / STEPS_FILE, json.dumps(told, indent=1))
        time.sleep(1.5)  # until ranks have written what they did
    return told
