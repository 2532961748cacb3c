"""Tables of the paper, each a ``tabular`` made of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from benchmarks.evaluation.blocks import FACTORS
from benchmarks.evaluation.figures import (
    NODES,
    PLACES,
    SLOTS,
    SUBJECT,
    Figures,
    differs,
    named_settings,
    settings_label,
)
from benchmarks.evaluation.plan import Part, read_plan
from benchmarks.evaluation.published import AGAINST, PUBLISHED, UNITS
from paper.values import number, tex, with_half

_ROWS = {
    **{each: f"\\of{{{each}}}" for each in ("default", "nearest", "exclusive")},
    **{each: f"\\of{{{each}}}" for each in ("cassini", "mltcp", "crux")},
    SLOTS: "windows only",
    NODES: "nodes only",
    PLACES: "no windows",
    SUBJECT: f"\\of{{{SUBJECT}}}",
    "ideal": "no contention",
}
"""Policies by the headings of their rows."""


class _Column(NamedTuple):
    """A column of `policies`: a slice of results, a measure, and how both are called."""

    group: str
    heading: str
    label: str
    measure: str = "completion"


_COLUMNS = (
    _Column("screening", "saturated", "regimes/all", "saturated"),
    _Column("screening", "mean, \\of{default}", "regimes/all", "over-default/completion"),
    _Column("screening", "mean", "regimes/all"),
    _Column("screening", "tail", "regimes/all", "tail"),
    _Column("contended", "mean", "contended/all"),
    _Column("contended", "tail", "contended/all", "tail"),
    _Column("contended", "lost, \\%", "contended/all", "lost"),
    _Column("arrivals", "Sia", "sia/all"),
    _Column("arrivals", "Muri", "muri/all"),
    _Column("given placement", "fleets", "fleets/all"),
    _Column("given placement", "one link", "one-link/all"),
)
_SPREAD = ("screening", "contended")  # what spreading costs there is stated by what packing brings
_SETTINGS = {"gpus": "GPUs", "uplinks": "uplinks", "spines": "spines", "periods": "periods"}
_SETTINGS |= {"busy": "send, \\%", "jitter": "jitter, \\%", "sharing": "sharing"}
_BROUGHT = (
    ("packing", "nearest", "over-default/"),
    ("all", SUBJECT, "over-default/"),
    ("windows only", SLOTS, ""),
    ("no windows", PLACES, ""),
    ("all", SUBJECT, ""),
    ("no contention", "ideal", ""),
)
"""Columns of `cells`: heading, policy, and what it is compared with."""

_CLASSES = (
    ("1/10", "slowdown", ("1", "10")),
    ("1/10", "lateness", ("1", "10")),
    ("1/4/16", "slowdown", ("1", "4", "16")),
    ("1/4/16", "lateness", ("1", "4", "16")),
)
"""Columns of `priority`: weights of classes, a measure, and classes."""

_NETWORKS = {"fair": "fair", "tcp": "TCP"}
_PLANNED = {
    SUBJECT: "as it is",
    f"{SUBJECT}:network=fair": "planned for fair sharing",
    f"{SUBJECT}:network=tcp": "planned for TCP",
    f"{SUBJECT}:lengths=rough": "lengths known to a factor of two",
    f"{SUBJECT}:lengths=unknown": "lengths unknown",
}
_FAMILIES = ("single", "paper", "weights", "coprime", "fabric", "dense")
_SOLVERS = {"auto": "auto", "cpsat": "cpsat", "textbook.py:cpsat": "textbook"}
_CASES = ("three", "unlike", "fleet-2", "fleet-3", "fleet-4", "fleet-6")
_JITTER = ("0.01", "0.03", "0.05")
_PAIRS, _QUEUES = ("two", "three", "unlike"), ("20", "5", "2", "1")
_NONE = "--"


def _tabular(
    columns: str, head: Sequence[str], rows: Iterable[Sequence[str]], top: Sequence[str] = ()
) -> str:
    lines = [f"{' & '.join(each)} \\\\" for each in (top, head, *rows) if each]
    lines.insert(2 if top else 1, "\\midrule")
    begin = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}"
    return "\n".join([begin, "\\toprule", *lines, "\\bottomrule", "\\end{tabular}", ""])


def _spans(groups: Iterable[str]) -> list[str]:
    """Return the cells of a heading above others, one for those of a group that stand together."""
    counts: dict[str, int] = {}
    for each in groups:
        counts[each] = counts.get(each, 0) + 1
    return [f"\\multicolumn{{{count}}}{{c}}{{{each}}}" for each, count in counts.items()]


def _part(name: str) -> Part:
    return cast("Part", read_plan()[name])  # a study, no race of solvers


def policies(figures: Figures) -> str:
    """Return by how much policies change completion, in all studies."""

    def cell(policy: str, column: _Column) -> str:
        part = _part(column.label.split("/")[0])
        planned = part.policies
        base = next(each for each in ("nearest", "default") if each in planned)
        base = "default" if column.measure.startswith("over-default") else base
        is_level = column.measure in ("lost", "saturated")
        if policy not in planned or (policy == base and not is_level):
            return _NONE
        if policy == "default" and column.group in _SPREAD and not is_level:
            return _NONE
        if policy == "ideal" and part.is_by_placement:
            return _NONE
        macro = "num" if column.measure == "saturated" else "ci"
        return tex(figures, f"{column.label}/{policy}/{column.measure}", macro, small=True)

    rows = ([shown, *(cell(policy, each) for each in _COLUMNS)] for policy, shown in _ROWS.items())
    top = ["", *_spans(each.group for each in _COLUMNS)]
    head = ["", *(each.heading for each in _COLUMNS)]
    return _tabular("l" + "r" * len(_COLUMNS), head, rows, top)


def cells(figures: Figures) -> str:
    """Return what decisions bring in contended cells and at corners, marked where tests say so."""

    def change(key: str) -> str:
        figure = figures.get(f"{key}completion")
        if figure is None or not differs(figures, key):
            return tex(figures, f"{key}completion", "ci", small=True)
        return with_half(figure, "{:+.2f}" if abs(figure.mean) < 0.05 else "{:+.1f}") + "\\tested"

    shown = {label: text for values in FACTORS.values() for label, text in values.items()}
    rows = []
    for part in ("contended", "corners"):
        rows.append([f"\\emph{{{part}}}"])
        chosen = [_settings(cell) for cell in _part(part).cells]
        kept = [each for each in chosen if each.get("gpus") != "1"]
        labels: list[Mapping[str, str]] = [*kept, *([{"gpus": "1"}] if kept != chosen else [])]
        for each in labels:
            texts = [
                shown[f"{name}={each[name]}"].rstrip(" %") if name in each else "all"
                for name in _SETTINGS
            ]
            key = f"{part}/{settings_label(each)}"
            changes = (change(f"{key}/{policy}/{over}") for _, policy, over in _BROUGHT)
            rows.append([*texts, *changes])
    over = ("\\of{default}", "\\of{nearest}")
    spans = _spans(f"against {over[not each]}" for _, _, each in _BROUGHT)
    head = [*_SETTINGS.values(), *(heading for heading, _, _ in _BROUGHT)]
    columns = "l" * len(_SETTINGS) + "r" * len(_BROUGHT)
    return _tabular(columns, head, rows, [*[""] * len(_SETTINGS), *spans])


def _settings(cell: str) -> Mapping[str, str]:
    """Return the settings of a cell of the plan."""
    return named_settings(dict(each.split("=") for each in cell.split(",")))


def published(figures: Figures) -> str:
    """Return published numbers, and figures beside them: a mean, and the best run."""

    def beside(key: str, measure: str) -> str:
        mean, most = figures.get(key), figures.get(f"{key}/most")
        if mean is None or most is None:
            return _NONE
        form = "{:+.1f}" if measure in UNITS else "{:.2f}"
        return f"{with_half(mean, form)} up to {number(most.mean, form)}"

    rows = [
        [
            line.what if policy == line.policies[0] else "",
            line.number.replace("%", "\\%") if policy == line.policies[0] else "",
            f"\\of{{{policy}}}",
            *(beside(line.key(policy, each), line.measure) for each in AGAINST),
        ]
        for line in PUBLISHED
        for policy in line.policies
    ]
    head = ["", "as published", "here", *(f"against \\of{{{each}}}" for each in AGAINST)]
    return _tabular("llllll", head, rows)


def priority(figures: Figures) -> str:
    """Return slowdown and lateness by priority, for each policy and way of sharing."""
    columns = [
        (weights, measure, each) for weights, measure, classes in _CLASSES for each in classes
    ]

    def cell(key: str) -> str:
        figure = figures.get(key)
        return tex({}, key) if figure is None else with_half(figure, "{:.3f}")

    part, rows = _part("priority"), []
    for sharing in ("fair", "weighted", "strict"):
        rows.append([f"\\emph{{{sharing}}}"])
        for policy in part.policies[:-1]:  # not without contention
            keys = (
                f"priority/priorities={weights},sharing={sharing}/{policy}/{measure}@{each}"
                for weights, measure, each in columns
            )
            rows.append([_ROWS[policy], *(cell(key) for key in keys)])
    top = ["", *_spans(f"{measure}, {weights}" for weights, measure, _ in columns)]
    head = ["", *(each for _, _, each in columns)]
    return _tabular("l" + "r" * len(columns), head, rows, top)


def sensitivity(figures: Figures) -> str:
    """Return mean completion with another network assumed, and with less knowledge."""
    rows = []
    for policy, shown in _PLANNED.items():
        keys = (f"sensitivity/sharing={each}/{policy}/completion" for each in _NETWORKS)
        rows.append([shown, *(tex(figures, key, "ci", small=True) for key in keys)])
    return _tabular("lrr", ["", *_NETWORKS.values()], rows)


def testbed(figures: Figures) -> str:
    """Return mean iterations over periods on real TCP, ungated and in windows, by jitter."""
    keys = [f"{jitter}/{kind}" for jitter in _JITTER for kind in ("free", "gated")]
    rows = ([case, *(tex(figures, f"testbed/{case}/{key}") for key in keys)] for case in _CASES)
    top = ["", *_spans(f"{100 * float(each):g}\\,\\%" for each in _JITTER for _ in range(2))]
    return _tabular("l" + "r" * 6, ["", *("ungated", "gated") * 3], rows, top)


def queues(figures: Figures) -> str:
    """Return the same by length of the queue, in ms, and beside packets and both simulations."""
    keys = [*(f"{each}/free" for each in _QUEUES), "20/gated", "1/gated"]
    rows = (
        [case, *(tex(figures, f"testbed/queues/{case}/{key}") for key in keys)] for case in _PAIRS
    )
    top = ["", *_spans([*["ungated"] * len(_QUEUES), *["gated"] * 2])]
    head = ["", *_QUEUES, "20", "1"]
    return _tabular("l" + "r" * len(keys), head, rows, top)


def transport(figures: Figures) -> str:
    """Return mean iterations over periods packet by packet over DCQCN, and as the engine has it."""
    networks = {"dcqcn": "DCQCN", **_NETWORKS}
    keys = [f"{each}/{kind}" for each in networks for kind in ("free", "gated")]
    cases = {"together": "two", "three": "three", "unlike": "unlike"}
    rows = (
        [shown, *(tex(figures, f"ns3/{case}/{key}") for key in keys)]
        for case, shown in cases.items()
    )
    top = ["", *_spans(each for each in networks.values() for _ in range(2))]
    return _tabular("l" + "r" * 6, ["", *("ungated", "gated") * 3], rows, top)


def solvers(figures: Figures) -> str:
    """Return how many instances are proved in time, and the gap that is left, by family."""
    rows = (
        [
            f"\\of{{{family}}}",
            tex(figures, f"solvers/{family}/auto/instances", "num"),
            *(tex(figures, f"solvers/{family}/{each}/solved", "num") for each in _SOLVERS),
            tex(figures, f"solvers/{family}/auto/gap"),
        ]
        for family in _FAMILIES
    )
    head = ["", "instances", *(f"\\of{{{each}}}" for each in _SOLVERS.values()), "gap, \\%"]
    return _tabular("lrrrrr", head, rows)


TABLES: Mapping[str, Callable[[Figures], str]] = {
    each.__name__: each
    for each in (
        *(policies, cells, published, priority, sensitivity),
        *(testbed, queues, transport, solvers),
    )
}
"""Tables by the names that the text uses."""
