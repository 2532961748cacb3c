"""Predicted steps and causes of outliers equal values worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.step_times.compare import (
    Cause,
    Pair,
    Prediction,
    find_causes,
    forms_table,
    outliers_table,
    pair_placements,
    placements_table,
    predict,
    smallest_batches,
)
from benchmarks.step_times.measurements import Step, read_steps
from benchmarks.step_times.prediction import (
    TESTBEDS,
    Crossing,
    Overlap,
    Placement,
    communication_s,
    step_s,
)

SIA = """local_bsz,step_time,sync_time,placement
4,0.192,0.005,1
4,0.259,0.032,2
4,0.214,0.019,11
4,0.566,0.365,44
4,0.916,0.725,8
"""
MURI = """num_gpu,model_name,batch_size,iteration_time
1,bert,4,178
8,bert,4,192
16,bert,4,244
16,a2c,64,567
"""


def step(placement: Placement, seconds: float, sync: float | None = None, batch: int = 4) -> Step:
    return Step("azure", "bert", batch, placement, seconds, sync, 0.2)


def write_sia(folder: Path) -> None:
    (folder / "sia").mkdir()
    (folder / "sia" / "bert-azure.csv").write_text(SIA)


def test_steps_of_both_publications_are_read(tmp_path: Path) -> None:
    write_sia(tmp_path)
    (tmp_path / "muri").mkdir()
    (tmp_path / "muri" / "trace.csv").write_text(MURI)
    steps = read_steps(tmp_path)
    assert [each.placement for each in steps] == [(2,), (1, 1), (4, 4), (8,), (8,), (8, 8)]
    assert steps[0] == Step("azure", "bert", 4, (2,), 0.259, 0.032, 0.192)
    assert steps[-1] == Step("muri", "muri bert", 4, (8, 8), 0.244, None, 0.178)


@pytest.mark.parametrize(
    ("crossing", "placement", "seconds"),
    [
        (Crossing.INTERFACE, (4,), 4 * 1.5 / 12.5),  # each of four sends 1.5 GB
        (Crossing.INTERFACE, (2, 2), 2 * 1.5 / 12.5),
        (Crossing.PROCESSES, (4,), 1.5 / 120),
        (Crossing.PROCESSES, (2, 2), 1.5 / 12.5),
        (Crossing.INTERFACE, (1,), 0),
    ],
)
def test_communication_is_by_what_crosses_what(
    crossing: Crossing, placement: Placement, seconds: float
) -> None:
    found = communication_s(TESTBEDS["azure"], placement, 10**9, crossing)
    assert found == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("overlap", "seconds"),
    [
        (Overlap.NONE, 5.4),
        (Overlap.HALF, 4.4),
        (Overlap.BACKWARD, 3.4),
        (Overlap.BUCKETS, 1 + 2 / 4 + 2.4),  # the first of four buckets is ready after 1.5 s
    ],
)
def test_a_step_by_what_hides_communication(overlap: Overlap, seconds: float) -> None:
    assert step_s(3.0, 2.4, 100_000_000, overlap) == pytest.approx(seconds)


def test_pairs_have_equal_gpus_or_even_placements() -> None:
    steps = [step(each, 1.0) for each in ((2,), (1, 1), (1, 3), (4,))]
    pairs = [
        (pair.one.step.placement, pair.other.step.placement)
        for pair in pair_placements(predict(steps))
    ]
    assert pairs == [((2,), (1, 1)), ((2,), (4,)), ((1, 1), (4,)), ((1, 3), (4,))]


@pytest.mark.parametrize(
    ("seconds", "sync", "batch", "cause"),
    [
        (0.9, 0.1, 4, Cause.COMPUTING),
        (0.9, 0.7, 8, Cause.WAITING),
        (0.9, 0.7, 4, Cause.SLOW_NETWORK),
        (0.25, 0.02, 4, Cause.HIDDEN),
    ],
)
def test_causes_of_outliers(seconds: float, sync: float, batch: int, cause: Cause) -> None:
    right = Prediction(step((2,), 0.2, 0.02, batch), 0.2)
    other = Prediction(step((8,), seconds, sync, batch), 0.5)
    baseline = smallest_batches([step((8,), 0.3, sync if batch == 4 else 0.02), right.step])
    assert find_causes(Pair(other, right), baseline) == [cause]


def test_tables_agree_with_each_other(tmp_path: Path) -> None:
    write_sia(tmp_path)
    predictions = predict(read_steps(tmp_path))
    placements = placements_table(predictions).set_index("placement")
    # 0.192 s on one GPU; eight GPUs send 1.75 * 435.6 MB each through 12.5 GB/s.
    assert placements.loc["8", "step"] == pytest.approx(
        (0.192 + 8 * 1.75 * 0.43557 / 12.5) / 0.916, 1e-3
    )
    assert placements.loc["2", "ratio"] == 1
    outliers = outliers_table(predictions).iloc[0]
    assert outliers["outliers"] == outliers[[str(cause) for cause in Cause]].sum()
    forms = forms_table(read_steps(tmp_path))
    assert set(forms["pairs"]) == {outliers["pairs"]}
