"""Traffic of models, worked out by hand; rounding keeps volumes and never speeds up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scenario.iteration import Burst, Iteration
from metronome_opt.scenario.traffic import training_step
from tests.builders import fault_of
from tests.scenario.examples import one_each, workload


def test_data_parallel() -> None:
    # 10 samples * 1 GFLOP at 0.1 TFLOP/s: 100 ms forward, 200 ms backward.
    # 250 M parameters * 4 bytes = 1 GB; 2 * 3 / 4 of it, 1.5 GB = 12,000 Mbit; 240 ms at 50 Gbit/s.
    model = workload(10**9, 250_000_000, data_parallel={"gradient_bytes": 4})
    exact = training_step(model, 4, 10, Fraction(10**11)).at(one_each(4, 50_000))
    assert [(burst.after, burst.volume, burst.duration) for burst in exact.bursts] == [
        (Fraction(300), Fraction(12_000), Fraction(240))
    ]
    assert exact.duration == 540


TENSOR = {"layers": 2, "hidden": 100, "tokens": 1000, "activation_bytes": 2, "rate_mbps": 25_000}


def test_tensor_parallel() -> None:
    # 2 workers * 5 samples * 1000 tokens * 100 * 2 bytes = 2 MB of activations; 2 layers reduce
    # them twice a pass, and a ring of 2 sends them once each time: 8 MB = 64 Mbit, 2.56 ms at
    # 25 Gbit/s.
    # Forward takes 4 ms (5 * 0.8 GFLOP at 1 TFLOP/s), backward 8 ms; sending is hidden in both.
    model = workload(800_000_000, 1, tensor_parallel=TENSOR)
    exact = training_step(model, 2, 5, Fraction(10**12)).at(one_each(2, 50_000))
    assert [burst.volume for burst in exact.bursts] == [64, 64]
    assert [burst.rate for burst in exact.bursts] == [25_000, 25_000]
    assert [burst.after for burst in exact.bursts] == [Fraction("1.44"), Fraction("5.44")]
    assert exact.duration == 12


HYBRID = {
    "layers": 4,
    "hidden": 10,
    "tokens": 100,
    "activation_bytes": 2,
    "gradient_bytes": 4,
    "embedding_parameters": 500,
    "rate_mbps": 100,
    "tensor": 2,
    "stages": 2,
    "microbatches": 2,
}


def test_hybrid() -> None:
    # Two replicas of 2 x 2 workers with 4 samples each, 2 in a micro-batch: 2 * 100 * 10 * 2 bytes
    # = 4 kB. A stage has 2 layers, hence 4 all-reduces of 4 kB and 4 kB handed over: 20 kB,
    # 0.16 Mbit, 1.6 ms at 100 Mbit/s. Computing takes 3 ms and 6 ms a micro-batch, and the pipeline
    # 9 ms to drain and fill. Gradients: 1000 * 4 / 4 bytes; tied embeddings: 500 * 4 / 2 bytes;
    # both among 2 workers: 1 kB each, 0.04 ms at 200 Mbit/s.
    model = workload(6_000_000, 1000, hybrid_parallel=HYBRID)
    exact = training_step(model, 8, 1, Fraction(10**9)).at(one_each(8, 200))
    assert [(burst.after, burst.duration) for burst in exact.bursts] == [
        (Fraction("1.4"), Fraction("1.6")),
        (Fraction("1.4"), Fraction("1.6")),
        (Fraction("13.4"), Fraction("1.6")),
        (Fraction("4.4"), Fraction("1.6")),
        (0, Fraction("0.04")),
        (0, Fraction("0.04")),
    ]
    assert exact.duration == Fraction("27.08")


@pytest.mark.parametrize(
    ("changes", "gpus", "message"),
    [
        ({}, 6, "workers: 6: must be a multiple of 4, "),
        ({"microbatches": 3}, 4, "batch: 1: the 4 samples of a replica cannot be shared"),
    ],
)
def test_hybrid_needs_whole_groups_and_micro_batches(
    changes: dict[str, int], gpus: int, message: str
) -> None:
    model = workload(6_000_000, 1000, hybrid_parallel={**HYBRID, **changes})
    fault = fault_of(lambda: training_step(model, gpus, 1, Fraction(10**9)))
    assert fault.startswith(message)


def test_dlrm() -> None:
    # 1000 samples * 26 tables * 64 * 4 bytes = 6.656 MB; 3 / 4 of it, 4.992 MB = 39.936 Mbit.
    # Dense gradients: 1 M * 4 bytes * 1.5 = 6 MB = 48 Mbit, in one burst with the second exchange.
    # Three passes of 1000 * 1 MFLOP at 1 TFLOP/s: 3 ms.
    sizes = {"tables": 26, "dimension": 64, "embedding_bytes": 4, "gradient_bytes": 4}
    model = workload(10**6, 10**6, embedding_parallel=sizes)
    exact = training_step(model, 4, 1000, Fraction(10**12)).at(one_each(4, 50_000))
    assert [(burst.after, burst.volume) for burst in exact.bursts] == [
        (Fraction(0), Fraction("39.936")),
        (Fraction(3), Fraction("87.936")),
    ]
    assert exact.volume == Fraction("127.872")
    assert exact.duration == 3 + 1000 * Fraction("127.872") / 50_000


# ------------------------------------------------------------------ slots


bursts = st.builds(
    Burst,
    st.fractions(min_value=0, max_value=1000, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 1000), max_value=10**5, max_denominator=1000),
    st.integers(min_value=100, max_value=100_000),
)


@given(st.lists(bursts, min_size=1, max_size=4), st.integers(min_value=1, max_value=50))
def test_rounding_conserves_volume_and_never_speeds_up(given_: list[Burst], slot_ms: int) -> None:
    exact = Iteration(tuple(given_))
    phases, slots = exact.to_slots(slot_ms)
    for before, after in zip(given_, phases, strict=True):
        excess = Fraction(after.rate * after.length * slot_ms, 1000) - before.volume
        assert 0 <= excess < Fraction(after.length * slot_ms, 1000)
        assert after.rate <= before.rate
        assert 0 <= after.length * slot_ms - before.duration < slot_ms
    change = slots * slot_ms - exact.duration
    assert -Fraction(slot_ms * len(given_), 2) <= change < Fraction(3 * slot_ms * len(given_), 2)
