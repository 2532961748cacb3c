"""Fractions of the grid of `regimes`: cells of a screening, and corners; this prints them.

The screening is a nearly orthogonal array of strength 2 with mixed levels (Xu, Technometrics 44,
2002): 36 cells in which all values of a factor are equally frequent, and all pairs of values of two
factors to within one cell, so that the mean over the cells with a value compares equal mixes of the
other factors. An orthogonal one would need 144 cells, since two factors have four values and two
three. Columns are improved by exchanges, as there. Corners are the fraction of resolution IV of the
two extreme values of seven factors, 2^(7-3) with E = ABC, F = BCD and G = ACD (Box, Hunter and
Hunter, Statistics for Experimenters, 1978): no effect of a factor is mixed up with that of a pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from random import Random

FACTORS: Mapping[str, tuple[int | float | str, ...]] = {
    "gpus": (1, 2, 4, 8),
    "oversubscription": (1, 2, 4),
    "spines": (1, 4),
    "periods": ("equal", "harmonic", "free"),
    "busy": (0.2, 0.35, 0.45),
    "jitter": (0.0, 0.01, 0.02, 0.05),
    "sharing": ("fair", "tcp"),
}
"""Values of the factors of `regimes`; the first three are those of a cluster."""

_CELLS = 36
_GPUS = 64
Columns = Sequence[Sequence[int]]


def screening(seed: int = 0) -> list[str]:
    """Return the cells of the screening."""
    random = Random(seed)
    levels = [len(values) for values in FACTORS.values()]
    while True:
        columns = [[row % count for row in range(_CELLS)] for count in levels]
        for column in columns:
            random.shuffle(column)
        if _improve(columns, random):
            return sorted({_cell(row) for row in zip(*columns, strict=True)})


def _improve(columns: list[list[int]], random: Random) -> bool:
    """Exchange values within columns until all pairs of columns are balanced, or it takes long."""
    imbalance = _imbalance(columns)
    for _ in range(20_000):
        if not imbalance:
            return True
        column = random.choice(columns)
        one, two = random.sample(range(_CELLS), 2)
        column[one], column[two] = column[two], column[one]
        changed = _imbalance(columns)
        if changed > imbalance:
            column[one], column[two] = column[two], column[one]
        imbalance = min(imbalance, changed)
    return False


def _imbalance(columns: Columns) -> int:
    """Return by how many cells pairs of values are more or less frequent than to within one."""
    total = 0
    for one, two in combinations(columns, 2):
        pairs = (max(one) + 1) * (max(two) + 1)
        least, most = _CELLS // pairs, -(-_CELLS // pairs)
        counts = Counter(zip(one, two, strict=True))
        total += sum(max(0, count - most) for count in counts.values())
        total += sum(max(0, least - count) for count in counts.values())
        total += least * (pairs - len(counts))
    return total


def is_balanced(cells: Sequence[str]) -> bool:
    """Return whether all pairs of values are equally frequent to within one cell."""
    rows = {_cell(row): row for row in product(*map(range, map(len, FACTORS.values())))}
    columns = list(zip(*(rows[cell] for cell in cells), strict=True))
    return len(cells) == _CELLS and not _imbalance(columns)


def corners() -> list[str]:
    """Return the cells of extreme values."""
    rows = []
    for a, b, c, d in product((0, 1), repeat=4):
        signs = (a, b, c, d, a ^ b ^ c, b ^ c ^ d, a ^ c ^ d)
        ends = zip(signs, FACTORS.values(), strict=True)
        rows.append(_cell([sign * (len(values) - 1) for sign, values in ends]))
    return rows


def _cell(row: Sequence[int]) -> str:
    """Return the settings of a cell of the study, by the indices of its values."""
    gpus, uplinks, spines, *others = (
        values[index] for index, values in zip(row, FACTORS.values(), strict=True)
    )
    settings = {"cluster": f"{gpus}x{_GPUS // int(gpus)}-{uplinks}to1-{spines}"}
    settings |= {name: str(value) for name, value in zip([*FACTORS][3:], others, strict=True)}
    return ",".join(f"{name}={value}" for name, value in settings.items())


if __name__ == "__main__":
    for title, cells in (("screening", screening()), ("corners", corners())):
        print(f"{title}:", *(f'    - "{cell}"' for cell in cells), sep="\n")  # noqa: T201
