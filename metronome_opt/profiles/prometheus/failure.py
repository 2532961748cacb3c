"""What goes wrong with Prometheus, as one line."""

from __future__ import annotations

from metronome_opt import errors
from metronome_opt.errors import MetronomeError

_SHOWN = 200


class PrometheusError(MetronomeError):
    """Prometheus gave no answer, or none to be used; the text says where, what, the remedy.

    Parameters
    ----------
    message
        The line; it is to contain no credentials.
    final
        Asking again would bring the same.
    wait_s
        Seconds for which the server asked to be left alone; None where it did not say.
    """

    def __init__(self, message: str, *, final: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.final = final
        self.wait_s = wait_s


def told(text: str) -> str:
    """Return what a server said as it may stand in a line: printable and short."""
    return errors.told(text, _SHOWN)
