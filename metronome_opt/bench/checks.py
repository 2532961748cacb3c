"""What must hold of every campaign, looked up in every record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.bench.cases import MeasuredCase
from metronome_opt.bench.references import References
from metronome_opt.bench.shown import exact


@dataclass(frozen=True)
class Check:
    """A claim over all cases and what violates it, a line each."""

    claim: str
    count: int
    violations: tuple[str, ...]


def check_all(cases: Sequence[MeasuredCase], references: References) -> tuple[Check, ...]:
    """Check the bounds, the proofs and the verdicts of the judge in all cases."""
    claims: tuple[tuple[str, Callable[[MeasuredCase], str | None]], ...] = (
        ("No schedule was refused by the judge", _refused),
        ("No lower bound is above the value of the same run", _bound_above_value),
        (
            "No lower bound is above the best value that any solver found, or any is known to have",
            lambda case: _bound_above_best(case, references),
        ),
        ("No value is below a known lower bound", lambda case: _below_known(case, references)),
        ("Every schedule called optimal has a bound that meets its value", _unproved),
        ("Every proof was done within the time limit (later ones do not count as solved)", _late),
    )
    return tuple(
        Check(
            claim,
            len(cases),
            tuple(f"{name_of(case)}: {fault}" for case in cases if (fault := look(case))),
        )
        for claim, look in claims
    )


def name_of(case: MeasuredCase) -> str:
    """Return which case it is, as people read it."""
    record = case.record
    return f"{record.instance}, {record.solver}, seed {record.seed}, {record.time_limit_s:g} s"


def _refused(case: MeasuredCase) -> str | None:
    record = case.record
    return (
        (record.error or "; ".join(map(str, record.faults)) or "refused")
        if (record.kind == "invalid")
        else None
    )


def _bound_above_value(case: MeasuredCase) -> str | None:
    # The raw fields: what the judge refused is looked at as well.
    return _above(case.record.lower_bound, case.record.objective, "value")


def _bound_above_best(case: MeasuredCase, references: References) -> str | None:
    best = references.values.get(case.record.instance_sha256)
    return _above(case.record.lower_bound, best, "best value")


def _below_known(case: MeasuredCase, references: References) -> str | None:
    known = references.known_bounds.get(case.record.instance_sha256)
    return _above(known, case.value, "value", "known bound")


def _above(
    bound: Fraction | None, value: Fraction | None, what: str, which: str = "bound"
) -> str | None:
    if bound is None or value is None or bound <= value:
        return None
    return f"{which} {exact(bound, value)}, {what} {exact(value, bound)}"


def _unproved(case: MeasuredCase) -> str | None:
    if not case.optimal or case.bound == case.value or not case.value:
        return None
    return f"value {exact(case.value)}, bound {exact(case.bound)}"


def _late(case: MeasuredCase) -> str | None:
    if not case.optimal or case.solved_s is not None:
        return None
    time = case.record.runtime_s
    return "no time stated" if time is None else f"proved after {time:.3f} s"
