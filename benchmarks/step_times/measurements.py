"""Readers of steps that others measured by placement; the files stay where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.step_times.prediction import PARAMETERS, TESTBEDS, Placement
from metronome_opt.errors import InputError

_SIA = ("azure", "dgx-ext", "rtx")
_NODE = 8  # GPUs of a node of Muri
_BROKEN = ("resnet18", "shufflenet_v2_x1_0")  # of Muri at 32 GPUs: parts do not add up


@dataclass(frozen=True)
class Step:
    """A measured step of a job at a placement.

    Attributes
    ----------
    testbed, model, batch, placement
        What ran where; `batch` is that of one GPU.
    seconds
        How long the step takes.
    synchronisation
        What of it passes after the last gradient, in seconds; None if not measured.
    computing
        How long the step of the same batch takes on one GPU.
    """

    testbed: str
    model: str
    batch: int
    placement: Placement
    seconds: float
    synchronisation: float | None
    computing: float

    @property
    def job(self) -> tuple[str, str, int]:
        """What steps of one job have in common."""
        return self.testbed, self.model, self.batch

    @property
    def gpus(self) -> int:
        """How many GPUs the job has."""
        return sum(self.placement)


def read_steps(folder: Path) -> list[Step]:
    """Read all steps on more than one GPU below a folder with folders ``sia`` and ``muri``."""
    steps = [*_sia(folder / "sia"), *_muri(folder / "muri")]
    if not steps:
        raise InputError(f"{folder}: no sia/MODEL-CLUSTER.csv and no muri/*.csv")
    return steps


def _sia(folder: Path) -> Iterator[Step]:
    """Read steps by placement and batch; batches without a step on one GPU are skipped."""
    for cluster in _SIA:
        for path in sorted(folder.glob(f"*-{cluster}.csv")):
            rows = pd.read_csv(path, dtype={"placement": str})
            alone = rows[rows["placement"] == "1"].set_index("local_bsz")["step_time"]
            for row in rows[rows["placement"] != "1"].to_dict("records"):
                if row["local_bsz"] in alone.index:
                    yield Step(
                        cluster,
                        path.stem.removesuffix(f"-{cluster}"),
                        int(row["local_bsz"]),
                        tuple(map(int, row["placement"])),
                        float(row["step_time"]),
                        float(row["sync_time"]),
                        float(alone[row["local_bsz"]]),
                    )


def _muri(folder: Path) -> Iterator[Step]:
    """Read the median step by model and GPUs; models of unknown size are skipped."""
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        return
    rows = pd.concat([pd.read_csv(path) for path in paths])
    rows = rows[~(rows["model_name"].isin(_BROKEN) & (rows["num_gpu"] == 32))]
    rows = rows.drop_duplicates(["model_name", "num_gpu", "iteration_time"])
    groups = rows.groupby(["model_name", "num_gpu", "batch_size"])[["iteration_time"]]
    medians = groups.median().reset_index().to_dict("records")
    alone = {row["model_name"]: row["iteration_time"] for row in medians if row["num_gpu"] == 1}
    for row in medians:
        model, gpus = f"muri {row['model_name']}", int(row["num_gpu"])
        if gpus > 1 and row["model_name"] in alone and model in PARAMETERS:
            yield Step(
                TESTBEDS["muri"].name,
                model,
                int(row["batch_size"]),
                (_NODE,) * (gpus // _NODE) or (gpus,),
                float(row["iteration_time"]) / 1000,
                None,
                float(alone[row["model_name"]]) / 1000,
            )
