"""Blocks of documents: tables of figures, in Markdown. What is not recorded is a dash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.evaluation.figures import Figure, Figures
from benchmarks.evaluation.recorded import read_index

_DASH = "-"
_NOTHING = "Nothing is recorded of this part yet."
GPUS = ("1", "2", "4", "8")
UPLINKS = {"1to1": "1:1", "2to1": "2:1", "4to1": "4:1"}
SHARING = {"fair": "fair shares", "tcp": "as over TCP"}
_JOBS = {
    "many models, uplinks 1:1": "topologies/uplinks=1to1,sharing={}",
    "many models, uplinks 2:1": "topologies/uplinks=2to1,sharing={}",
    "many models, uplinks 4:1": "topologies/uplinks=4to1,sharing={}",
    "many models, 24 nodes": "dynamic/all",
    "the same, there from the beginning": "static/all",
    "groups of alike jobs": "sweeps/sharing={}",
    "arrivals of Sia": "sia/sharing={}",
    "arrivals of Muri": "muri/sharing={}",
    "fleet of 4": "fleets/cluster=ring-4,sharing={}",
    "fleet of 12": "fleets/cluster=ring-12,sharing={}",
    "two to four on one link": "one-link/all",
}
"""Slices of results by the jobs that they are of; what is simulated as over TCP alone has no {}."""
_LEFT = """\
**Sharing links matters more than timing.** On the nearest nodes of these clusters jobs
run {} times as long as on networks of their own, and links allow an estimated {} there,
whatever slots, shifts and priorities do; where `metronome` places them they run {} times as long
without slots, and links allow {}."""
BASELINES = ("default", "balanced", "exclusive", "cassini", "mltcp", "crux")


def change(figure: Figure | None) -> str:
    """Return a change in per cent with its interval."""
    if figure is None:
        return _DASH
    if figure.low is None or figure.high is None:
        return f"{_signed(figure.mean)} %"
    return f"{_signed(figure.mean)} % ({_signed(figure.low)} to {_signed(figure.high)})"


def _signed(value: float) -> str:
    text = f"{value:.1f}"
    return "0.0" if float(text) == 0 else text


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join("--:" if at else "---" for at in range(len(headings)))
    lines = [f"| {' | '.join(headings)} |", f"|{rule}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def decisions(figures: Figures) -> str:
    """Return what each decision brings, by GPUs of a node and sharing, with uplinks of 2:1."""
    rows = []
    for sharing, network in SHARING.items():
        for gpus in GPUS:
            key = f"topologies/gpus={gpus},uplinks=2to1,sharing={sharing}"
            rows.append(
                [
                    f"{gpus}, {network}",
                    _count(figures.get(f"{key}/seeds")),
                    change(figures.get(f"{key}/packing")),
                    *(change(figures.get(f"{key}/{each}/shapley")) for each in ("places", "waits")),
                    change(figures.get(f"{key}/slots/shapley")),
                    change(figures.get(f"{key}/periods/last")),
                    change(figures.get(f"{key}/together")),
                    change(figures.get(f"{key}/ideal/completion")),
                ]
            )
    headings = [
        "GPUs of a node",
        "seeds",
        "packing",
        "places",
        "waiting",
        "slots",
        "of that, longer periods",
        "together",
        "no contention",
    ]
    return _table(headings, rows)


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


def left(figures: Figures) -> str:
    """Return a sentence on what slots could bring at most, beside the nearest nodes."""
    numbers = [
        _number(figures.get(f"topologies/uplinks=2to1,sharing=tcp/{policy}/{each}"))
        for policy in ("nearest", "metronome:slots=no")
        for each in ("running", "estimate")
    ]
    return _LEFT.format(*numbers)


def topologies(figures: Figures) -> str:
    """Return mean completion of each policy by uplinks and sharing."""
    return _policies(
        figures,
        "topologies",
        {
            f"uplinks={uplinks},sharing={sharing}": f"{shown}, {network}"
            for sharing, network in SHARING.items()
            for uplinks, shown in UPLINKS.items()
        },
        "uplinks",
    )


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
    policies = "nearest", "metronome:slots=no", "metronome"
    rows = [
        [
            f"{shown}, {network}",
            *(
                f"{_number(figures.get(f'{key}/{policy}/{each}'))}"
                for policy in policies
                for each in ("running", "estimate")
            ),
        ]
        for sharing, network in SHARING.items()
        for uplinks, shown in UPLINKS.items()
        for key in [f"topologies/uplinks={uplinks},sharing={sharing}"]
    ]
    names = "nearest", "without slots", "metronome"
    heads = (f"{name}{end}" for name in names for end in ("", ", at least"))
    return _table(["uplinks", *heads], rows)


def _number(figure: Figure | None) -> str:
    return _DASH if figure is None else f"{figure.mean:.3f}"


def solvers(figures: Figures) -> str:
    """Return how many instances each solver proves, in what time, and what gap is left."""
    cases = [key.split("/")[1:3] for key in figures if key.startswith("solvers/")]
    suites = list(dict.fromkeys(suite for suite, _ in cases))
    rows = []
    for solver in dict.fromkeys(solver for _, solver in cases):
        row = [f"`{solver}`"]
        for suite in suites:
            key = f"solvers/{suite}/{solver}"
            if f"{key}/solved" not in figures:
                row.append(_DASH)
                continue
            shown = f"{figures[f'{key}/solved'].mean:.0f} of {figures[f'{key}/instances'].mean:.0f}"
            gap = figures.get(f"{key}/gap")
            row.append(shown + ("" if gap is None else f", {gap.mean:.1f} %"))
        rows.append(row)
    return _table(["solver", *suites], rows) if rows else _NOTHING


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
    "decisions": decisions,
    "jobs": jobs,
    "left": left,
    "topologies": topologies,
    **{
        name: _part(name, heading)
        for name, heading in (
            ("sweeps", "sharing, jitter"),
            ("dynamic", "load, mix"),
            ("static", "places, mix"),
            ("one-link", "mix"),
            ("fleets", "jobs, periods apart, sharing"),
            ("sia", "sharing, jitter"),
            ("muri", "sharing, jitter"),
        )
    },
    "least": least,
    "sensitivity": sensitivity,
    "solvers": solvers,
    "origin": origin,
}
"""Blocks by the names that documents use."""
