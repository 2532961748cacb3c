"""The words of a report: how its numbers are defined, and what they may not show."""

from __future__ import annotations

from collections.abc import Sequence

from metronome_opt.bench.facts import Facts
from metronome_opt.bench.growth import FLOOR_S
from metronome_opt.bench.results import INCOMPLETE, LARGE_SHIFT_S, SHIFT_S
from metronome_opt.bench.shown import count
from metronome_opt.bench.targets import ABOVE_BEST, MIN_SEEDS
from metronome_opt.plot.style import counted

DEFINITIONS = f"""\
- **Solved** is proved optimal within the time limit, by the solver's own clock (imports and
  compiling left out, building the model included). Every other case is a failure, and no failure
  is left out of any mean.
- **Every instance counts the same.** Where a solver ran with several seeds, its mean over them is
  taken first; figures show the median, the slower of two middle ones. A solver marked
  \\{INCOMPLETE} did not run on all instances: its row is not to be compared with the others, and it
  is in no figure of times.
- **PAR2** is the mean time, a failure taking twice the time limit. The **shifted geometric mean**
  is that of the same times, `exp(mean(log(t + s))) - s`. The shift s is {SHIFT_S:g} s, because
  the {LARGE_SHIFT_S:g} s that are usual for mixed-integer programs would hide every difference
  between runs of less than a second; the mean with {LARGE_SHIFT_S:g} s stands beside it to show
  what hangs on the choice.
- **Primal gap** of a value v to the best known v\\*: `|v - v*| / max(|v|, |v*|)`, 0 if both are
  0, 1 without a schedule (Berthold 2013). An optimum of 0 does not break it, so no shift is
  added; against it any other value has gap 1.
- **Primal integral** (Berthold 2013): the primal gap integrated over the time limit and divided
  by it, the gap being 1 before the first schedule and throughout where no schedule came of the
  run.
- **Certified gap**: `(value - bound) / value` of the same run, 0 for the value 0, 1 without a
  schedule or a bound. A solver that never states a bound, on no instance, gets a dash.
- **Time to target** (Aiex, Resende, Ribeiro 2007): seconds to a value at most
  {100 * float(ABOVE_BEST):g} % above the best known one, the i-th of n runs drawn at
  (i - 1/2) / n. It takes {MIN_SEEDS} seeds.
- **Performance profile** (Dolan, Moré 2002): the share of instances solved within a factor of the
  fastest solver's time; failures are at infinity. Times below {FLOOR_S:g} s count as {FLOOR_S:g}
  s in all figures.
- A dash is not known or does not apply. Comparisons of values are exact.
"""


def header(facts: Facts) -> list[tuple[str, str]]:
    """Return what ran, where and when, as rows of a table."""
    return [
        ("cases", f"{count(facts.records)} on {count(facts.instances)} instances"),
        ("suites", ", ".join(facts.suites)),
        ("splits", ", ".join(facts.splits)),
        (
            "solvers and seeds",
            "; ".join(f"{name}: {_seeds(facts, name)}" for name in facts.solvers),
        ),
        ("time limits", ", ".join(f"{limit:g} s" for limit in facts.time_limits)),
        ("memory limits", ", ".join(map(_memory, facts.memory_limits))),
        ("threads", ", ".join(map(str, facts.workers))),
        ("machine", "; ".join(facts.machines)),
        ("commit", ", ".join(facts.commits)),
        (
            "versions",
            ", ".join(f"{name} {' and '.join(each)}" for name, each in facts.versions.items()),
        ),
        ("started", f"{facts.first} to {facts.last}"),
    ]


def threats(facts: Facts, best_known: bool) -> list[str]:
    """Return what limits the conclusions, with the numbers of this campaign, a paragraph each."""
    return [
        text
        for text in (
            _machine_threat(facts),
            _timing_threat(facts),
            _seed_threat(facts),
            _instance_threat(),
            _tuning_threat(facts),
            _limit_threat(facts),
            _reference_threat(facts, best_known),
            _software_threat(facts),
        )
        if text
    ]


def _machine_threat(facts: Facts) -> str:
    if len(facts.machines) > 1:
        return (
            f"**Machines.** The cases ran on {len(facts.machines)} different machines. Times of "
            "different machines are not comparable, and which case ran where is not controlled "
            "for."
        )
    cores = f"with {facts.cores[0]} cores" if facts.cores else "whose cores are not recorded"
    return (
        f"**One machine.** Everything ran on one machine {cores}, a case with up to "
        f"{counted(max(facts.workers), 'thread')}. Ratios of times may differ on others, above all "
        "for solvers that gain from more threads."
    )


def _timing_threat(facts: Facts) -> str:
    together = (
        f"At least {facts.at_once} cases ran at the same time and took cores, caches and memory "
        "bandwidth from each other"
        if facts.at_once > 1
        else "Cases of this campaign did not overlap, as far as their times tell"
    )
    return (
        f"**Noise.** Times are wall-clock times. {together}. What else ran on the machine is not "
        "in the records; if it was shared, single times may be off by a large factor, and so may "
        "times of a few milliseconds anywhere."
    )


def _seed_threat(facts: Facts) -> str:
    seeds = sorted({len(each) for each in facts.seeds.values()})
    few = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"**Seeds.** Solvers ran with {few} {'seed' if seeds[-1] == 1 else 'seeds'} each; those "
        "with one are either deterministic or were not sampled. Solvers with several threads are "
        "not repeatable even with a seed. No test of significance is made: differences of a few "
        "instances may be chance."
    )


def _instance_threat() -> str:
    return (
        "**Instances.** The stored suites are generated, not taken from clusters, and the traffic "
        "of their jobs is computed from published sizes of models or drawn at random, not "
        "measured. Placements, loads and periods of real clusters may be easier or harder. The "
        "value is the contention that the model predicts; no job was run."
    )


def _tuning_threat(facts: Facts) -> str:
    if "tune" in facts.splits:
        return (
            "**Tuning.** This campaign holds tuning instances. They are reported apart, and their "
            "figures are no evidence, since solvers may have been tuned on them."
        )
    return (
        "**Tuning.** Solvers may be tuned on the tuning instances only, of which none is in this "
        f"campaign (splits: {', '.join(facts.splits)}). Both kinds come from the same generators, "
        "however, and our own solvers were developed with these families in view."
    )


def _limit_threat(facts: Facts) -> str:
    limits = ", ".join(f"{limit:g} s" for limit in facts.time_limits)
    memory = ", ".join(map(_memory, facts.memory_limits))
    return (
        f"**Limits.** Means with failures depend on the time limit ({limits}): a failure counts "
        "twice the limit, whatever it would have taken, so a ratio to a solver that often fails "
        f"says as much of the limit as of the solver. Memory was limited to {memory} a case. "
        "Solvers that never prove anything are failures in all figures of time."
    )


def _reference_threat(facts: Facts, best_known: bool) -> str:
    source = (
        "a file of best known values and these records" if best_known else "these records alone"
    )
    zero = (
        f" On {count(facts.zero_instances)} of {count(facts.instances)} instances the best value "
        "is 0, where the primal gap is all or nothing."
        if facts.zero_instances
        else ""
    )
    return (
        f"**References.** Best values come from {source}; {count(facts.open_instances)} of "
        f"{count(facts.instances)} are not proved optimal, so primal gaps there are to a value "
        f"that may still fall.{zero} Values are recomputed exactly by a judge that shares no code "
        "with the solvers; lower bounds are the solvers' word, checked only against values. A "
        "proof by a mixed-integer programming back end holds to its floating-point tolerances."
    )


def _software_threat(facts: Facts) -> str:
    several = [name for name, versions in facts.versions.items() if len(versions) > 1]
    changed = [commit for commit in facts.commits if commit.endswith("+")]
    faults = [
        f"the cases are of {len(facts.commits)} commits" if len(facts.commits) > 1 else "",
        "the checkout had changes that no commit holds" if changed else "",
        "the commit of some cases is not known" if "unknown" in facts.commits else "",
        f"there are several versions of {', '.join(several)}" if several else "",
    ]
    stated = "; ".join(fault for fault in faults if fault)
    found = f" Here {stated}." if stated else ""
    return (
        "**Software.** All solvers, the textbook and published baselines too, are implementations "
        f"of this project; a baseline's own authors might do better.{found}"
    )


def _seeds(facts: Facts, solver: str) -> str:
    seeds: Sequence[int] = facts.seeds[solver]
    whole = list(range(seeds[0], seeds[-1] + 1)) == list(seeds)
    if len(seeds) > 1 and whole:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _memory(limit: int | None) -> str:
    return "no limit" if limit is None else f"{limit:,} MB"
