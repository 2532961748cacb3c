"""Small states for the command `monitor`, and one check of them."""

from __future__ import annotations

from pathlib import Path

from metronome_opt.__main__ import main
from metronome_opt.scheduling.gang import Reservation
from metronome_opt.scheduling.store import Store
from tests.control.wires import claim, state_of
from tests.prometheus.history import EPOCH_S

NODE_COUNTER = "node_network_transmit_bytes_total"

SELECTOR = f'{NODE_COUNTER}{{device="$pod"}}'
NOW_S = EPOCH_S + 119


def kept(folder: Path, *claims: Reservation) -> Path:
    with Store.keep(folder / "state", state_of(*claims)):
        return folder / "state"


def beside(folder: Path, other: str) -> Path:
    """Make a state of calm, which is important, and another job half a second later."""
    return kept(folder, claim("calm", 0, weight=4), claim(other, 100))


def check(state: Path, url: str, *arguments: str, at_s: float = NOW_S) -> int:
    told = ["--state", str(state), "--prometheus", url, "--once", "--at", str(at_s)]
    return main(["monitor", *told, "--selector", SELECTOR, "--window", "100", *arguments])


def exposed(text: str) -> dict[str, float]:
    """Return the values of metrics by name and labels as they are written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
