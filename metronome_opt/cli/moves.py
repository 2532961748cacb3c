"""Migrations of running jobs, which ``metronome allocate --migration-cost`` chooses."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from metronome_opt.allocation.migrations import Migration
from metronome_opt.errors import InputError, error_context
from metronome_opt.files.documents import is_database
from metronome_opt.kubernetes.state.migrations import apply_migrations, decide_migrations
from metronome_opt.kubernetes.state.scenario import scenario_of
from metronome_opt.kubernetes.state.store import read_cluster_state
from metronome_opt.output.tables import format_nodes
from metronome_opt.scenario import Scenario


@dataclass(frozen=True)
class Moves:
    """A cluster's state after migrations, each of which may cost some seconds."""

    source: Scenario
    moves: list[Migration]
    cost_s: float

    @classmethod
    def read(cls, path: Path, cost_s: float) -> Moves:
        """Read the state of a cluster, and choose the migrations that pay."""
        if not is_database(path):
            raise InputError(f"--migration-cost: {path} is no state of a cluster; leave it out")
        state = read_cluster_state(path)
        moves = decide_migrations(state, cost_s, time.time())
        nodes = {move.job: move.after.nodes for move in moves}
        paths = {move.job: move.after.paths for move in moves}
        with error_context(path):
            return cls(scenario_of(apply_migrations(state, nodes, paths)), moves, cost_s)

    def to_dict(self) -> dict[str, Any]:
        """Return the migrations as JSON."""
        rows = [
            {
                "job": move.job,
                "from": list(move.before.nodes),
                "to": list(move.after.nodes),
                "saves_s": round(move.saves_ms / 1000, 3) if isfinite(move.saves_ms) else None,
                "costs_s": self.cost_s,
            }
            for move in self.moves
        ]
        return {"moves": rows}

    def print(self) -> None:
        """Print a line for each migration."""
        for move in self.moves:
            source, target = (format_nodes(place.nodes) for place in (move.before, move.after))
            typer.echo(
                f"move {move.job}: {source} -> {target}: {move.gain}, costs {self.cost_s:g} s"
            )
        if not self.moves:
            typer.echo("no move pays (jobs that state no iterations stay)")
