"""The results of a campaign of simulations as tidy tables: one row per job, or link, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from metronome_opt.bench.simulations import SimulationRecord, Value
from metronome_opt.documents import write_text

if TYPE_CHECKING:
    import pandas as pd

Part = Literal["jobs", "links", "samples"]


def tidy(records: Sequence[SimulationRecord], part: Part) -> pd.DataFrame:
    """Return the tables of all simulations that were done, one below the other.

    First come the study, the cell's settings, the policy and the seed, then the columns of the run.
    A setting that is called like one of these columns gets ``cell_`` before its name.

    Parameters
    ----------
    records
        In the order that the rows are to have.
    part
        Which table of the `Run`.
    """
    import pandas as pd

    tables = [_table(record, part) for record in records if record.went_well]
    names = dict.fromkeys(name for table in tables for name in table)
    lengths = [len(table["seed"]) for table in tables]
    return pd.DataFrame(
        {
            name: [
                value
                for table, length in zip(tables, lengths, strict=True)
                for value in table.get(name, [None] * length)
            ]
            for name in names
        }
    )


def write_tables(records: Sequence[SimulationRecord], folder: str | Path) -> list[Path]:
    """Write ``jobs.csv`` and ``links.csv``, what is not known empty; return where."""
    parts: tuple[Part, ...] = ("jobs", "links")
    paths = [Path(folder) / f"{part}.csv" for part in parts]
    for part, path in zip(parts, paths, strict=True):
        write_text(path, tidy(records, part).to_csv(index=False, lineterminator="\n"))
    return paths


def _table(record: SimulationRecord, part: Part) -> dict[str, Sequence[Value]]:
    columns: Mapping[str, Sequence[Value]] = getattr(record, part) or {}
    length = len(next(iter(columns.values()), ()))
    taken = {"study", "policy", "seed", *columns}
    settings = {
        f"cell_{name}" if name in taken else name: value for name, value in record.cell.items()
    }
    run = {"study": record.study, **settings, "policy": record.policy, "seed": record.seed}
    return {name: [value] * length for name, value in run.items()} | dict(columns)
