"""Tables of the paper, each a ``tabular`` made of figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.evaluation.blocks import BASELINES, DECISIONS, FACTORS, SHARING
from benchmarks.evaluation.figures import Figures
from benchmarks.evaluation.plan import Part, read_plan
from paper.values import tex

_POLICIES = (*(each for each in BASELINES if each != "nearest"), "metronome", "ideal")
_NETWORKS = {"fair": "fair", "tcp": "TCP"}
_SHARED = {
    "regimes/": "all regimes",
    "sia/": "arrivals of Sia",
    "muri/": "arrivals of Muri",
}
_ROWS = {
    f"{key}sharing={each}": f"{shown}, {network}"
    for key, shown in _SHARED.items()
    for each, network in _NETWORKS.items()
}
"""Slices of results by the headings of their rows."""

_FAMILIES = ("single", "paper", "weights", "coprime", "fabric", "dense")
_SOLVERS = {"auto": "auto", "cpsat": "cpsat", "textbook.py:cpsat": "textbook"}
_CASES = ("three", "unlike", "fleet-2", "fleet-3", "fleet-4", "fleet-6")
_JITTER = ("0.01", "0.03", "0.05")
_PAIRS, _QUEUES = ("two", "three", "unlike"), ("20", "5", "2", "1")


def _tabular(
    columns: str, head: Sequence[str], rows: Iterable[Sequence[str]], top: Sequence[str] = ()
) -> str:
    lines = [f"{' & '.join(each)} \\\\" for each in (top, head, *rows) if each]
    lines.insert(2 if top else 1, "\\midrule")
    begin = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}"
    return "\n".join([begin, "\\toprule", *lines, "\\bottomrule", "\\end{tabular}", ""])


def _planned(name: str) -> tuple[str, ...]:
    part = read_plan()[name]
    return part.policies if isinstance(part, Part) else ()


def policies(figures: Figures) -> str:
    """Return by how much mean completion changes against the nearest nodes, for each policy."""

    def cell(key: str, policy: str) -> str:
        if policy not in _planned(key.split("/")[0]):
            return "--"
        return tex(figures, f"{key}/{policy}/completion", "ci", small=True)

    rows = ([shown, *(cell(key, each) for each in _POLICIES)] for key, shown in _ROWS.items())
    head = ["", *(f"\\of{{{each}}}" for each in _POLICIES)]
    return _tabular("l" + "r" * len(_POLICIES), head, rows)


def attribution(figures: Figures) -> str:
    """Return what decisions bring in each regime, against `default` and the nearest nodes."""
    over = ("over-default/", "")
    rows = (
        [
            f"{factor}: {shown}".replace("%", "\\%"),
            *(
                tex(figures, f"regimes/{label}/{policy}/{each}completion", "ci", small=True)
                for each in over
                for policy in DECISIONS.values()
            ),
        ]
        for factor, values in FACTORS.items()
        for label, shown in values.items()
    )
    span = len(DECISIONS)
    top = [
        "",
        *(f"\\multicolumn{{{span}}}{{c}}{{against {each}}}" for each in ("default", "nearest")),
    ]
    return _tabular("l" + "r" * 2 * span, ["", *DECISIONS, *DECISIONS], rows, top)


def least(figures: Figures) -> str:
    """Return mean slowdown and the least that is estimated, at two choices of places."""
    ends = ("nearest/running", "nearest/estimate", "metronome/running", "metronome/estimate")
    estimated = {key: text for key, text in _ROWS.items() if not key.startswith("regimes")}
    rows = (
        [text, *(tex(figures, f"{key}/{end}") for end in ends)] for key, text in estimated.items()
    )
    head = ["", "\\of{nearest}", "at least", "\\of{metronome}", "at least"]
    return _tabular("lrrrr", head, rows)


def sensitivity(figures: Figures) -> str:
    """Return mean completion with other constants and networks."""
    rows = []
    for policy in _planned("sensitivity")[1:]:
        keys = (f"sensitivity/sharing={each}/{policy}/completion" for each in _NETWORKS)
        options = policy.partition(":")[2].replace(":", ", ") or "as it is"
        rows.append([options, *(tex(figures, key, "ci", small=True) for key in keys)])
    return _tabular("lrr", ["", *SHARING.values()], rows)


def testbed(figures: Figures) -> str:
    """Return mean iterations over periods on real TCP, free and in slots, by jitter."""
    keys = [f"{jitter}/{kind}" for jitter in _JITTER for kind in ("free", "gated")]
    rows = ([case, *(tex(figures, f"testbed/{case}/{key}") for key in keys)] for case in _CASES)
    top = ["", *(f"\\multicolumn{{2}}{{c}}{{{100 * float(each):g}\\,\\%}}" for each in _JITTER)]
    return _tabular("l" + "r" * 6, ["", *("free", "slots") * 3], rows, top)


def queues(figures: Figures) -> str:
    """Return the same by length of the queue, in ms."""
    keys = [*(f"{each}/free" for each in _QUEUES), "20/gated", "1/gated"]
    cases = {case: [f"testbed/queues/{case}/{key}" for key in keys] for case in _PAIRS}
    rows = ([case, *(tex(figures, key) for key in cases[case])] for case in cases)
    return _tabular("l" + "r" * 6, ["", *_QUEUES, "20, slots", "1, slots"], rows)


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
    for each in (policies, attribution, least, sensitivity, testbed, queues, solvers)
}
"""Tables by the names that the text uses."""
