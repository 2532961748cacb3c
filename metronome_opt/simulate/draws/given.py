"""Jobs as they are: nothing is drawn."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from metronome_opt.scenario.model import Work
from metronome_opt.simulate.draws.generator import Generator
from metronome_opt.simulate.draws.setup import Setup


class Given(Generator):
    """The same jobs for every seed, which is left to what disturbs them.

    Parameters
    ----------
    work
        The jobs, as in a scenario.
    """

    work: Annotated[tuple[Work, ...], Field(strict=False)]

    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:  # noqa: ARG002 (as all generators)
        """Return the jobs."""
        return self.work
