"""Blocks of documents: tables of figures, in Markdown. What is not recorded is a dash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from benchmarks.evaluation.figures import (
    NODES,
    PLACES,
    SLOTS,
    SUBJECT,
    Figure,
    Figures,
    differs,
)
from benchmarks.evaluation.plan import Part, Race, read_plan
from benchmarks.evaluation.published import AGAINST, PUBLISHED, UNITS, UNKNOWN

_DASH = "-"
_PRIORITIES = re.compile(r"priority/(priorities=[\d/]+,sharing=\w+)/")
_NOTHING = "Nothing is recorded of this part yet."
SHARING = {"fair": "fair shares", "tcp": "as over TCP"}
FACTORS: Mapping[str, Mapping[str, str]] = {
    "GPUs a node": {f"gpus={each}": each for each in ("1", "2", "4", "8")},
    "uplinks": {"uplinks=1to1": "1:1", "uplinks=2to1": "2:1", "uplinks=4to1": "4:1"},
    "spines": {"spines=1": "1", "spines=4": "4"},
    "periods": {f"periods={each}": each for each in ("equal", "harmonic", "free")},
    "time sending": {"busy=0.2": "20 %", "busy=0.35": "35 %", "busy=0.45": "45 %"},
    "jitter": {"jitter=0.0": "0", "jitter=0.01": "1 %", "jitter=0.02": "2 %", "jitter=0.05": "5 %"},
    "sharing": {"sharing=fair": "fair", "sharing=tcp": "TCP"},
}
"""Slices of `regimes` by factor, with what stands for their values."""
DECISIONS = {
    "no windows": PLACES,
    "windows only": SLOTS,
    "all decisions": SUBJECT,
    "no contention": "ideal",
}
"""Policies by the decisions that they take."""
_JOBS = {
    "rings, unsaturated regimes": "regimes/sharing={}",
    "arrivals of Sia": "sia/sharing={}",
    "arrivals of Muri": "muri/sharing={}",
    "fleets": "fleets/sharing={}",
    "two to four on one link": "one-link/all",
}
"""Slices of results by the jobs that they are of; what is simulated as over TCP alone has no {}."""
_LEFT = """\
**Sharing links matters more than timing.** On the nearest nodes jobs of Sia's arrivals run {} times
as long as at their best; perfect windows, shifts or priorities would leave an estimated {}. Where
`metronome` places them they run {} times as long, and an estimated {} would be left."""
_GAINS = """\
**You study clusters.** 200 jobs come and go on 64 GPUs, in {} regimes ({} seeds). Spread over free
GPUs, as by Kubernetes' default, they saturate {} (mean completion more than doubles), on nearest
nodes {}, under `metronome` {}. In the others, `metronome` changes mean completion by {} against
spreading, and by {} against nearest nodes ([map](benchmarks/README.md#what-a-schedule-brings)). In
rings of jobs of one model, with fairly shared uplinks, windows change it by {}, MLTCP, congestion
control on all hosts, by {}."""
_SATURATED = """\
Of the {} cells `default` saturates {}, `nearest` {}, windows alone {} and `metronome` {}: mean
completion is more than twice that without contention, and the queue is taken to grow for as long as
jobs come. There `metronome` changes it by {} against `default`, and by {} against `nearest`, and
probably by more if there were more jobs. Such cells are in none of the other means against these,
so slices that lose many of them, as those of narrow uplinks, understate what they have to gain."""
_PROOFS = """\
**You solve scheduling problems.** An exact model, stored instances with certificates, and a solver
that proves what textbook models cannot: of {} instances of 13 jobs on 28 links `auto` proves {} in
{} s, our models for CP-SAT {} and for MILP {}, time-indexed CP-SAT as in textbooks {}
([which solver when](docs/solvers.md))."""
_OPERATES = """\
**You operate a cluster.** `import` reads what `kubectl get` prints, `allocate` plans, `claims`
writes `STBandwidthClaim` manifests, and a [gate](docs/gate.md) in the training loop holds each
burst until its window. On the [test bed](benchmarks/testbed/README.md), over real TCP with short
queues, iterations on one link took, in one run each, {} times their period ungated and {} in
windows (two jobs), {} and {} (three), {} and {} (two of unlike periods)."""
_QUEUEING = """\
**Queueing for better nodes brings most.** In these cells `metronome` changes completion by {} if it
only chooses nodes (`waits=no:slots=no`), by {} if it queues jobs for them, too (`slots=no`), and by
{} with windows; `exclusive` by {}. With the arrivals of Sia these are {}, {}, {} and {}."""
_SINGLE = "gpus=1"
_PROVERS = "auto", "cpsat", "milp", "textbook.py:cpsat"


def change(figure: Figure | None) -> str:
    """Return a change in per cent with its interval."""
    if figure is None or figure.low is None or figure.high is None:
        return _DASH
    return f"{_signed(figure.mean)} % ({_signed(figure.low)} to {_signed(figure.high)})"


def _signed(value: float, digits: int = 1) -> str:
    return f"{value:z.{digits}f}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join("--:" if at else "---" for at in range(len(headings)))
    lines = [f"| {' | '.join(headings)} |", f"|{rule}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _tested(figures: Figures, key: str) -> str:
    """Return a change, with a star if it is not by chance by Holm's procedure over all cells."""
    star = "*" if differs(figures, key) else ""
    figure = figures.get(f"{key}completion")
    is_small = figure is not None and abs(figure.mean) < 0.05
    return _level(figure, 2 if star and is_small else 1) + star


def by_factor(figures: Figures) -> str:
    """Return what packing and decisions bring in `regimes`, by the values of each factor."""
    keys = [f"{policy}/" for policy in ("nearest/over-default", *DECISIONS.values())]
    rows = [
        [
            f"{factor}: {', '.join(values.values())}",
            ", ".join(_count(figures.get(f"regimes/{label}/stable")) for label in values),
            *(
                ", ".join(
                    _level(figures.get(f"regimes/{label}/{key}completion"), 1).partition(" ")[0]
                    for label in values
                )
                for key in keys
            ),
        ]
        for factor, values in FACTORS.items()
    ]
    seeds = _count(figures.get("regimes/all/seeds"))
    return _table([f"factor, {seeds} seeds", "cells", "packing", *DECISIONS], rows)


def _cells(part: str, figures: Figures) -> str:
    """Return what packing brings in single cells, and decisions over the nearest.

    Cells of one GPU a node are one row, as in the paper.
    """
    found = dict.fromkeys(
        key.split("/")[1] for key in figures if key.startswith(f"{part}/gpus=") and "," in key
    )
    labels = [each for each in found if not each.startswith(f"{_SINGLE},")]
    labels += [_SINGLE] if len(labels) < len(found) else []
    named = {label: shown for values in FACTORS.values() for label, shown in values.items()}
    rows = [
        [
            ", ".join(named[each] for each in label.split(",")) + ", all" * (label == _SINGLE),
            _count(figures.get(f"{part}/{label}/seeds")),
            _tested(figures, f"{part}/{label}/nearest/over-default/"),
            *(_tested(figures, f"{part}/{label}/{policy}/") for policy in DECISIONS.values()),
        ]
        for label in labels
    ]
    return _table([", ".join(FACTORS), "seeds", "packing", *DECISIONS], rows) if rows else _NOTHING


def measures(figures: Figures) -> str:
    """Return measures of policies over all regimes; changes are against `default`."""
    shown = {
        "completion": "mean completion",
        "tail": "99th percentile",
        "traffic": "traffic until the last arrival",
        "energy": "energy",
    }
    policies = ("nearest", "cassini", "mltcp", "crux", *DECISIONS.values())
    rows = []
    for policy in ("default", *policies):
        key = f"regimes/all/{policy}"
        changes = (_level(figures.get(f"{key}/over-default/{each}"), 1) for each in shown)
        groups = (_count(figures.get(f"{key}/{each}")) for each in ("met", "fitting", "gated"))
        lost = _level(figures.get(f"{key}/lost"), 1)
        saturated = _count(figures.get(f"{key}/saturated"))
        rows.append([f"`{policy}`", *changes, lost, saturated, ", ".join(groups)])
    return _table(["policy", *shown.values(), "GPU hours lost", "saturated", "groups"], rows)


def priority(figures: Figures) -> str:
    """Return slowdowns by priority, from the lowest, of each policy and way of sharing."""
    cells = dict.fromkeys(match[1] for key in figures if (match := _PRIORITIES.match(key)))
    policies = ("default", "nearest", "crux", SUBJECT)
    rows = [
        [
            cell.replace("priorities=", "").replace(",sharing=", ", "),
            *(_by_priority(figures, f"priority/{cell}/{policy}/slowdown@") for policy in policies),
        ]
        for cell in cells
    ]
    headings = ["priorities, sharing", *(f"`{policy}`" for policy in policies)]
    return _table(headings, rows) if rows else _NOTHING


def _by_priority(figures: Figures, start: str) -> str:
    known = sorted(int(key.removeprefix(start)) for key in figures if key.startswith(start))
    return ", ".join(_level(figures[f"{start}{each}"], 3) for each in known) or _DASH


def _level(figure: Figure | None, digits: int) -> str:
    """Return a mean and half the width of its interval."""
    if figure is None or figure.low is None or figure.high is None:
        return _DASH
    half = (figure.high - figure.low) / 2
    return f"{_signed(figure.mean, digits)} ±{half:.{digits}f}"


def jobs(figures: Figures) -> str:
    """Return what `metronome` brings to which jobs, beside a network that does without it."""
    rows = []
    for shown, part in _JOBS.items():
        fair, tcp = (part.format(each) for each in SHARING)
        gain = _level(figures.get(f"{fair}/metronome/completion"), 1) if fair != tcp else _DASH
        ours, mltcp, alone = (
            _level(figures.get(f"{tcp}/{each}/completion"), 1)
            for each in ("metronome", "mltcp", "ideal")
        )
        planned = read_plan()[part.split("/")[0]]
        alone = _DASH if isinstance(planned, Part) and planned.is_by_placement else alone
        rows.append([shown, _count(figures.get(f"{tcp}/seeds")), gain, ours, mltcp, alone])
    return _table(["jobs", "seeds", *SHARING.values(), "MLTCP, as over TCP", "no contention"], rows)


def gains(figures: Figures) -> str:
    """Return what placement and windows bring, in a few sentences."""
    counts = ["cells", "all/seeds", *(f"all/{each}/saturated" for each in ("default", "nearest"))]
    numbers = [
        *(_count(figures.get(f"regimes/{key}")) for key in [*counts, "all/metronome/saturated"]),
        *(
            change(figures.get(key))
            for key in (
                "regimes/all/metronome/over-default/completion",
                "regimes/all/metronome/completion",
                "fleets/sharing=fair/metronome/completion",
                "fleets/sharing=fair/mltcp/completion",
            )
        ),
    ]
    return _NOTHING if _DASH in numbers else _GAINS.format(*numbers)


def saturated(figures: Figures) -> str:
    """Return which cells policies saturate, and what `metronome` changes there."""
    policies = ("default", "nearest", SLOTS, SUBJECT)
    changes = (f"regimes/saturated/{SUBJECT}/{over}completion" for over in ("over-default/", ""))
    numbers = [
        _count(figures.get("regimes/cells")),
        *(_count(figures.get(f"regimes/all/{each}/saturated")) for each in policies),
        *(change(figures.get(key)) for key in changes),
    ]
    return _NOTHING if _DASH in numbers else _SATURATED.format(*numbers)


def proofs(figures: Figures) -> str:
    """Return a sentence on what solvers prove of the instances drawn like the paper's."""
    solved = [_count(figures.get(f"solvers/paper/{each}/solved")) for each in _PROVERS]
    if _DASH in solved:
        return _NOTHING
    count = _count(figures.get("solvers/paper/auto/instances"))
    race = read_plan()["solvers"]
    limit = race.time_limit if isinstance(race, Race) else _DASH
    return _PROOFS.format(count, solved[0], limit, *solved[1:])


def queueing(figures: Figures) -> str:
    """Return a sentence on what nodes, queueing for them and windows bring, one after another."""
    numbers = [
        change(figures.get(f"{part}/all/{policy}/completion"))
        for part in ("contended", "sia")
        for policy in (NODES, PLACES, SUBJECT, "exclusive")
    ]
    return _NOTHING if _DASH in numbers else _QUEUEING.format(*numbers)


def operates(figures: Figures) -> str:
    """Return a sentence on what windows bring on real connections with short queues."""
    numbers = [
        _number(figures.get(f"testbed/queues/{case}/1/{kind}"))
        for case in ("two", "three", "unlike")
        for kind in ("free", "gated")
    ]
    return _NOTHING if _DASH in numbers else _OPERATES.format(*numbers)


def left(figures: Figures) -> str:
    """Return a sentence on what windows could bring at most, beside the nearest nodes."""
    numbers = [
        _number(figures.get(f"sia/sharing=tcp/{policy}/{each}"))
        for policy in ("nearest", SUBJECT)
        for each in ("running", "estimate")
    ]
    return _NOTHING if _DASH in numbers else _LEFT.format(*numbers)


def _number(figure: Figure | None) -> str:
    return _DASH if figure is None else f"{figure.mean:.3f}"


def solvers(figures: Figures) -> str:
    """Return how many instances each solver with bounds proves, and what gap is left."""
    keys = [key.split("/") for key in figures if re.fullmatch("solvers/.*/gap", key)]
    names = dict.fromkeys(solver for _, _, solver, _ in keys)
    heads = {
        suite: f"{suite} ({_count(figures[f'solvers/{suite}/{solver}/instances'])})"
        for _, suite, solver, _ in keys
    }
    rows = [
        [f"`{solver}`", *(_proved(figures, f"solvers/{suite}/{solver}") for suite in heads)]
        for solver in names
    ]
    return _table(["solver", *heads.values()], rows) if rows else _NOTHING


def _proved(figures: Figures, key: str) -> str:
    """Return how many instances a solver proves, and the mean gap."""
    if f"{key}/solved" not in figures:
        return _DASH
    proved = _count(figures[f"{key}/solved"])
    gap = figures.get(f"{key}/gap")
    return proved + ("" if gap is None else f", {gap.mean:.1f} %")


def published(figures: Figures) -> str:
    """Return published numbers of other systems, figures beside them, and what is not public."""
    if not any("/as-published/" in key for key in figures):
        return _NOTHING
    rows = [
        [
            *((line.what, line.number) if policy == line.policies[0] else ("", "")),
            f"`{policy}`",
            *(_beside(figures, line.key(policy, against), line.measure) for against in AGAINST),
        ]
        for line in PUBLISHED
        for policy in line.policies
    ]
    heads = (f"against `{each}`" for each in AGAINST)
    table = _table(["measure", "as published", "here", *heads], rows)
    unknown = "\n".join(f"- {system}: {what}." for system, what in UNKNOWN.items())
    return f"{table}\n\nNot public, as far as we know, or not here:\n\n{unknown}"


def _beside(figures: Figures, key: str, measure: str) -> str:
    """Return a mean with its interval, and the best run."""
    mean, unit = figures.get(key), UNITS.get(measure, "x")
    if mean is None:
        return _DASH
    digits = 1 if measure in UNITS else 2
    most = f"{figures[f'{key}/most'].mean:.{digits}f}{unit}"
    return f"{_level(mean, digits)}, up to {most}"


def _count(figure: Figure | None) -> str:
    return _DASH if figure is None else f"{figure.mean:.0f}"


BLOCKS: Mapping[str, Callable[[Figures], str]] = {
    "gains": gains,
    "proofs": proofs,
    "operates": operates,
    "map": by_factor,
    "saturated": saturated,
    **{part: partial(_cells, part) for part in ("corners", "contended")},
    "queueing": queueing,
    "measures": measures,
    "priority": priority,
    "jobs": jobs,
    "left": left,
    "solvers": solvers,
    "published": published,
}
"""Blocks by the names that documents use."""
