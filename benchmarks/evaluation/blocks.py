"""Blocks of documents: tables of figures, in Markdown. What is not recorded is a dash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from benchmarks.evaluation.figures import PLACES, SLOTS, SUBJECT, Figure, Figures
from benchmarks.evaluation.plan import Race, read_plan
from benchmarks.evaluation.published import AGAINST, PUBLISHED, UNITS, UNKNOWN
from benchmarks.evaluation.recorded import read_index

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
DECISIONS = {"places": PLACES, "slots": SLOTS, "both": SUBJECT, "no contention": "ideal"}
"""Policies by the decisions that they take."""
_JOBS = {
    "rings, all regimes": "regimes/sharing={}",
    "arrivals of Sia": "sia/sharing={}",
    "arrivals of Muri": "muri/sharing={}",
    "fleets": "fleets/sharing={}",
    "two to four on one link": "one-link/all",
}
"""Slices of results by the jobs that they are of; what is simulated as over TCP alone has no {}."""
_LEFT = """\
**Sharing links matters more than timing.** On the nearest nodes jobs of Sia's arrivals run {} times
as long as on networks of their own, and at least {} whatever slots, shifts or priorities do there;
where `metronome` places them they run {} times as long, at least {}."""
_GAINS = """\
**You study clusters.** Where 200 jobs come and go on 64 GPUs, in {} regimes of fabric, periods,
bursts, jitter and sharing ({} seeds), mean completion changes by {} against jobs spread over free
GPUs, as Kubernetes does by default, and by {} against the nearest nodes
([map](benchmarks/README.md#what-a-schedule-brings)). Where equal jobs meet on shared uplinks,
windows change it by {}, and no contention at all would by {}."""
_PROOFS = """\
**You solve scheduling problems.** An exact model, stored instances with certificates, and a solver
that proves what textbook models cannot: of {} instances of 13 jobs on 28 links `auto` proves {} in
{} s, our models for CP-SAT {} and for MILP {}, time-indexed CP-SAT as in textbooks {}
([which solver when](docs/solvers.md))."""
_PROVERS = "auto", "cpsat", "milp", "cpsat-textbook"
BASELINES = ("default", "nearest", "exclusive", "cassini", "mltcp", "crux")


def change(figure: Figure | None) -> str:
    """Return a change in per cent with its interval."""
    if figure is None or figure.low is None or figure.high is None:
        return _DASH
    return f"{_signed(figure.mean)} % ({_signed(figure.low)} to {_signed(figure.high)})"


def _signed(value: float) -> str:
    text = f"{value:.1f}"
    return "0.0" if float(text) == 0 else text


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join("--:" if at else "---" for at in range(len(headings)))
    lines = [f"| {' | '.join(headings)} |", f"|{rule}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def map_of_regimes(figures: Figures) -> str:
    """Return what decisions bring by factor and value."""
    return _decisions(figures, "regimes", _regimes())


def _decisions(figures: Figures, part: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return tables of what decisions bring, against the nearest nodes and against `default`."""

    def table(columns: Mapping[str, str], over: str) -> str:
        body = [
            [
                shown,
                _count(figures.get(f"{part}/{label}/seeds")),
                *(_tested(figures, f"{part}/{label}/{each}/{over}") for each in columns.values()),
            ]
            for label, shown in labels
        ]
        return _table(["regime", "seeds", *columns], body)

    labels = list(rows)
    near, far = table(DECISIONS, ""), table({"nearest": "nearest", **DECISIONS}, "over-default/")
    return f"Against the nearest nodes:\n\n{near}\n\nAgainst `default`:\n\n{far}"


def _regimes() -> list[tuple[str, str]]:
    return [
        (label, f"{factor}: {shown}")
        for factor, values in FACTORS.items()
        for label, shown in values.items()
    ]


def _tested(figures: Figures, key: str) -> str:
    """Return a change, with a star if it is not by chance by Holm's procedure over all cells."""
    level = figures.get(f"{key}p")
    star = "*" if level is not None and level.mean <= 0.05 else ""
    return change(figures.get(f"{key}completion")) + star


def _cells(part: str, figures: Figures) -> str:
    """Return what decisions bring in single cells, in the order of the records."""
    labels = dict.fromkeys(
        key.split("/")[1] for key in figures if key.startswith(f"{part}/gpus=") and "," in key
    )
    named = dict(_regimes())
    rows = [
        (label, ", ".join(named[each].replace(": ", " ", 1) for each in label.split(",")))
        for label in labels
    ]
    return _decisions(figures, part, rows) if rows else _NOTHING


def measures(figures: Figures) -> str:
    """Return all measures of policies over all regimes, against `default`."""
    shown = {
        "completion": "mean completion",
        "tail": "99th percentile",
        "weighted": "mean by priority",
        "traffic": "traffic until the last arrival",
        "energy": "energy",
    }
    policies = ("nearest", "cassini", "mltcp", "crux", *DECISIONS.values())
    rows = []
    for policy in ("default", *policies):
        key = f"regimes/all/{policy}"
        changes = (change(figures.get(f"{key}/over-default/{each}")) for each in shown)
        levels = (_level(figures.get(f"{key}/{each}"), 1) for each in ("lost", "met"))
        slots = (_level(figures.get(f"{key}/{each}"), 1) for each in ("fitting", "gated"))
        rows.append([f"`{policy}`", *changes, *levels, *slots])
    groups = ("groups that meet", "that fit", "that are gated")
    return _table(["policy", *shown.values(), "GPU hours lost, %", *groups], rows)


def priority(figures: Figures) -> str:
    """Return slowdown and lateness by priority, for each policy and way of sharing."""
    cells = dict.fromkeys(match[1] for key in figures if (match := _PRIORITIES.match(key)))
    rows = [
        [shown, f"`{policy}`", *_by_priority(figures, f"priority/{cell}/{policy}/")]
        for cell in cells
        for shown in [cell.replace(",", ", ")]
        for policy in ("default", "nearest", "crux", SUBJECT, "ideal")
    ]
    headings = ["priorities, sharing", "policy", "slowdown", "completion over isolated duration"]
    return _table(headings, rows) if rows else _NOTHING


def _by_priority(figures: Figures, key: str) -> Iterator[str]:
    """Yield slowdowns and latenesses of a policy in a cell, by priority."""
    for measure in ("slowdown", "lateness"):
        start = f"{key}{measure}@"
        known = sorted(int(each[len(start) :]) for each in figures if each.startswith(start))
        texts = (f"{each}: {_level(figures[f'{start}{each}'], 2)}" for each in known)
        yield "; ".join(texts) or _DASH


def _level(figure: Figure | None, digits: int) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return _DASH
    return f"{figure.mean:.{digits}f} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"


def jobs(figures: Figures) -> str:
    """Return what `metronome` brings to which jobs, beside a network that does without it."""
    rows = []
    for shown, part in _JOBS.items():
        fair, tcp = (part.format(each) for each in SHARING)
        gain = change(figures.get(f"{fair}/metronome/completion")) if fair != tcp else _DASH
        policies = "metronome", "mltcp", "ideal"
        others = (change(figures.get(f"{tcp}/{each}/completion")) for each in policies)
        rows.append([shown, _count(figures.get(f"{tcp}/seeds")), gain, *others])
    return _table(["jobs", "seeds", *SHARING.values(), "MLTCP, as over TCP", "no contention"], rows)


def gains(figures: Figures) -> str:
    """Return a sentence on what places and windows bring."""
    changes = [
        change(figures.get(key))
        for key in (
            "regimes/all/metronome/over-default/completion",
            "regimes/all/metronome/completion",
            "fleets/sharing=fair/metronome/completion",
            "fleets/sharing=fair/ideal/completion",
        )
    ]
    counts = [_count(figures.get(f"regimes/{key}")) for key in ("cells", "all/seeds")]
    return _NOTHING if _DASH in changes else _GAINS.format(*counts, *changes)


def proofs(figures: Figures) -> str:
    """Return a sentence on what solvers prove of the instances drawn like the paper's."""
    solved = [_count(figures.get(f"solvers/paper/{each}/solved")) for each in _PROVERS]
    if _DASH in solved:
        return _NOTHING
    count = _count(figures.get("solvers/paper/auto/instances"))
    race = read_plan()["solvers"]
    limit = race.time_limit if isinstance(race, Race) else _DASH
    return _PROOFS.format(count, solved[0], limit, *solved[1:])


def left(figures: Figures) -> str:
    """Return a sentence on what slots could bring at most, beside the nearest nodes."""
    numbers = [
        _number(figures.get(f"sia/sharing=tcp/{policy}/{each}"))
        for policy in ("nearest", SUBJECT)
        for each in ("running", "estimate")
    ]
    return _NOTHING if _DASH in numbers else _LEFT.format(*numbers)


def _policies(figures: Figures, part: str, labels: Mapping[str, str], heading: str) -> str:
    policies = [
        each
        for each in (*BASELINES, "metronome", "ideal")
        if f"{part}/all/{each}/completion" in figures
    ]
    rows = [
        [shown, *(change(figures.get(f"{part}/{label}/{each}/completion")) for each in policies)]
        for label, shown in labels.items()
    ]
    return _table([heading, *policies], rows) if policies else _NOTHING


def _part(name: str, heading: str) -> Callable[[Figures], str]:
    """Return what makes the table of a part, all cells and each."""

    def block(figures: Figures) -> str:
        cells = dict.fromkeys(
            key.split("/")[1]
            for key in figures
            if key.startswith(f"{name}/") and key.count("/") == 3
        )
        most = max((cell.count(",") for cell in cells), default=0)
        labels = {c: c.replace(",", ", ") for c in cells if c == "all" or c.count(",") == most}
        return _policies(figures, name, labels, heading)

    return block


def least(figures: Figures) -> str:
    """Return how long jobs run over their time alone, and the least estimated at these places."""
    rows = [
        [
            f"{part}, {network}",
            *(
                f"{_number(figures.get(f'{part}/sharing={sharing}/{policy}/{each}'))}"
                for policy in ("nearest", SUBJECT)
                for each in ("running", "estimate")
            ),
        ]
        for part in ("sia", "muri")
        for sharing, network in SHARING.items()
    ]
    names = "nearest", SUBJECT
    return _table(
        ["arrivals", *(f"{name}{end}" for name in names for end in ("", ", at least"))], rows
    )


def _number(figure: Figure | None) -> str:
    return _DASH if figure is None else f"{figure.mean:.3f}"


def solvers(figures: Figures) -> str:
    """Return how many instances each solver proves, and what gap is left."""
    return _race(figures, "solvers", "solver", "`{}`".format)


def parts(figures: Figures) -> str:
    """Return how many instances `auto` proves, with all its parts and without one of them."""

    def shown(solver: str) -> str:
        part = solver.rpartition("without_")[2].replace("_", " ")
        return "all parts" if solver == "auto" else f"without {part}"

    return _race(figures, "parts", "`auto`", shown)


def _race(figures: Figures, name: str, heading: str, shown: Callable[[str], str]) -> str:
    cases = [key.split("/")[1:3] for key in figures if key.startswith(f"{name}/")]
    suites = list(dict.fromkeys(suite for suite, _ in cases))
    rows = [
        [shown(solver), *(_proved(figures, f"{name}/{suite}/{solver}") for suite in suites)]
        for solver in dict.fromkeys(solver for _, solver in cases)
    ]
    return _table([heading, *suites], rows) if rows else _NOTHING


def _proved(figures: Figures, key: str) -> str:
    """Return how many instances a solver proves, and the mean gap."""
    if f"{key}/solved" not in figures:
        return _DASH
    proved = f"{figures[f'{key}/solved'].mean:.0f} of {figures[f'{key}/instances'].mean:.0f}"
    gap = figures.get(f"{key}/gap")
    return proved + ("" if gap is None else f", {gap.mean:.1f} %")


def published(figures: Figures) -> str:
    """Return published numbers of other systems, figures beside them, and what is not public."""
    if not any("/as-published/" in key for key in figures):
        return _NOTHING
    rows = [
        [
            line.what,
            line.number,
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


def sensitivity(figures: Figures) -> str:
    """Return mean completion with other constants, and with another network assumed."""
    policies = dict.fromkeys(
        key.split("/")[2]
        for key in figures
        if key.startswith("sensitivity/all/metronome") and key.endswith("/completion")
    )
    rows = [
        [
            f"`{policy}`",
            *(
                change(figures.get(f"sensitivity/sharing={sharing}/{policy}/completion"))
                for sharing in SHARING
            ),
        ]
        for policy in policies
    ]
    return _table(["policy", *SHARING.values()], rows) if rows else _NOTHING


def origin(figures: Figures) -> str:
    """Return where the records come from."""
    rows = [
        (
            name,
            _count(figures.get(f"{name}/seeds")),
            ", ".join(entry.commits),
            ", ".join(entry.machines),
            f"{entry.records:,}",
            f"{entry.left:,}",
            f"{entry.seconds / 3600:.1f}",
        )
        for name, entry in read_index().parts.items()
    ]
    headings = ["part", "seeds", "commit", "machine", "runs", "left", "hours of a core"]
    return _table(headings, rows)


def _count(figure: Figure | None) -> str:
    return _DASH if figure is None else f"{figure.mean:.0f}"


BLOCKS: Mapping[str, Callable[[Figures], str]] = {
    "gains": gains,
    "proofs": proofs,
    "map": map_of_regimes,
    **{part: partial(_cells, part) for part in ("corners", "contended")},
    "measures": measures,
    "priority": priority,
    "jobs": jobs,
    "left": left,
    **{
        name: _part(name, heading)
        for name, heading in (
            ("one-link", "mix"),
            ("fleets", "jobs, periods apart, sharing"),
            ("sia", "sharing, jitter"),
            ("muri", "sharing, jitter"),
        )
    },
    "least": least,
    "sensitivity": sensitivity,
    "solvers": solvers,
    "parts": parts,
    "published": published,
    "origin": origin,
}
"""Blocks by the names that documents use."""
